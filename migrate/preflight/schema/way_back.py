"""Tables that could not be cut over, as they have no way back: told before anything is copied."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan
from migrate.target.way_back import obstacles


def check(plan: Plan) -> list[Result]:
    """A note for each, as what is not cut over can be migrated all the same."""
    found = [
        Result(
            "way back", table.full_name, Verdict.NOTE, f"`migrate cutover` will refuse {table.full_name}: {why}", mend
        )
        for table, why, mend in obstacles(plan)
    ]
    return found or [Result("way back", "tables", Verdict.PASS, "after a cutover every table has a way back")]
