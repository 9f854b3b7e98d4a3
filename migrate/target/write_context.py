"""What a write transaction has to know of its database besides the rows: one question for all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pymysql

from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, number
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.fence import CHUNK_FENCE
from migrate.target.ledger import LEDGER
from migrate.target.parked import PARKED
from migrate.target.roles import ROLE, NotedRole, NotStandby, Role, held, missing

_ASK = (
    f"SELECT 'closed', source, table_schema, table_name FROM {CHUNK_FENCE}"
    " WHERE migration = %s AND chunk = %s AND closed = 1"
    f" UNION ALL SELECT DISTINCT 'noted', source, place, '' FROM {LEDGER} WHERE migration = %s"
    f" UNION ALL SELECT DISTINCT 'parked', source, place, '' FROM {PARKED} WHERE migration = %s"
    f" UNION ALL (SELECT 'role', role, version, '' FROM {ROLE} WHERE migration = %s LOCK IN SHARE MODE)"
)


@dataclass(slots=True)
class WriteContext:
    closed: set[TableId] = field(default_factory=set)  # (source, database, table) that no copy fills
    noted: set[tuple[str, str]] = field(default_factory=set)  # (source, place) that the delete ledger names a key of
    parked: set[tuple[str, str]] = field(default_factory=set)  # (source, place) that anything is parked of
    role: NotedRole | None = None  # locked until the transaction ends


def read(connection: Connection, migration: str) -> WriteContext:
    """As the database has it now.

    To be asked inside the transaction that deletes, after its first statement: an answer from before could miss a copy
    begun since (invariant tombstone-under-open-chunk). While chunks of a table are being planned each counts as open.
    """
    found = WriteContext()
    for kind, source, first, second in _ask(connection, migration):
        match str(kind):
            case "role":
                found.role = held((source, first))
            case "closed":
                found.closed.add((str(source), str(first), str(second)))
            case "noted":
                found.noted.add((str(source), str(first)))
            case _:
                found.parked.add((str(source), str(first)))
    return found


def to_write(connection: Connection, migration: str, *, leads: bool = True) -> WriteContext:
    """As `read`, for a transaction that writes rows. leads: what the state says of the stream; a database that lost a
    switch says standby still. Raises NotStandby, NoRole."""
    found = read(connection, migration)
    if found.role is None:
        raise missing(connection.name, migration)
    if found.role.role is not Role.STANDBY or not leads:
        raise NotStandby(found.role, connection.name)
    return found


def _ask(connection: Connection, migration: str) -> list[tuple[Any, ...]]:
    try:
        return connection.query(_ASK, (migration, WHOLE_TABLE, migration, migration, migration))
    except pymysql.MySQLError as error:
        if number(error) == NO_SUCH_TABLE:
            raise missing(connection.name, migration) from error
        raise
