"""A database for a moment, in which a check makes what init would make. Nothing of it stays, also after a kill: the
next preflight of the same migration drops what one left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migrate.model.errors import Code, StopError
from migrate.mysql.catalog import SCRATCH
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as quoted

_MARK = "_migrate_trial"
"""A table that says whose the database is: one that has others and not this one is not dropped."""
_LOCK_SECONDS = 10


def name_of(migration: str) -> str:
    """At most 63 letters, in lower case: so every server writes it."""
    return f"{SCRATCH}{migration.lower()}"


@contextmanager
def scratch(connection: Connection, name: str, create: str = "CREATE DATABASE {}") -> Iterator[None]:
    """The database, for the time of the block. create: the statement that makes it.

    Raises: StopError when another preflight has it, or it is not of a preflight; the driver's error.
    """
    if not _locked(connection, name, _LOCK_SECONDS):
        raise StopError(
            f"{connection.name}: another preflight of this migration tries its tables in database {name}",
            hint="run `migrate preflight` again when that one is done",
            code=Code.SERVER,
        )
    try:
        _drop(connection, name)
        connection.query(create.format(quote(name)))
        try:
            connection.query(f"CREATE TABLE {quoted(name, _MARK)} (id INT NOT NULL PRIMARY KEY) ENGINE = InnoDB")
            yield
        finally:
            connection.query(f"DROP DATABASE IF EXISTS {quote(name)}")
    finally:
        _unlock(connection, name)


def drop_leftover(connection: Connection, name: str) -> None:
    """What a preflight that was killed left, unless another one is using it. Raises as `scratch`."""
    if _exists(connection, name) and _locked(connection, name, 0):
        try:
            _drop(connection, name)
        finally:
            _unlock(connection, name)


def _exists(connection: Connection, name: str) -> bool:
    sql = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
    return connection.one(sql, [name]) is not None


def _drop(connection: Connection, name: str) -> None:
    if not _exists(connection, name):
        return
    rows = connection.query("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", [name])
    if (_MARK,) not in rows and (rows or _has_programs(connection, name)):
        raise StopError(
            f"{connection.name}: database {name} is there, and was not made by a preflight",
            hint="its name is the service's: give it another one, or drop it",
            code=Code.SERVER,
        )
    connection.query(f"DROP DATABASE {quote(name)}")


def _has_programs(connection: Connection, name: str) -> bool:
    """Whether routines or events are in a database: of a preflight's that was killed at once, none are."""
    looks = ("ROUTINES WHERE ROUTINE_SCHEMA", "EVENTS WHERE EVENT_SCHEMA")
    return any(connection.one(f"SELECT 1 FROM information_schema.{look} = %s LIMIT 1", [name]) for look in looks)


def _locked(connection: Connection, name: str, seconds: int) -> bool:
    row = connection.one("SELECT GET_LOCK(%s, %s)", [name, seconds])
    return row is not None and row[0] == 1


def _unlock(connection: Connection, name: str) -> None:
    if connection.open:
        connection.query("SELECT RELEASE_LOCK(%s)", [name])
