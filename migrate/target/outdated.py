"""Keys of which the update-time filter skipped a change, kept beside the rows until they are refreshed; and up to where
changes of a table are filtered.

A change is skipped, and its key noted, in one transaction with everything else of its batch. Once nothing of the table
is filtered any more, the requeue process asks for a refresh of each key, which ends its entry (invariant
refresh-settles-doubt).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import pymysql

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.table import Table, TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, number
from migrate.target import key_notes
from migrate.target.key_notes import PLACE
from migrate.target.roles import missing

OUTDATED = "_migrate_outdated"
_END = "_migrate_copy_end"
_TABLE = "migration = %s AND source = %s AND table_schema = %s AND table_name = %s"


@dataclass(frozen=True, slots=True)
class Outdated:
    """A key whose row was newer than a change. skipped: by the target's clock."""

    coordinate: Coordinate
    skipped: datetime


def put(
    connection: Connection,
    migration: str,
    table: Table,
    place: str,
    entries: Sequence[tuple[Key, bytes, Coordinate]],
) -> None:
    """Note keys at a place, each with its hash and the coordinate of the change that was skipped. Raises NoRole where
    `migrate init` has not made the table. So do `put_end` and `ends`."""
    with _explained(connection, migration):
        key_notes.put(connection, OUTDATED, migration, table, place, entries)


def remove(connection: Connection, migration: str, table: Table, place: str, hashes: Sequence[bytes]) -> None:
    """These keys of a place are refreshed."""
    key_notes.remove(connection, OUTDATED, migration, table, place, hashes)


def any_of(connection: Connection, migration: str) -> bool:
    """Whether any key waits in this database. So it is with `count` and `of_tables`: in a database that `migrate init`
    has not brought up to date there is none."""
    with _none_yet():
        return connection.one(f"SELECT 1 FROM {OUTDATED} WHERE migration = %s LIMIT 1", (migration,)) is not None
    return False


def count(connection: Connection, migration: str) -> int:
    """How many keys wait in this database."""
    with _none_yet():
        row = connection.one(f"SELECT COUNT(*) FROM {OUTDATED} WHERE migration = %s", (migration,))
        return int(row[0]) if row else 0
    return 0


def waiting(connection: Connection, migration: str) -> set[TableId]:
    """Tables that have a key that waits in this database."""
    with _none_yet():
        rows = connection.query(
            f"SELECT DISTINCT source, table_schema, table_name FROM {OUTDATED} WHERE migration = %s", (migration,)
        )
        return {(str(row[0]), str(row[1]), str(row[2])) for row in rows}
    return set()


def of_tables(connection: Connection, migration: str) -> set[TableId]:
    """Those that have a key that waits, or an end up to which changes are filtered."""
    with _none_yet():
        rows = connection.query(
            f"SELECT DISTINCT source, table_schema, table_name FROM {OUTDATED} WHERE migration = %s"
            f" UNION SELECT source, table_schema, table_name FROM {_END} WHERE migration = %s",
            (migration, migration),
        )
        return {(str(row[0]), str(row[1]), str(row[2])) for row in rows}
    return set()


def keys(connection: Connection, migration: str, id_: TableId, limit: int) -> list[Key]:
    """Up to so many keys of a table that wait in this database."""
    rows = connection.query(
        f"SELECT DISTINCT key_text FROM {OUTDATED} WHERE {_TABLE} LIMIT {int(limit)}", (migration, *id_)
    )
    return [tuple(json.loads(str(row[0]))) for row in rows]


def find(connection: Connection, migration: str, source: str, place: str, key_hash: bytes) -> Outdated | None:
    """The entry of a key at a place."""
    with _none_yet():
        row = connection.one(
            f"SELECT incarnation, file_no, tx, ordinal, skipped FROM {OUTDATED} WHERE {PLACE} AND key_hash = %s",
            (migration, source, place, key_hash),
        )
        return None if row is None else Outdated(Coordinate(*map(int, row[:4])), row[4])
    return None


def put_end(connection: Connection, migration: str, id_: TableId, end: Coordinate) -> None:
    """In the transaction that closes a table's chunk fence: where its source's log ended once its chunks were done."""
    with _explained(connection, migration):
        connection.execute(
            f"REPLACE INTO {_END} (migration, source, table_schema, table_name, incarnation, file_no, tx)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (migration, *id_, *end[:3]),
        )


def ends(connection: Connection, migration: str) -> dict[TableId, Coordinate]:
    """Up to where changes of tables that are copied are filtered; of others nothing is, once they are copied."""
    with _explained(connection, migration):
        rows = connection.query(
            f"SELECT source, table_schema, table_name, incarnation, file_no, tx FROM {_END} WHERE migration = %s",
            (migration,),
        )
    return {
        (str(row[0]), str(row[1]), str(row[2])): Coordinate(int(row[3]), int(row[4]), int(row[5]), 0) for row in rows
    }


def pass_end(connection: Connection, migration: str, id_: TableId, end: Coordinate) -> None:
    """All changes up to there are applied: nothing of the table is filtered any more, until it is copied again."""
    connection.execute(
        f"DELETE FROM {_END} WHERE {_TABLE} AND incarnation = %s AND file_no = %s AND tx = %s",
        (migration, *id_, *end[:3]),
    )


def forget(connection: Connection, migration: str, id_: TableId) -> None:
    """Drop everything of a table that is no longer, or not yet, part of the migration."""
    for name in (OUTDATED, _END):
        connection.execute(f"DELETE FROM {name} WHERE {_TABLE}", (migration, *id_))


@contextmanager
def _none_yet() -> Iterator[None]:
    """A table that is not there has no rows."""
    try:
        yield
    except pymysql.MySQLError as error:
        if number(error) != NO_SUCH_TABLE:
            raise


@contextmanager
def _explained(connection: Connection, migration: str) -> Iterator[None]:
    try:
        yield
    except pymysql.MySQLError as error:
        if number(error) != NO_SUCH_TABLE:
            raise
        raise missing(connection.name, migration) from error
