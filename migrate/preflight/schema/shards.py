"""The sharding rule against real rows: how they spread, and rows that no place takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pymysql

from migrate.chunks.column_codecs import carried
from migrate.model.errors import MigrateError
from migrate.model.message import Row
from migrate.model.table import Column, TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.mysql.keys import order
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import Parameter, compared, from_server
from migrate.preflight.limits import SECONDS, TOO_LONG, limited
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Place, PlannedTable

SAMPLE = 5_000
"""Rows from each end of the key, also those that `rows` leaves out: a table is never read as a whole for this."""

_SKEWED = 2.0
_NAMED = 4
_ENOUGH = 100
"""Rows a place, on average, below which a skew says nothing."""


Spread = dict[TableId, Counter[Place]]
"""Rows of each place, of the source tables of groups."""


def check(connection: Connection, planned: PlannedTable, spread: Spread) -> list[Result]:
    """Route a sample of a table's rows, and look for NULL in all of them, which every rule refuses (docs/sharding.md).

    spread: takes how the rows of a table of a group spread, which `preflight.schema.spread` judges. Raises nothing of
    the rule's: what it refuses is a problem.
    """
    rows = sample(connection, planned)
    null = {name for row in rows for name in planned.rule.columns if row[name] is None}  # told by the rule itself
    columns = [name for name in planned.rule.columns if planned.table.by_name[name].nullable and name not in null]
    return [*_spread(planned, rows, spread), *(one for name in columns for one in _nulls(connection, planned, name))]


def _nulls(connection: Connection, planned: PlannedTable, column: str) -> list[Result]:
    """By an index, where the column has one; else as far as the server comes in its time."""
    table, subject = planned.table, planned.table.full_name
    where, arguments = and_rows(f"{quote(column)} IS NULL", [], planned.rows)
    sql = f"SELECT 1 FROM {full_name(table.database, table.name)} WHERE {where} LIMIT 1"
    refused = "which the sharding rule takes to no table"
    try:
        found = connection.one(limited(connection, sql), arguments)
    except pymysql.MySQLError as error:
        if number(error) not in TOO_LONG:
            raise
        told = f"{subject}: whether {column} is NULL in a row, {refused}, was not seen in {SECONDS} s"
        mend = f"ask for it when there is time: SELECT 1 FROM {subject} WHERE {column} IS NULL LIMIT 1"
        return [Result("sharding", subject, Verdict.NOTE, told, mend)]
    if found is None:
        return []
    told = f"{subject}: {column} is NULL in a row at least, {refused}"
    return [Result("sharding", subject, Verdict.PROBLEM, told, "fix the rule or the rows, or leave them out by `rows`")]


def _spread(planned: PlannedTable, sample: Iterable[Row], spread: Spread) -> list[Result]:
    name = planned.table.full_name
    found: Counter[Place] = Counter(dict.fromkeys(planned.places, 0))
    refused: list[str] = []
    for row in sample:
        try:
            found[planned.route(row)] += 1
        except MigrateError as error:
            refused.append(f"{_shown(row, planned)}: {error.message}")
    rows = found.total()
    if refused:
        told = (
            f"{name}: the sharding rule takes {len(refused):,} of {rows + len(refused):,} rows looked at to no table;"
            f" none like {refused[0]}"
        )
        return [
            Result("sharding", name, Verdict.PROBLEM, told, "fix the rule or the rows, or leave them out by `rows`")
        ]
    if not rows:
        told = "none of the rows looked at belongs to the migration" if planned.rows is not None else "has no rows yet"
        return [Result("sharding", name, Verdict.PASS, f"{name}: {told}")]
    if planned.broadcast:
        told = f"{name}: each of {rows:,} rows looked at goes to each of {len(planned.places)} tables (broadcast)"
        return [Result("sharding", name, Verdict.PASS, told)]
    if not planned.group:
        return [judged(name, "", found)]
    spread[planned.table.id] = found
    taken = sum(1 for count in found.values() if count)
    told = f"{name}: {rows:,} rows looked at go to {taken} of {len(planned.places)} tables"
    if len(planned.members) > 1:
        told += ", which others fill too"
    return [Result("sharding", name, Verdict.PASS, told)]


def judged(name: str, of: str, found: Counter[Place]) -> Result:
    """How rows spread over places. of: whose they are."""
    rows, places = found.total(), len(found)
    skew = max(found.values()) * places / rows
    taken = sum(1 for count in found.values() if count)
    told = f"{name}: {rows:,} rows looked at{of} go to {taken} of {places} tables, skew {skew:.2f}"
    if places > 1:
        told += f": {_counts(found)}"
    if places > 1 and skew > _SKEWED and rows >= _ENOUGH * places:
        return Result("sharding", name, Verdict.NOTE, told, "see that the sharding column has many, even values")
    return Result("sharding", name, Verdict.PASS, told)


def _counts(found: Counter[Place]) -> str:
    """Rows of each place; of many places those with the most and the fewest."""
    ordered = found.most_common()
    if len(ordered) <= 2 * _NAMED:
        return ", ".join(f"{place} {found[place]:,}" for place in sorted(found, key=str))
    ends = (ordered[:_NAMED], ordered[-_NAMED:])
    most, fewest = (", ".join(f"{place} {count:,}" for place, count in some) for some in ends)
    return f"{most} … {fewest}"


def sample(connection: Connection, planned: PlannedTable) -> list[Row]:
    """Rows from both ends of a table, with the columns of the key and of its rules. Raises the driver's error."""
    columns = _columns(planned)
    fields, inner = ", ".join(map(compared, columns)), [quote(column.name) for column in columns]
    rows: dict[tuple[str | None, ...], Row] = {}
    for descending in (False, True):
        sql, arguments = of_an_end(planned, fields, inner, SAMPLE, descending=descending)
        for row in _read(connection, columns, sql, arguments):
            rows[tuple(row[name] for name in planned.table.key)] = row
    return list(rows.values())


