"""The chunk fence of a target database: which attempt may write, what is closed (invariant copy-never-overwrites)."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.chunk import Chunk, bound_text
from migrate.model.errors import OwnershipLost, ServerError
from migrate.model.table import Table, TableId
from migrate.mysql.connection import Connection
from migrate.target import roles
from migrate.target.fence import CHUNK_FENCE

WHOLE_TABLE = -1
_TABLE = "migration = %s AND source = %s AND table_schema = %s AND table_name = %s"
_CHUNK = f"{_TABLE} AND chunk = %s"


class Unopened(ServerError):  # noqa: N818 - it says what is so
    """A database no longer has what a copy wrote there: it lost committed transactions. A new attempt brings it."""


class Superseded(OwnershipLost):
    """A later attempt was opened in a database: by another copy, or before the state was put back to an earlier one."""

    def __init__(self, table: Table, chunk: int, attempt: int, known: int) -> None:
        super().__init__(f"copy of {table.full_name}, chunk {chunk}: attempt {attempt} was superseded by a later one")
        self.id = table.id
        self.chunk = chunk
        self.known = known  # the attempt that is there


def _key(migration: str, table: Table) -> tuple[str, str, str, str]:
    return migration, *table.id


def open_attempt(connection: Connection, migration: str, table: Table, chunk: Chunk, attempt: int) -> None:
    """`raise_attempt` in a transaction of its own."""
    with connection.transaction():
        raise_attempt(connection, migration, table, chunk, attempt)


def raise_attempt(connection: Connection, migration: str, table: Table, chunk: Chunk, attempt: int) -> None:
    """Raise a chunk's attempt before its SELECT; writes of earlier attempts are fenced off from the commit on.

    To be called inside a transaction; again, where its outcome is not known. Raises Superseded when a later attempt was
    opened already, or this one has written: the state gave its number twice.
    """
    key = _key(migration, table)
    row = connection.one(
        f"SELECT attempt, closed OR writes > 0 FROM {CHUNK_FENCE} WHERE {_CHUNK} FOR UPDATE", (*key, chunk.number)
    )
    if row is None:
        connection.execute(
            f"INSERT INTO {CHUNK_FENCE} (migration, source, table_schema, table_name, chunk, low, high, attempt)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (*key, chunk.number, bound_text(chunk.low), bound_text(chunk.high), attempt),
        )
    elif int(row[0]) > attempt or (int(row[0]) == attempt and bool(row[1]) and chunk.number != WHOLE_TABLE):
        raise Superseded(table, chunk.number, attempt, int(row[0]))
    else:
        connection.execute(
            f"UPDATE {CHUNK_FENCE} SET low = %s, high = %s, attempt = %s, closed = 0, writes = 0 WHERE {_CHUNK}",
            (bound_text(chunk.low), bound_text(chunk.high), attempt, *key, chunk.number),
        )


def check(connection: Connection, migration: str, table: Table, chunk: int, attempt: int, done: int = 0) -> None:
    """First in each copy transaction: lock the chunk, and check that this attempt, and a stream, may still write.

    done: transactions that this attempt committed here before. Raises: Unopened when this database lost one of them, or
    the attempt; OwnershipLost when a later attempt was opened or the chunk is closed; NotStandby, StopError.
    """
    found = connection.execute(
        f"UPDATE {CHUNK_FENCE} SET writes = writes + 1 WHERE {_CHUNK} AND attempt = %s AND closed = 0 AND writes >= %s",
        (*_key(migration, table), chunk, attempt, done),
    )
    if found != 1:
        raise _why_not(connection, migration, table, chunk, attempt)
    roles.require_standby(connection, migration)


def touch(connection: Connection, migration: str, table: Table) -> None:
    """Mark the caller's transaction as the stream's own, for maintenance that changes rows.

    Raises: NotStandby, StopError; the driver's error.
    """
    connection.execute(
        f"INSERT INTO {CHUNK_FENCE} (migration, source, table_schema, table_name, chunk, attempt, closed)"
        " VALUES (%s, %s, %s, %s, %s, 0, 0) ON DUPLICATE KEY UPDATE writes = writes + 1",
        (*_key(migration, table), WHOLE_TABLE),
    )
    roles.require_standby(connection, migration)


def close(
    connection: Connection, migration: str, table: Table, chunks: Iterable[int], attempt: int | None = None
) -> None:
    """Close chunks (or the whole table) in this database; nothing can be inserted under them afterwards. With the whole
    table go chunks that only this database knows, as of a state that was put back."""
    for chunk in chunks:
        wanted = "" if attempt is None else " AND attempt = %s"
        arguments = (*_key(migration, table), chunk, *(() if attempt is None else (attempt,)))
        found = connection.execute(
            f"UPDATE {CHUNK_FENCE} SET closed = 1, writes = writes + 1 WHERE {_CHUNK}{wanted}", arguments
        )
        if found != 1:
            raise _why_not(connection, migration, table, chunk, attempt or 0)
        if chunk == WHOLE_TABLE:
            connection.execute(
                f"UPDATE {CHUNK_FENCE} SET attempt = attempt + 1, closed = 1, writes = writes + 1"
                f" WHERE {_TABLE} AND chunk <> %s AND closed = 0",
                (*_key(migration, table), WHOLE_TABLE),
            )


def retire(connection: Connection, migration: str, table: Table, chunks: Iterable[tuple[int, int]]) -> None:
    """Close chunks (number, last attempt) that count no more: whoever still writes one can do so no longer.

    One whose attempt is later here, as the rows were chosen anew since, is closed under that.
    """
    for number, attempt in chunks:
        connection.execute(
            f"INSERT INTO {CHUNK_FENCE} (migration, source, table_schema, table_name, chunk, attempt, closed)"
            " VALUES (%s, %s, %s, %s, %s, %s, 1)"
            " ON DUPLICATE KEY UPDATE attempt = GREATEST(attempt, %s), closed = 1, writes = writes + 1",
            (*_key(migration, table), number, attempt + 1, attempt + 1),
        )


def hold_closed(connection: Connection, migration: str, tables: Iterable[TableId]) -> bool:
    """Whether no copy of these tables is open here; until the caller's transaction ends, none is opened."""
    found = [
        connection.one(
            f"SELECT closed FROM {CHUNK_FENCE} WHERE {_CHUNK} LOCK IN SHARE MODE", (migration, *id_, WHOLE_TABLE)
        )
        for id_ in sorted(tables)
    ]
    return all(row is not None and bool(row[0]) for row in found)


