"""What the source has stored of generated columns, against what a session of the service computes of the same rows.

Trying an expression (`migrate.mysql.generated`) finds what made-up rows come to, under settings that were thought of.
Rows say it themselves: where a value was computed under another setting, or by another version of the server, it is
another one than the target would have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pymysql

from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number, passes, text
from migrate.mysql.expressions import Expression
from migrate.mysql.generated import kept
from migrate.mysql.key_choice import names, unique_keys
from migrate.mysql.keys import order
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.quoting import table as full_name
from migrate.preflight.limits import TOO_LONG, limited

ROWS = 10_000
"""From each end of the key."""
_UNUSED_INDEX = 1176
"""The server knows the index, and lets no plan take it: MariaDB's IGNORED. Nobody sees what it holds."""
_ALL_INDEXES = "SET_VAR(optimizer_switch = 'use_invisible_indexes=on')"
"""MySQL manual, "Invisible Indexes"."""
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_WORD = re.compile(r"\w+")
_LENGTH = re.compile(r"\((\d+)\)")


class Seen(NamedTuple):
    """How many rows were looked at, and of how many another value comes out; or why that was not to be seen."""

    rows: int = 0
    different: int = 0
    error: str = ""  # what the server said of a row
    late: bool = False


def seen(connection: Connection, table: Table, one: Expression) -> Seen:
    """Of a generated column; of a virtual one what an index has of it. Raises the driver's error."""
    rows: dict[tuple[object, ...], bool] = {}
    for select in _of_rows(table, one) if one.stored else _of_index(connection, table, one.column):
        try:
            found = connection.query(limited(connection, select, _ALL_INDEXES))
        except pymysql.MySQLError as error:
            if number(error) in TOO_LONG:
                return Seen(late=True)
            if number(error) == _UNUSED_INDEX:
                continue
            if passes(error) or not connection.open:
                raise
            return Seen(error=text(error))
        rows.update((tuple(key), bool(differs)) for *key, differs in found)
    return Seen(len(rows), sum(rows.values()))


def _of_rows(table: Table, one: Expression) -> Iterator[str]:
    same = _same(table.by_name[one.column], f"({one.text.replace('%', '%%')})")
    for descending in (False, True) if same else ():
        yield (
            f"SELECT {quote_all(table.key)}, NOT ({same}) FROM {full_name(table.database, table.name)}"
            f" ORDER BY {order(table, descending=descending)} LIMIT {ROWS}"
        )


def _of_index(connection: Connection, table: Table, column: str) -> Iterator[str]:
    """By each index that has the whole column: from its own entries the rows are looked up, where it is computed."""
    where = full_name(table.database, table.name)
    keys = [(quote(name), f"_key{index}") for index, name in enumerate(table.key)]
    named = ", ".join(f"{name} AS {alias}" for name, alias in keys)
    on = " AND ".join(f"_row.{name} <=> {alias}" for name, alias in keys)
    uniques = unique_keys(connection, table.database, table.name)
    by_key = next(name for name, parts in uniques.items() if names(parts) == table.key)
    indexes = connection.query(
        "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " AND COLUMN_NAME = %s AND SUB_PART IS NULL AND INDEX_TYPE = 'BTREE'",
        (table.database, table.name, column),
    )
    for (name,) in indexes:
        entries = (
            f"SELECT {named}, {quote(column)} AS _kept FROM {where} FORCE INDEX ({quote(str(name))}) LIMIT {2 * ROWS}"
        )
        yield (
            f"SELECT {', '.join(alias for _, alias in keys)}, NOT (_kept <=> _row.{quote(column)})"
            f" FROM ({entries}) AS _entries STRAIGHT_JOIN {where} AS _row FORCE INDEX ({quote(by_key)}) ON {on}"
        )


def _same(column: Column, value: str) -> str:
    """Whether a column holds an expression's value, as its type keeps it, cut and clamped as a lax mode does.

    In doubt it does: what one type's storing makes of another one's value is not all to be had by a cast. "" for types
    that are not looked at.
    """
    name, kind = quote(column.name), column.kind
    length = found[1] if (found := _LENGTH.search(column.type)) else ""
    if kind is Kind.INT:
        return f"{name} <=> {kept(column, value)} OR {name} <=> {_clamped(column, f'ROUND({value})')}"
    if kind is Kind.DECIMAL:
        cast = kept(column, value)
        return f"{name} <=> {f'GREATEST({cast}, 0)' if 'unsigned' in column.type.lower() else cast}"
    if kind is Kind.DOUBLE or (kind is Kind.FLOAT and not length and "," not in column.type):
        return f"{name} <=> {value} OR ABS({name} - {value}) <= ABS({name}) * 1e-5"
    if kind is Kind.BIT:
        return f"CAST({name} AS UNSIGNED) <=> CAST({value} AS UNSIGNED) OR {name} = (1 << {length or 1}) - 1"
    if kind is Kind.ENUM:
        return f"{name} <=> {value} OR {name} = 0"
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME):
        type_ = {Kind.DATE: "DATE", Kind.TIME: "TIME"}.get(kind, "DATETIME")
        cast = f"CAST({value} AS {type_}{f'({length})' if length else ''})"
        return f"{name} <=> {cast} OR ({cast} IS NULL AND {value} IS NOT NULL)"
    if kind in (Kind.TEXT, Kind.RAWTEXT):
        stored = f"CONVERT({value} USING {column.charset})"
        stored = f"LEFT({stored}, {length})" if length else stored
        if column.type.lower().startswith("char"):
            name, stored = f"RTRIM({name})", f"RTRIM({stored})"
        return f"CAST({name} AS BINARY) <=> CAST({stored} AS BINARY)"
    if kind is Kind.BINARY:
        fixed = column.type.lower().startswith("binary")
        cast = f"CAST({value} AS BINARY{f'({length})' if fixed else ''})"
        return f"{name} <=> {f'LEFT({cast}, {length})' if length and not fixed else cast}"
    return f"CAST({name} AS CHAR) <=> CAST(CAST({value} AS JSON) AS CHAR)" if kind is Kind.JSON else ""


def _clamped(column: Column, value: str) -> str:
    """Into the range of a type of whole numbers."""
    word = _WORD.match(column.type.lower())
    bits = _BITS.get(word[0] if word else "", 64)
    least, most = (0, 2**bits - 1) if "unsigned" in column.type.lower() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return f"LEAST(GREATEST({value}, {least}), {most})"
