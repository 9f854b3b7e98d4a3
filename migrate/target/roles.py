"""The role row: whether a stream may write in a target database (invariant standby-only).

Each database that a stream writes to has a row for that stream. Every transaction of the stream reads it with a shared
lock and writes only while it says `standby`; a cutover changes it under an exclusive lock, which waits for the
transactions in flight. So whatever comes late, a refresh, a retry or a process that was frozen, writes nothing where
applications write. The row's changes stand in the server's own binlog, so a change's coordinate shows whether it was
made while its side was standby (`migrate.publish.own_writes`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import pymysql
import sqlalchemy as sa
import structlog

from migrate.model.errors import Code, ReadAgain, ServerError, StopError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, number
from migrate.mysql.quoting import quote
from migrate.state import leading, reached, verification
from migrate.state.migration import REVERSE
from migrate.state.reached import SWITCH, DatabaseName, LostMessages

log = structlog.get_logger("migrate.target")
ROLE = "_migrate_role"


class Role(StrEnum):
    ACTIVE = "active"
    """Applications write here."""
    STANDBY = "standby"
    """The stream writes here."""
    FROZEN = "frozen"
    """Neither does: a cutover is under way."""


STANDBY = Role.STANDBY.value


class NotedRole(NamedTuple):
    """A database's role, and the version of the switch when it was set."""

    role: Role
    version: int


class NotStandby(ServerError):  # noqa: N818 - it says what is so
    """The database is not the stream's to write; nothing was written. Tried again while a cutover is under way."""

    def __init__(self, held: NotedRole, where: str) -> None:
        lost = ", and applications are there by the state" if held.role is Role.STANDBY else ""
        super().__init__(
            f"{where} is {held.role}{lost}: a stream writes only to a standby side",
            hint="it is tried again by itself once the cutover is over; `migrate status` says where that is",
        )
        self.held = held


class SwitchedSince(ReadAgain):
    """A row was read at the source, and there was a switch before it could be written."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: applications were switched since a row was read at the source for it",
            hint="it is read again by itself",
        )


class NoRole(StopError):  # noqa: N818 - it says what is so
    """Nothing is known of who may write in a database, or the state knows less of it than the database."""

    code = Code.SIDE


def make(connection: Connection, migration: str, role: Role, version: int) -> bool:
    """The row, where there is none; whether there was none. Raises the driver's error."""
    made = connection.execute(
        f"INSERT INTO {ROLE} (migration, role, version) SELECT %s, %s, %s FROM DUAL"
        f" WHERE NOT EXISTS (SELECT 1 FROM {ROLE} WHERE migration = %s)",
        (migration, role.value, version, migration),
    )
    return made == 1


def read(connection: Connection, migration: str) -> NotedRole:
    """The role with a shared lock until the transaction ends. Raises NoRole where there is no row."""
    try:
        row = connection.one(f"SELECT role, version FROM {ROLE} WHERE migration = %s LOCK IN SHARE MODE", (migration,))
    except pymysql.MySQLError as error:
        if number(error) != NO_SUCH_TABLE:
            raise
        row = None
    if row is None:
        raise missing(connection.name, migration)
    return held(row)


def version(connection: Connection, migration: str) -> int:
    """Of the switch when the role was set, without a lock: asked before a row is read at the source, and compared when
    it is written. Raises NoRole."""
    if (found := look(connection, migration)) is None:
        raise missing(connection.name, migration)
    return found.version


def look(connection: Connection, migration: str) -> NotedRole | None:
    """The role as it is now, without a lock; None where there is no row. Raises the driver's error."""
    row = connection.one(f"SELECT role, version FROM {ROLE} WHERE migration = %s", (migration,))
    return held(row) if row is not None else None


def held(row: tuple[object, ...]) -> NotedRole:
    return NotedRole(Role(str(row[0])), int(str(row[1])))


def missing(where: str, migration: str) -> NoRole:
    way = "migrate --reverse" if migration.endswith(REVERSE) else "migrate"
    return NoRole(
        f"{where} has no role for {migration}: nothing is written there",
        hint=f"stop `{way} run`, `{way} init`, and start it again",
    )


