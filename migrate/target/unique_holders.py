"""Which rows of a place hold a unique value of a row that it refuses as a duplicate (invariant unique-values).

Of the server's answer only the number counts, so each unique key of the table is asked: its columns, the beginnings of
columns (`UNIQUE (v(10))`), expressions (MySQL manual, "Functional Key Parts"), and generated columns. What is computed
the server computes from the row itself, written for a moment in the place of the others: an expression looks at an
ENUM's label or at its number, and compares a text by its column's collation; no value in a statement has these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from migrate.model.table import Column, Table
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.expressions import unescaped
from migrate.mysql.keys import Condition, equal, key_parameter, mark, side
from migrate.mysql.quoting import quote
from migrate.mysql.values import Parameter
from migrate.target.equal_keys import KeyColumn

Row = Mapping[str, str | None]
_Part = tuple[str | None, int | None, str | None]
"""Column, length of its beginning, expression."""


@dataclass(frozen=True, slots=True)
class Holder:
    """condition: finds the row that holds a row's values of one unique key; written: its columns that are written;
    computed: whether it has others, or expressions."""

    condition: Condition
    written: tuple[KeyColumn, ...]
    computed: bool


def conditions(
    connection: Connection, table: Table, name: str, row: Row, replace: Callable[[], None]
) -> Iterator[Holder]:
    """For each unique key besides the one that tells rows apart, what finds the row that holds the values of this one.

    table: with the columns of the physical table `name`, of the session's database. replace: writes the row there by
    REPLACE, which is taken back at once. Raises the driver's error.
    """
    generated = _generated(connection, name)
    own = [(column, None, None) for column in table.key]  # a beginning of such a column is another's too
    keys = [parts for parts in _keys(connection, name) if parts != own]
    computed = {made: "" for parts in keys for part in parts if (made := _computed(part, generated))}
    if computed:
        computed = _values(connection, table, name, row, list(computed), replace)
    for parts in keys:
        if (found := _of_key(table, row, parts, generated, computed)) is not None:
            plain = [(name, prefix) for name, prefix, _ in parts if name is not None and name not in generated]
            written = tuple(KeyColumn(table.by_name[name], prefix) for name, prefix in plain)
            yield Holder(found, written, len(written) < len(parts))


def _values(
    connection: Connection, table: Table, name: str, row: Row, computed: Sequence[str], replace: Callable[[], None]
) -> dict[str, str]:
    """By column or expression, the variable of the session that has the row's value, in the type that it is of."""
    variables = {made: f"@migrate_{number}" for number, made in enumerate(computed)}
    where, arguments = equal(table.key_columns, [str(row[one]) for one in table.key])
    sets = (f"{named} = (SELECT {made} FROM {quote(name)} WHERE {where})" for made, named in variables.items())
    connection.execute("SAVEPOINT computing")
    replace()
    connection.execute(f"SET {', '.join(sets)}", [*arguments] * len(variables))
    connection.execute("ROLLBACK TO SAVEPOINT computing")
    return variables


def _keys(connection: Connection, name: str) -> list[list[_Part]]:
    expression = "EXPRESSION" if can(connection, Capability.KEYS_ON_EXPRESSIONS) else "NULL"
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


def _generated(connection: Connection, name: str) -> set[str]:
    """The columns that are computed."""
    rows = connection.query(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND GENERATION_EXPRESSION <> ''",
        [name],
    )
    return {str(column) for (column,) in rows}


def _computed(part: _Part, generated: Collection[str]) -> str:
    """A part of a key that the server computes, as a statement has it; "" for a column that is written."""
    column, _, expression = part
    if column is None:
        return f"({str(expression).replace('%', '%%')})"
    return quote(column) if column in generated else ""


def _of_key(
    table: Table, row: Row, parts: list[_Part], generated: Collection[str], computed: Mapping[str, str]
) -> Condition | None:
    """None where a value is NULL, which is nobody else's."""
    wheres: list[str] = []
    values: list[Parameter] = []
    for name, prefix, expression in parts:
        if made := _computed((name, prefix, expression), generated):
            sides = (made, computed[made])
            wheres.append(" = ".join(sides if prefix is None else [f"LEFT({one}, {prefix})" for one in sides]))
            continue
        if (value := row[str(name)]) is None:
            return None
        column = table.by_name[str(name)]
        where, arguments = equal([column], [value]) if prefix is None else _begins(column, prefix, value)
        wheres.append(where)
        values += arguments
    return " AND ".join(wheres), values


def _begins(column: Column, length: int, value: str) -> Condition:
    where = f"LEFT({side(column)}, {length}) = LEFT({mark(column)}, {length})"
    return where, [key_parameter(column)(value)]
