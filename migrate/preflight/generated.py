"""Generated columns: the target computes them by itself, they are never written (rule 14)."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.preflight.existing import Existing
from migrate.preflight.result import Result, Verdict


def check(tables: Iterable[Table]) -> list[Result]:
    """A note for each selected table that has any."""
    return [
        Result(
            "generated",
            table.full_name,
            Verdict.NOTE,
            f"{table.full_name}: generated columns are computed by the target, not written: {', '.join(names)}",
        )
        for table in tables
        if (names := [column.name for column in table.columns if column.generated])
    ]


def check_target(connection: Connection, existing: Existing) -> list[Result]:
    """A problem for each target table that is there and generates other columns than its source table."""
    rows = connection.query(
        "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND GENERATION_EXPRESSION <> '' ORDER BY TABLE_NAME, ORDINAL_POSITION",
        [existing.database],
    )
    generated: dict[str, set[str]] = {}
    for name, column in rows:
        generated.setdefault(str(name), set()).add(str(column))
    results = []
    for name, (place, table) in existing.tables.items():
        mine = {column.name for column in table.columns if column.generated}
        theirs = generated.get(name, set())
        at_target, at_source = "at the target, not at the source", "at the source, not at the target"
        for columns, where in ((theirs - mine, at_target), (mine - theirs, at_source)):
            if columns:
                told = f"{place}: generated {where}: {', '.join(sorted(columns))}"
                mend = f"make {table.full_name} and {place} the same by ALTER TABLE … MODIFY, or drop {place} for init"
                results.append(Result("generated", str(place), Verdict.PROBLEM, told, mend))
    return results