def require_standby(connection: Connection, migration: str) -> None:
    """For a transaction that writes rows, at its beginning. Raises NotStandby, NoRole."""
    found = read(connection, migration)
    if found.role is not Role.STANDBY:
        raise NotStandby(found, connection.name)


def put(connection: Connection, migration: str, role: Role, version: int, database: str = "") -> None:
    """Set the role, in the caller's transaction; waits for transactions of the stream in flight. A version never
    falls: it tells what a database lost, and a process that was suspended may have read it before others switched.

    database: on the connection's server; without it, the connection's own. Raises: NoRole where there is no row;
    ServerError where it has a later version; the driver's error.
    """
    where = f"{quote(database)}.{ROLE}" if database else ROLE
    changed = connection.execute(
        f"UPDATE {where} SET role = %s, version = %s, writes = writes + 1 WHERE migration = %s AND version <= %s",
        (role.value, version, migration, version),
    )
    if changed != 1:
        name = f"{connection.name}, database {database}" if database else connection.name
        row = connection.one(f"SELECT role, version FROM {where} WHERE migration = %s FOR UPDATE", (migration,))
        if row is None:
            raise missing(name, migration)
        raise ServerError(
            f"{name}: its role is of version {held(row).version} of the switch, not to be set to {version}",
            hint="another cutover came meanwhile: `migrate status` says where it stands",
        )


def set_right(state: sa.Connection, there: Connection, migration: str, database: DatabaseName) -> Role | None:
    """The role that a database has by the state, which is set where another one was left; None where it is not set yet:
    in a cutover, and as `set_to` says.

    state: in a transaction; until that ends, no cutover begins. Raises: NoRole where the database is ahead of the
    state, or has none; the driver's error.
    """
    leading.hold(state, migration)
    if leading.is_switching(state, migration):
        return None
    role = of_state(state, migration)
    return (
        role if set_to(state, there, migration, database, NotedRole(role, leading.version(state, migration))) else None
    )


def lacking(there: Connection, migration: str, database: DatabaseName, frozen: int) -> LostMessages | None:
    """What a database lost that does not have the version with which all were frozen last. Its applications' last
    writes before that may be gone too, and the stream that writes there brings none of them: they were not its own.

    None without a role, too. Raises the driver's error.
    """
    held = look(there, migration)
    if held is None or held.version >= frozen:
        return None
    return LostMessages(database, SWITCH, held.version, frozen, frozen)


def of_state(state: sa.Connection, migration: str) -> Role:
    """The role that the state gives the databases a stream writes to, outside a cutover."""
    return Role.STANDBY if leading.leads(state, migration) else Role.ACTIVE


def set_to(state: sa.Connection, there: Connection, migration: str, database: DatabaseName, wanted: NotedRole) -> bool:
    """The role of a switch, where a database has another one, or lacks that switch.

    False where its loss was noted by this: the row that tells of it is set by the next call, once the state's
    transaction is committed. Raises as `set_right`.
    """
    frozen = leading.frozen(state, migration)
    if (lacks := lacking(there, migration, database, frozen)) is not None:
        noted = verification.lost(state, migration)
        if not any((one.database, one.what, one.end) == (database, SWITCH, frozen) for one in noted):
            reached.note_lost(state, migration, lacks)
            log.error(
                "a database does not have the roles of the last switch",
                where=there.name,
                database=database[1],
                lost=str(lacks),
            )
            return False
    role, version = wanted
    with there.transaction():
        found = read(there, migration)
        if found.version > version:
            raise NoRole(
                f"{there.name}: its role is of version {found.version} of the switch, and the state is at {version}:"
                " the state database lost a switch",
                hint="restore the newest state of the state database; docs/foreign-writes.md explains the roles",
            )
        if found.role is not role or found.version < frozen:
            put(there, migration, role, version)
        if found.role is not role:
            told = log.info if found.role is Role.FROZEN else log.warning  # as a switch leaves it for a moment
            told("role set right", where=there.name, role=role.value, was=found.role.value)
    return True
