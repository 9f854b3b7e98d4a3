"""Which rows of a physical table hold a unique value of a row that it refuses as a duplicate.

Of the server's answer only the number counts, so each unique key of the table is asked: its columns, the beginnings of
columns (`UNIQUE (v(10))`), expressions (MySQL manual, "Functional Key Parts"), and generated columns, which the server
computes from the row's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrate.model.table import Column, Table
from migrate.mysql.connection import Connection
from migrate.mysql.generated import unescaped
from migrate.mysql.keys import Condition, equal, key_parameter, mark, side
from migrate.mysql.quoting import quote
from migrate.mysql.values import Parameter, parameter

Row = Mapping[str, str | None]
_Part = tuple[str | None, int | None, str | None]
"""Column, length of its beginning, expression."""


def conditions(connection: Connection, table: Table, name: str, row: Row) -> Iterator[Condition]:
    """For each unique key besides the one that tells rows apart, what finds the row that holds the values of this one.

    table: with the columns of the physical table `name`, of the session's database. Raises the driver's error.
    """
    keys = _keys(connection, name)
    generated = _generated(connection, name)
    for parts in keys:
        if [column for column, *_ in parts] == [*table.key]:
            continue
        if (found := _of_key(table, row, parts, generated)) is not None:
            yield found


def _keys(connection: Connection, name: str) -> list[list[_Part]]:
    expression = "EXPRESSION" if connection.flavour == "mysql" else "NULL"
    keys: dict[str, list[_Part]] = {}
    for index, column, prefix, made in connection.query(
        f"SELECT INDEX_NAME, COLUMN_NAME, SUB_PART, {expression} FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        [name],
    ):
        part = (
            None if column is None else str(column),
            None if prefix is None else int(prefix),
            None if made is None else unescaped(str(made)),
        )
        keys.setdefault(str(index), []).append(part)
    return [*keys.values()]


def _generated(connection: Connection, name: str) -> dict[str, str]:
    """What each generated column is computed by."""
    rows = connection.query(
        "SELECT COLUMN_NAME, GENERATION_EXPRESSION FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND GENERATION_EXPRESSION <> ''",
        [name],
    )
    read = unescaped if connection.flavour == "mysql" else str
    return {str(column): read(str(made)) for column, made in rows}


def _of_key(table: Table, row: Row, parts: list[_Part], generated: Mapping[str, str]) -> Condition | None:
    """None where a value is NULL, which is nobody else's."""
    wheres: list[str] = []
    values: list[Parameter] = []
    for name, prefix, expression in parts:
        made = expression if name is None else generated.get(name)
        if made is not None:
            where, arguments = _computed(table, row, quote(name) if name else None, made, prefix)
        elif (value := row[str(name)]) is None:
            return None
        else:
            column = table.by_name[str(name)]
            where, arguments = equal([column], [value]) if prefix is None else _begins(column, prefix, value)
        wheres.append(where)
        values += arguments
    return " AND ".join(wheres), values


def _begins(column: Column, length: int, value: str) -> Condition:
    where = f"LEFT({side(column)}, {length}) = LEFT({mark(column)}, {length})"
    return where, [key_parameter(column)(value)]


def _computed(table: Table, row: Row, column: str | None, expression: str, prefix: int | None) -> Condition:
    """column: quoted, of a generated column."""
    escaped = f"({expression.replace('%', '%%')})"
    there = column or escaped
    fields = ", ".join(f"{mark(one)} AS {quote(one.name)}" for one in table.stored)
    here = f"(SELECT {escaped} FROM (SELECT {fields}) AS given)"
    if prefix is not None:
        there, here = f"LEFT({there}, {prefix})", f"LEFT({here}, {prefix})"
    return f"{there} = {here}", [parameter(one)(row[one.name]) for one in table.stored]
