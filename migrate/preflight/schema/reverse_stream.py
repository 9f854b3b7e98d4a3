"""Tables that could not be cut over, as they have no reverse stream: told before anything is copied."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.target.reverse_obstacles import obstacles
from migrate.target.routing import Plan


def check(plan: Plan) -> list[Result]:
    """A note for each, as what is not cut over can be migrated all the same; and for each broadcast table that other
    sources may have a copy of, which no stream writes."""
    sources = {source for source, _, _ in plan.tables}
    found = [
        Result(
            "reverse stream",
            one.table.full_name,
            Verdict.NOTE,
            f"after a cutover {one.table.full_name} is written at source '{one.table.source}' alone",
            "where other sources have this broadcast table too, give it the same rows there before a rollback",
        )
        for one in plan.tables.values()
        if one.broadcast and len(sources) > 1
    ]
    found += [
        Result(
            "reverse stream",
            table.full_name,
            Verdict.NOTE,
            f"`migrate cutover` will refuse {table.full_name}: {why}",
            mend,
        )
        for table, why, mend in obstacles(plan)
    ]
    return found or [
        Result("reverse stream", "tables", Verdict.PASS, "after a cutover every table has a reverse stream")
    ]
