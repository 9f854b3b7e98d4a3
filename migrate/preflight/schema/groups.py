"""Tables that share their target tables: those that cannot, and what differs (docs/decisions/0018)."""

from __future__ import annotations

from migrate.model.words import counted
from migrate.preflight.result import Result, Verdict
from migrate.target.groups import misfits
from migrate.target.routing import Plan


def check(plan: Plan) -> list[Result]:
    """Each misfit, and a line for each group of tables that are alike."""
    results = [
        Result("group", "tables", Verdict.PROBLEM, one.message, one.hint) for one in misfits(plan.tables.values())
    ]
    if results:
        return results
    leaders = {planned.group: planned for planned in plan.tables.values() if planned.group}
    return [
        Result(
            "group",
            name,
            Verdict.PASS,
            f"group '{name}': {counted(len(plan.members(leader)), 'table')} into"
            f" {counted(len(leader.places), 'target table')}",
        )
        for name, leader in leaders.items()
    ]
