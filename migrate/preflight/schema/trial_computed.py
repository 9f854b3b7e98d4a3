"""What a target computes of rows, against what the source has of their generated columns.

Servers of one version compute alike but for what they know (time zone tables, say); others may not. The rows are
written into a table of a scratch database one by one, read, and rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pymysql

from migrate.chunks.column_codecs import to_parameters
from migrate.copy import refused_rows
from migrate.model.change import key_json
from migrate.model.table import Table
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import number
from migrate.mysql.expressions import expressions
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import Parameter, compared, from_server, portable
from migrate.preflight.capacity.row_sizes import octets
from migrate.preflight.limits import TOO_LONG, limited
from migrate.preflight.result import Verdict
from migrate.target.routing import PlannedTable
from migrate.target.rows import PlaceWriter

_ROWS = 20
_ROW_BYTES = 10_000

Raw = tuple[bytes | None, ...]


class Computed(NamedTuple):
    """A row's values in the order of `Table.stored`, and those of its generated columns."""

    row: Raw
    generated: Raw


def rows(connection: Connection, planned: PlannedTable) -> list[Computed]:
    """Of a source table, some with their generated columns; none where there are none. Raises the driver's error."""
    table = planned.table
    if len(table.stored) == len(table.columns):
        return []
    size = octets(table)
    where, arguments = and_rows(f"{size} <= {_ROW_BYTES}" if size else "TRUE", [], planned.rows)
    fields = ", ".join([*map(compared, table.stored), *_generated(table).values()])
    sql = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where} LIMIT {_ROWS}"
    try:
        found = connection.query(limited(connection, sql), arguments)
    except pymysql.MySQLError as error:
        if number(error) not in TOO_LONG:
            raise
        return []
    width = len(table.stored)
    return [Computed(row[:width], row[width:]) for row in found]


def differing(
    connection: Connection,
    table: Table,
    statement: str,
    name: str,
    found: Sequence[Computed],
    rolled_back: Callable[[Callable[[], object]], None],
) -> Iterator[tuple[Verdict, str, str]]:
    """A verdict, what is so, and the way out, for each generated column of which the target computes another value.

    statement: the source's definition. name: of the table in the session's database. rolled_back: runs something in a
    transaction. A value that no row keeps is a note. Raises the driver's error.
    """
    stored = {one.column for one in expressions(statement, table) if one.stored}
    for column, key in _differing(connection, PlaceWriter(table, name), found, rolled_back).items():
        told = (
            f"computes another value for generated column {column} of {table.full_name} than the source has, key {key}"
        )
        mend = f"give the target what {column} is computed from, such as the source's time zone tables"
        if column in stored:
            plain = f"make {column} a plain column at the source, which keeps the values (ALTER TABLE … MODIFY COLUMN)"
            yield Verdict.PROBLEM, told, f"{mend}; or {plain}"
        else:
            yield Verdict.NOTE, f"{told}; applications would read it after the switch", mend


def _differing(
    connection: Connection,
    writer: PlaceWriter,
    found: Sequence[Computed],
    rolled_back: Callable[[Callable[[], object]], None],
) -> dict[str, str]:
    """By column, the key of the first row."""
    table, columns = writer.table, _generated(writer.table)
    sql = f"SELECT {', '.join(columns.values())} FROM {quote(writer.name)}"
    differs: dict[str, str] = {}
    for row, values in found:
        there: list[Raw] = []
        pairs = zip(table.stored, row, strict=True)
        parameters = [to_parameters(column)([value])[0] for column, value in pairs]

        def written(parameters: Sequence[Parameter] = parameters, there: list[Raw] = there) -> None:
            writer.insert_values(connection, [parameters])
            there += connection.query(sql)

        try:
            rolled_back(written)
        except (pymysql.MySQLError, Warned) as error:
            if not refused_rows.is_of_a_row(error):
                raise
            continue  # of one row; the copy names those that the target does not take
        for column, here, value in zip(columns, there[0], values, strict=True):
            if here != value:
                differs.setdefault(column, key_json(tuple(_text(table, row, one) for one in table.key)))
    return differs


def _generated(table: Table) -> dict[str, str]:
    """By name, what both flavours give of a value alike."""
    return {column.name: portable(column) for column in table.columns if column.generated}


def _text(table: Table, row: Raw, name: str) -> str:
    at = [column.name for column in table.stored].index(name)
    return str(from_server(table.stored[at])(row[at]))