def closed(connection: Connection, migration: str) -> dict[TableId, int]:
    """The tables that no copy fills here, each with the run of its copy that ended last."""
    rows = connection.query(
        f"SELECT source, table_schema, table_name, attempt FROM {CHUNK_FENCE}"
        " WHERE migration = %s AND chunk = %s AND closed = 1",
        (migration, WHOLE_TABLE),
    )
    return {(str(row[0]), str(row[1]), str(row[2])): int(row[3]) for row in rows}


def whole_table(connection: Connection, migration: str, table: Table) -> tuple[int, bool] | None:
    """The last run of a table's copy that was opened here, and whether it is closed; None when none ever was."""
    row = connection.one(
        f"SELECT attempt, closed FROM {CHUNK_FENCE} WHERE {_CHUNK}", (*_key(migration, table), WHOLE_TABLE)
    )
    return None if row is None else (int(row[0]), bool(row[1]))


def attempts(connection: Connection, migration: str, table: Table) -> dict[int, tuple[int, bool]]:
    """The last attempt at each chunk here, and at the whole table, and whether it is closed."""
    rows = connection.query(f"SELECT chunk, attempt, closed FROM {CHUNK_FENCE} WHERE {_TABLE}", _key(migration, table))
    return {int(row[0]): (int(row[1]), bool(row[2])) for row in rows}


def is_open(connection: Connection, migration: str, table: Table, run: int) -> bool:
    """Whether a run of the table's copy is open here; until the caller's transaction ends, nothing closes it."""
    row = connection.one(
        f"SELECT attempt, closed FROM {CHUNK_FENCE} WHERE {_CHUNK} LOCK IN SHARE MODE",
        (*_key(migration, table), WHOLE_TABLE),
    )
    return row is not None and int(row[0]) >= run and not row[1]


def supersede(connection: Connection, migration: str, table: Table) -> None:
    """No attempt so far may write here any more; the table is open, for the copy that is to come."""
    connection.execute(
        f"UPDATE {CHUNK_FENCE} SET closed = (chunk <> {WHOLE_TABLE}), attempt = attempt + (chunk <> {WHOLE_TABLE}),"
        f" writes = writes + 1 WHERE {_TABLE}",
        _key(migration, table),
    )


def forget(connection: Connection, migration: str, table: Table) -> None:
    """As if the table had never been copied to this database; a copy under way loses it."""
    connection.execute(f"DELETE FROM {CHUNK_FENCE} WHERE {_TABLE}", _key(migration, table))


def _why_not(
    connection: Connection, migration: str, table: Table, chunk: int, attempt: int
) -> OwnershipLost | Unopened:
    """Of an attempt that may not write."""
    row = connection.one(f"SELECT attempt, closed FROM {CHUNK_FENCE} WHERE {_CHUNK}", (*_key(migration, table), chunk))
    if row is not None and (int(row[0]) > attempt or bool(row[1])):
        return Superseded(table, chunk, attempt, int(row[0]))
    what = "the table" if chunk == WHOLE_TABLE else f"chunk {chunk}"
    return Unopened(
        f"{connection.name} lost committed transactions: copy of {table.full_name}, {what}, attempt {attempt}",
        hint="the chunk is copied again by itself; if it is not, run `migrate copy` again",
    )
