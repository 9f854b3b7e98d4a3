"""Making what a migration needs in a target database: the service's own tables, and physical tables by a source's
definition. `migrate init` does it in the target databases, `migrate preflight` in a scratch database before."""

from __future__ import annotations

from functools import cache

import pymysql

from migrate.model.errors import PreflightError
from migrate.model.table import Table
from migrate.mysql import definition, flavours
from migrate.mysql.catalog import CatalogTables
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number, passes
from migrate.mysql.quoting import quote
from migrate.state.database import sql_steps
from migrate.target import place_definition
from migrate.target.place_definition import refuse_keys, refuse_order, refuse_periods
from migrate.target.routing import Place

BY_HAND = "create its target tables by hand, with the same columns; `migrate init` takes those that are there"


def tables_in(connection: Connection, database: str | None = None) -> set[str]:
    """The names of the tables in a database, the session's without one."""
    sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE())"
    return {str(row[0]) for row in connection.query(sql, [database])}


@cache
def own_tables() -> dict[str, str]:
    """The statements that make the service's own tables in a target database, by name."""
    return {part.split("(", 1)[0].split()[-1]: part for _, parts in sql_steps("target") for part in parts}


def create_own_tables(connection: Connection) -> None:
    """Those that the session's database lacks. Raises the driver's error."""
    present = tables_in(connection)
    for name, statement in own_tables().items():
        if name not in present:
            connection.execute(statement.replace("%", "%%"))


def create_place(connection: Connection, table: Table, place: Place, statement: str, flavour: str) -> list[str]:
    """Make one physical table in the session's database.

    statement, flavour: the source's definition, and the kind of its server. Returns what the server notes, where the
    table is as it shall be: of a definition that the source has, its columns and keys decide and not words (a duplicate
    index, say). Raises PreflightError where the server does not take the definition; the driver's error.
    """
    refuse_order(place, table, flavour)
    refuse_keys(place, table, statement, "create its target tables by hand without {}, which `migrate init` takes")
    translated = connection.flavour != flavour
    if translated:
        refuse_periods(place, table, statement)
        statement = flavours.translated(statement, connection.flavour)
    try:
        noted = connection.execute_noted(definition.create_as(statement, place.table))
    except pymysql.MySQLError as error:
        if passes(error) or number(error) in ACCESS_DENIED:
            raise
        said, who, whose = definition.refusal(connection, error), connection.name, ""
        if translated:
            who, whose = connection.flavour, f", which is of {flavour}"
        mend = BY_HAND if translated else f"change what the server names, there or in the source's table; or {BY_HAND}"
        raise PreflightError(
            f"{place}: {who} refuses the definition of {table.full_name}{whose}: {said}", hint=mend
        ) from error
    if noted or translated:
        refuse_unlike(connection, table, place, flavour, first=True, create=statement)
    return noted


def refuse_unlike(
    connection: Connection, table: Table, place: Place, kind: str, *, first: bool, create: str = ""
) -> Table:
    """An existing target table must be as `place_definition.refuse_unlike` wants it; when its source table is new here
    it must be empty too. Returns it as it is.

    connection: to the target server; kind: the source's flavour; create: the source table's definition, "" where it is
    not known. Raises PreflightError, StopError for an unknown type.
    """
    database = place.database.database
    refuse_order(place, table, kind)
    mend = f"{'drop it, so that init creates it, or ' if first else '`migrate drain`, then '}alter it to match"
    described = CatalogTables.read(connection, database, [place.table])
    there = place_definition.refuse_unlike(described, table, place, kind, mend, lambda: create)
    if first and connection.one(f"SELECT 1 FROM {quote(database)}.{quote(place.table)} LIMIT 1") is not None:
        raise PreflightError(f"{place} has rows already", hint="empty it, or name other target tables")
    return there
