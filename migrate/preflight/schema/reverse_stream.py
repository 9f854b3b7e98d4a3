"""Tables that could not be cut over, as they have no reverse stream: told before anything is copied."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.target.reverse_obstacles import obstacles
from migrate.target.routing import Plan


def check(plan: Plan) -> list[Result]:
    """A note for each, as what is not cut over can be migrated all the same."""
    found = [
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