def first(connection: Connection, planned: PlannedTable, condition: str) -> Row | None:
    """As a row of `sample`, the first by its key for which a condition is true. Raises the driver's error."""
    columns, table = _columns(planned), planned.table
    where, arguments = and_rows(condition, [], planned.rows)
    sql = f"SELECT {', '.join(map(compared, columns))} FROM {full_name(table.database, table.name)} WHERE {where}"
    return next(_read(connection, columns, f"{sql} ORDER BY {order(table)} LIMIT 1", arguments), None)


def _columns(planned: PlannedTable) -> list[Column]:
    return [planned.table.by_name[name] for name in carried(planned)]


def _read(connection: Connection, columns: Sequence[Column], sql: str, arguments: Sequence[Parameter]) -> Iterator[Row]:
    readers = [(column.name, from_server(column)) for column in columns]
    for values in connection.query(limited(connection, sql), arguments):
        yield {name: read(value) for (name, read), value in zip(readers, values, strict=True)}


def of_an_end(
    planned: PlannedTable, fields: str, inner: Iterable[str], count: int, *, descending: bool
) -> tuple[str, list[Parameter]]:
    """A SELECT, with its parameters, of the migration's rows among the first or last `count` of a table by its key.

    The conditions of `rows` stand outside: inside, the server would look for `count` rows that meet them, up to all.
    inner: the expressions that the fields are made of.
    """
    table = planned.table
    where, arguments = and_rows("TRUE", [], planned.rows)
    conditions = planned.rows.conditions if planned.rows is not None else ()
    names = dict.fromkeys([*inner, *(quote(condition.column.name) for condition in conditions)])
    some = f"SELECT {', '.join(names)} FROM {full_name(table.database, table.name)}"
    return (
        f"SELECT {fields} FROM ({some} ORDER BY {order(table, descending=descending)} LIMIT {count}) AS sampled"
        f" WHERE {where}"
    ), arguments


def _shown(row: Row, planned: PlannedTable) -> str:
    names = dict.fromkeys((*planned.table.key, *planned.rule.columns))
    return ", ".join(f"{name} = {row.get(name)}" for name in names)
