"""Changes that a target refuses and that a person set aside: kept beside the rows, until the target takes them.

A change is a state that its key shall have at a place, so only the latest of a key is kept: a later one takes the place
of an earlier, and ends it once it is written. Nothing of a key overtakes what is parked of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from migrate.model.change import Key, NoChange, Origin, from_stored, key_json, stored
from migrate.model.coordinate import Coordinate
from migrate.model.table import Table, TableId
from migrate.mysql.connection import Connection
from migrate.target import ledger
from migrate.target.decide import Intent

PARKED = "_migrate_parked"
_COPIED = stored(NoChange.COPY).incarnation
_PLACE = "migration = %s AND source = %s AND place = %s"
_TABLE = "migration = %s AND source = %s AND table_schema = %s AND table_name = %s"


@dataclass(frozen=True, slots=True)
class SetAside:
    """Why a change is not written."""

    refusal: str  # in the server's words
    reason: str  # in a person's


@dataclass(frozen=True, slots=True)
class Parked:
    source: str
    place: str
    database: str  # of the source table
    table: str
    key: Key
    origin: Origin
    deletes: bool
    refusal: str
    reason: str
    since: datetime

    @property
    def copied(self) -> bool:
        """Whether it is a row of the full copy, not a change."""
        return self.origin is NoChange.COPY


def put(connection: Connection, migration: str, table: Table, place: str, intent: Intent, why: SetAside) -> None:
    """Keep what a key shall be at a place, instead of what was kept before."""
    remove(connection, migration, table, place, [intent.key])
    (key_hash,) = ledger.key_hashes(connection, table, [intent.key])
    row = None if intent.row is None else json.dumps(intent.row, ensure_ascii=True)
    arguments = (
        *(migration, table.source, place, key_hash, key_json(intent.key), table.database, table.name),
        *(*stored(intent.origin), row, why.refusal, why.reason),
    )
    connection.execute(
        f"INSERT INTO {PARKED} (migration, source, place, key_hash, key_text, table_schema, table_name, incarnation,"
        f" file_no, tx, ordinal, row_text, refusal, reason) VALUES ({', '.join(['%s'] * len(arguments))})",
        arguments,
    )


def remove(
    connection: Connection,
    migration: str,
    table: Table,
    place: str,
    keys: Sequence[Key],
    sources: Iterable[str] | None = None,
    *,
    copied_only: bool = False,
) -> None:
    """A later state of these keys is written. sources: of all tables whose rows go there; None: the table's own.

    copied_only: what is parked of a change stays.
    """
    but = f" AND incarnation = {_COPIED}" if copied_only else ""
    for key_hash in ledger.key_hashes(connection, table, keys):
        for source in sources or (table.source,):
            connection.execute(
                f"DELETE FROM {PARKED} WHERE {_PLACE} AND key_hash = %s{but}", (migration, source, place, key_hash)
            )


def of_changes(connection: Connection, migration: str, table: Table, place: str) -> set[bytes]:
    """The hashes of the keys of which a change is parked at a place, not a copied row."""
    sql = f"SELECT key_hash FROM {PARKED} WHERE {_PLACE} AND incarnation <> %s"
    return {bytes(row[0]) for row in connection.query(sql, (migration, table.source, place, _COPIED))}


def deletes(connection: Connection, migration: str, place: str, sources: Iterable[str]) -> dict[bytes, Coordinate]:
    """The deletes that are parked at a place, by the hash of their key."""
    fields = "key_hash, incarnation, file_no, tx, ordinal"
    sql = f"SELECT {fields} FROM {PARKED} WHERE {_PLACE} AND row_text IS NULL AND incarnation <> %s"
    return {
        bytes(row[0]): Coordinate(*map(int, row[1:]))
        for source in sources
        for row in connection.query(sql, (migration, source, place, _COPIED))
    }


def copied(connection: Connection, migration: str, table: Table) -> dict[str, set[bytes]]:
    """The hashes of the keys of which a copied row of a table is parked, by place."""
    found: dict[str, set[bytes]] = {}
    for place, key_hash in connection.query(
        f"SELECT place, key_hash FROM {PARKED} WHERE migration = %s AND source = %s AND table_schema = %s"
        " AND table_name = %s AND incarnation = %s",
        (migration, *table.id, _COPIED),
    ):
        found.setdefault(str(place), set()).add(bytes(key_hash))
    return found


def give_reason(connection: Connection, migration: str, table: Table, key: Key, reason: str) -> int:
    """A person says why what is parked of a key is set aside; returns at how many places."""
    (key_hash,) = ledger.key_hashes(connection, table, [key])
    return connection.execute(
        f"UPDATE {PARKED} SET reason = %s WHERE {_TABLE} AND key_hash = %s",
        (reason, migration, *table.id, key_hash),
    )


def drop(connection: Connection, migration: str, table: Table, key: Key) -> None:
    """Forget what is parked of a key, at every place of this database."""
    (key_hash,) = ledger.key_hashes(connection, table, [key])
    connection.execute(f"DELETE FROM {PARKED} WHERE {_TABLE} AND key_hash = %s", (migration, *table.id, key_hash))


def forget(connection: Connection, migration: str, id_: TableId) -> None:
    """Drop everything of a table that is no longer, or not yet, part of the migration."""
    connection.execute(f"DELETE FROM {PARKED} WHERE {_TABLE}", (migration, *id_))


def tables(connection: Connection, migration: str) -> set[TableId]:
    """Those that anything is parked of, but for groups."""
    rows = connection.query(
        f"SELECT DISTINCT source, table_schema, table_name FROM {PARKED} WHERE migration = %s AND source <> %s",
        (migration, ledger.GROUP),
    )
    return {(str(source), str(schema), str(name)) for source, schema, name in rows}


def every(connection: Connection, migration: str) -> list[Parked]:
    """Everything that is parked in this database, the oldest first."""
    rows = connection.query(
        "SELECT source, place, table_schema, table_name, key_text, incarnation, file_no, tx, ordinal, row_text IS NULL,"
        f" refusal, reason, created FROM {PARKED} WHERE migration = %s ORDER BY created",
        (migration,),
    )
    return [
        Parked(
            source=str(row[0]),
            place=str(row[1]),
            database=str(row[2]),
            table=str(row[3]),
            key=tuple(json.loads(row[4])),
            origin=from_stored(Coordinate(*(int(part) for part in row[5:9]))),
            deletes=bool(row[9]),
            refusal=str(row[10]),
            reason=str(row[11]),
            since=row[12],
        )
        for row in rows
    ]


def count(connection: Connection, migration: str) -> int:
    row = connection.one(f"SELECT COUNT(*) FROM {PARKED} WHERE migration = %s", (migration,))
    return int(row[0]) if row else 0
