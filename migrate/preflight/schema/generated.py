"""Generated columns: the target computes them by itself, they are never written (invariant exact-values)."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.table import Table
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
