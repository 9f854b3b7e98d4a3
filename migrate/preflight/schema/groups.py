"""Tables that share their target tables: those that cannot, and what differs (docs/decisions/0018)."""

from __future__ import annotations

from migrate.model.words import counted
from migrate.preflight.result import Result, Verdict
from migrate.target.groups import misfits
from migrate.target.routing import Plan, PlannedTable


def _home(leader: PlannedTable) -> str:
    if leader.home is None:
        return ""
    told = "which its key tells" if leader.key_tells_home else "which its row tells"
    return f"; each row belongs to one of them by {', '.join(leader.home.rule.columns) or 'home'}, {told}"


def check(plan: Plan) -> list[Result]:
    """Each misfit, and a line for each group of tables that are alike."""
    results = [
        Result("group", "tables", Verdict.PROBLEM, one.message, one.given) for one in misfits(plan.tables.values())
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
            f" {counted(len(leader.places), 'target table')}{_home(leader)}",
        )
        for name, leader in leaders.items()
    ]
