"""The delete ledger in every target database (invariant tombstone-under-open-chunk).

While a table's copy is open, a delete leaves a row here in its own transaction. The copy, after inserting, takes out
what the ledger names; a later write of the key removes the row; the delayed message of an empty delete closes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from migrate.model.change import Key, key_json
from migrate.model.coordinate import Coordinate
from migrate.model.table import Column, Table, TableId
from migrate.mysql.connection import Connection
from migrate.mysql.keys import weights
from migrate.target import key_notes
from migrate.target.key_notes import BATCH, PLACE

LEDGER = "_migrate_ledger"
GROUP = "*"
"""Stands for a source, or for a database, where a group's name stands for a table. No source and no database is called
so: in the config it would be a pattern."""
_FIELDS = "key_text, key_hash, incarnation, file_no, tx, ordinal, was_empty"
_WEIGHED = 200


@dataclass(frozen=True, slots=True)
class Entry:
    key: Key
    key_hash: bytes
    coordinate: Coordinate
    was_empty: bool


def key_hashes(connection: Connection, table: Table, keys: Sequence[Key]) -> list[bytes]:
    """SHA-256 of each key as the server compares it, so that 'ABC' and 'abc' meet under a _ci collation."""
    if table.key_is_exact:
        return [hashlib.sha256(key_json(key).encode()).digest() for key in keys]
    found: list[bytes] = []
    for start in range(0, len(keys), _WEIGHED):
        found += _weighed(connection, table.key_columns, keys[start : start + _WEIGHED])
    return found


def _weighed(connection: Connection, columns: Sequence[Column], keys: Sequence[Key]) -> list[bytes]:
    found = [weights(columns, key, connection.flavour) for key in keys]
    hashes = ", ".join(f"SHA2({sql}, 256)" for sql, _ in found)
    row = connection.one(f"SELECT {hashes}", [value for _, values in found for value in values])
    return [bytes.fromhex(str(one)) for one in row or ()]


class Spellings:
    """Which keys of a table are one with a certain key, as the server compares them."""

    def __init__(self, connect: Callable[[], Connection], table: Table, key: Key) -> None:
        """connect: gives a session at a server that compares them so."""
        self._connect = connect
        self._table = table
        self.key = key
        self._same = {key: True}

    def same(self, keys: Iterable[Key]) -> set[Key]:
        """Those of these that are."""
        wanted = {*keys}
        if self._table.key_is_exact:
            return wanted & {self.key}
        new = [key for key in wanted if key not in self._same]
        if new:
            mine, *theirs = key_hashes(self._connect(), self._table, [self.key, *new])
            self._same |= {key: found == mine for key, found in zip(new, theirs, strict=True)}
        return {key for key in wanted if self._same[key]}

    @property
    def is_exact(self) -> bool:
        """Whether only this text is this key."""
        return self._table.key_is_exact


def put(
    connection: Connection,
    migration: str,
    table: Table,
    place: str,
    deletes: Sequence[tuple[Key, bytes, Coordinate, bool]],
) -> None:
    """Note deletes: (key, its hash, coordinate, whether no row was there). A later delete replaces an earlier."""
    entries = [(key, key_hash, at, int(was_empty)) for key, key_hash, at, was_empty in deletes]
    key_notes.put(connection, LEDGER, migration, table, place, entries, ["was_empty"])


def remove(connection: Connection, migration: str, table: Table, place: str, hashes: Sequence[bytes]) -> None:
    """A key was written again, or its delete is settled."""
    key_notes.remove(connection, LEDGER, migration, table, place, hashes)


def any_locked(connection: Connection, migration: str, table: Table, place: str) -> bool:
    """Whether the ledger names a key of this place, asked after every delete or write in flight there has ended.

    The full copy asks so inside its transaction, once its rows are inserted.
    """
    row = (migration, table.source, place)
    return connection.one(f"SELECT 1 FROM {LEDGER} WHERE {PLACE} LIMIT 1 LOCK IN SHARE MODE", row) is not None


def locked(connection: Connection, migration: str, table: Table, place: str) -> list[Entry]:
    """Every entry of a place, locked: what the copy must take out again after inserting."""
    rows = connection.query(
        f"SELECT {_FIELDS} FROM {LEDGER} WHERE {PLACE} FOR UPDATE",
        (migration, table.source, place),
    )
    return [_entry(row) for row in rows]


def find(
    connection: Connection, migration: str, table: Table, place: str, hashes: Iterable[bytes]
) -> dict[bytes, Entry]:
    """The entries of these keys, locked, by hash."""
    wanted = list(hashes)
    found: dict[bytes, Entry] = {}
    for start in range(0, len(wanted), BATCH):
        part = wanted[start : start + BATCH]
        marks = ", ".join(["%s"] * len(part))
        rows = connection.query(
            f"SELECT {_FIELDS} FROM {LEDGER} WHERE {PLACE} AND key_hash IN ({marks}) FOR UPDATE",
            (migration, table.source, place, *part),
        )
        found.update((entry.key_hash, entry) for entry in map(_entry, rows))
    return found


def waiting(connection: Connection, migration: str) -> int:
    """How many empty deletes still wait for their delayed message in this database."""
    row = connection.one(f"SELECT COUNT(*) FROM {LEDGER} WHERE migration = %s AND was_empty = 1", (migration,))
    return int(row[0]) if row else 0


def waiting_at(connection: Connection, migration: str, table: Table, place: str) -> list[Entry]:
    """The empty deletes of a place that wait for their delayed message."""
    rows = connection.query(
        f"SELECT {_FIELDS} FROM {LEDGER} WHERE {PLACE} AND was_empty = 1", (migration, table.source, place)
    )
    return [_entry(row) for row in rows]


def clean_up(connection: Connection, migration: str, table: Table, limit: int = 10_000) -> int:
    """Drop the entries of a closed table that no delayed message will come back for. Returns how many."""
    return connection.execute(
        f"DELETE FROM {LEDGER} WHERE migration = %s AND source = %s AND table_schema = %s AND table_name = %s"
        f" AND was_empty = 0 LIMIT {int(limit)}",
        (migration, *table.id),
    )


def any_of(connection: Connection, migration: str) -> bool:
    """Whether there is any entry of a migration in this database."""
    return connection.one(f"SELECT 1 FROM {LEDGER} WHERE migration = %s LIMIT 1", (migration,)) is not None


def forget(connection: Connection, migration: str, id_: TableId) -> None:
    """Drop every entry of a table that is no longer, or not yet, part of the migration."""
    connection.execute(
        f"DELETE FROM {LEDGER} WHERE migration = %s AND source = %s AND table_schema = %s AND table_name = %s",
        (migration, *id_),
    )


def tables(connection: Connection, migration: str) -> set[TableId]:
    """Those that there is any entry of, but for groups."""
    return {
        (str(source), str(schema), str(name))
        for source, schema, name in connection.query(
            f"SELECT DISTINCT source, table_schema, table_name FROM {LEDGER} WHERE migration = %s AND source <> %s",
            (migration, GROUP),
        )
    }


def forget_groups_but(connection: Connection, migration: str, kept: Collection[str]) -> None:
    """Drop every entry of a group that the migration does not have any more."""
    others = f" AND table_name NOT IN ({', '.join(['%s'] * len(kept))})" if kept else ""
    connection.execute(f"DELETE FROM {LEDGER} WHERE migration = %s AND source = %s{others}", (migration, GROUP, *kept))


def _entry(row: tuple[Any, ...]) -> Entry:
    text, key_hash, incarnation, file, transaction, ordinal, was_empty = row
    at = Coordinate(*(int(str(part)) for part in (incarnation, file, transaction, ordinal)))
    return Entry(tuple(json.loads(str(text))), bytes(key_hash), at, bool(was_empty))
