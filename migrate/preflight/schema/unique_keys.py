"""Unique keys that no server can hold to once rows are in several tables."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan


def check(plan: Plan) -> list[Result]:
    """A note for each table with several places and a key that lacks a column which chooses between them. Of a
    broadcast table each place has every row, and so every value."""
    results = []
    for planned in plan.tables.values():
        table, columns = planned.table, set(planned.rule.columns)
        if len(planned.places) < 2 or planned.broadcast:
            continue
        apart = [key for key in (table.key, *table.unique_keys) if not columns <= set(key)]
        for key in apart:
            what = "key" if key == table.key else "unique key"
            told = (
                f"{table.full_name}: {what} ({', '.join(key)}) lacks {', '.join(sorted(columns - set(key)))}, which the"
                f" sharding rule goes by: {len(planned.places)} target tables can each take the same value"
            )
            mend = "values stay unique while the service writes; after the switch the application has to keep them so"
            if key != table.key and not planned.unique_apart:
                mend += ", and say so by `unique_apart: true`"
            results.append(Result("unique keys", table.full_name, Verdict.NOTE, told, mend))
    return results or [Result("unique keys", "tables", Verdict.PASS, "every unique key holds within its target table")]
