"""Making what a migration needs in a target database: the service's own tables, and physical tables by a source's
definition. `migrate init` does it in the target databases, `migrate preflight` in a scratch database before."""

from __future__ import annotations

from functools import cache

import pymysql

from migrate.model.errors import PreflightError
from migrate.model.table import Table
from migrate.mysql import catalog, definition, flavours, full_text, multi_valued
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number, passes
from migrate.mysql.key_choice import NoSuchKey
from migrate.mysql.quoting import quote
from migrate.state.database import sql_steps
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
    _refuse_keys(place, table, statement, "create its target tables by hand without {}, which `migrate init` takes")
    translated = connection.flavour != flavour
    if translated:
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
            f"{place}: {who} does not take the definition of {table.full_name}{whose}: {said}", hint=mend
        ) from error
    if noted or translated:
        refuse_unlike(connection, table, place, flavour, first=True)
    return noted


def refuse_unlike(connection: Connection, table: Table, place: Place, kind: str, *, first: bool) -> Table:
    """An existing target table must have the source's columns and key, and no unique key that the source's has not;
    when its source table is new here it must be empty too. Returns it as it is.

    connection: to the target server; kind: the source's flavour. Raises PreflightError, StopError for an unknown type.
    """
    database = place.database.database
    mend = f"{'drop it, so that init creates it, or ' if first else '`migrate drain`, then '}alter it to match"
    try:
        there = catalog.load_table(connection, table.source, database, place.table, table.key)
    except NoSuchKey as error:
        key = ", ".join(table.key)
        raise PreflightError(f"{place} has no key ({key}), which {table.full_name} goes by", hint=mend) from error
    if full_text.NUMBER in there.by_name or any("" in key for key in there.unique_keys):
        _refuse_keys(place, there, definition.show_create(connection, database, place.table), "drop {} there")
    if wrong := flavours.unlike(table, there.columns, (kind, connection.flavour)):
        raise PreflightError(f"{place} has other columns than {table.full_name}: {', '.join(wrong)}", hint=mend)
    if stricter := keys_only_of(there, table):
        told = f"{place} has unique keys that {table.full_name} has not: {stricter}"
        raise PreflightError(f"{told}; it would refuse rows that the source takes", hint=mend)
    if first and connection.one(f"SELECT 1 FROM {quote(database)}.{quote(place.table)} LIMIT 1") is not None:
        raise PreflightError(f"{place} has rows already", hint="empty it, or name other target tables")
    return there


def _refuse_keys(place: Place, table: Table, statement: str, mend: str) -> None:
    """Keys that rows cannot be written under in another order than the application's. mend: with {} for their names."""
    why = ""
    if named := ", ".join(full_text.numbered_by_rows(table, statement)):
        why = f"with full-text keys ({named}) InnoDB takes rows by the order of their {full_text.NUMBER} only, in which"
        why += " the copy and the stream do not come"
    elif named := ", ".join(multi_valued.unique_by_elements(statement)):
        why = f"which row holds a value of its unique keys on the elements of arrays ({named}) cannot be asked"
    if why:
        mend = f"{mend.format(named)} (the way back needs that of the source, too); or leave the table out"
        raise PreflightError(f"{place}, as {table.full_name}: {why}", hint=mend)


def keys_only_of(one: Table, other: Table) -> str:
    """Unique keys that keep out rows which the other table takes: not those with all columns of a unique key there."""
    theirs = [{*key} for key in (other.key, *other.unique_keys)]
    own = [key for key in (one.key, *one.unique_keys) if not any(columns <= {*key} for columns in theirs)]
    return ", ".join(f"({', '.join(name or 'a part or an expression' for name in key)})" for key in own)
