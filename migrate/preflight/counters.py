"""AUTO_INCREMENT: ids are carried over, and no server gives any until the switch; then every table would."""

from __future__ import annotations

from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.preflight.result import Result, Verdict
from migrate.target.plan import PlannedTable

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SHOWN = 3
_LEAST = 1_000_000
"""Ids a table, below which ranges would be used up too soon."""
_ENOUGH = 10**12
"""Not more: after a rollback the source counts on from the highest id of all, and the next ranges begin above that."""


def check(connection: Connection, planned: PlannedTable) -> list[Result]:
    """A note for a table whose ids the source's server gives, with ranges that keep its target tables apart."""
    table, places = planned.table, planned.places
    row = connection.one(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND EXTRA LIKE %s",
        [table.database, table.name, "%auto_increment%"],
    )
    if row is None or str(row[0]) not in table.by_name:
        return []
    told = f"{table.full_name}: {row[0]} is AUTO_INCREMENT: its values are carried over as they are"
    if len(places) == 1:
        told += ", and the one target table counts on from its own highest"
        return [Result("counters", table.full_name, Verdict.PASS, told)]
    if row[0] in planned.rule.columns:
        told += "; it chooses the target table, and no target table would give ids that belong to it"
        mend = f"have the application make values of {row[0]} before the cutover"
        return [Result("counters", table.full_name, Verdict.NOTE, told, mend)]
    told += f"; each of {len(places)} target tables counts on from its own highest one, so two would give the same"
    column = table.by_name[str(row[0])]
    name = full_name(table.database, table.name)
    found = connection.one(f"SELECT COALESCE(MAX({quote(column.name)}), 0) FROM {name}")
    base = 2 * int(found[0] if found else 0) + 1  # room for what the source still gives
    span = min((_most(column.type) - base) // len(places), _ENOUGH)
    if span < _LEAST:
        mend = f"{column.type} is too small for ranges: have the application make ids"
    else:
        shown = "; ".join(
            f"{one.database.target}: ALTER TABLE {full_name(one.database.database, one.table)}"
            f" AUTO_INCREMENT = {base + number * span}"
            for number, one in enumerate(places[:_SHOWN])
        )
        more = f"; and so on by {span}" if len(places) > _SHOWN else ""
        mend = f"have the application make ids, or give ranges before the cutover: {shown}{more}"
    return [Result("counters", table.full_name, Verdict.NOTE, told, mend)]


def _most(column_type: str) -> int:
    """The highest value of an integer type; of others, which count too, what a FLOAT has exactly."""
    name = column_type.lower().partition("(")[0].split()[0]
    if name not in _BITS:
        return 1 << 24
    return (1 << _BITS[name] - ("unsigned" not in column_type.lower())) - 1
