"""`migrate refresh`: have rows read at the source again, and set right everywhere (invariant refresh-settles-doubt)."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.commands.typed_keys import typed_keys
from migrate.model.errors import ConfigError
from migrate.settings import Settings
from migrate.target.refresh_request import bring
from migrate.target.routing import Plan, PlannedTable
from migrate.target.stored_plan import stored_plan


def refresh(
    settings: Settings, state: sa.Engine, name: str, keys: Sequence[str], source: str | None, timeout_seconds: float
) -> int:
    """Ask for rows to be refreshed, and wait until their owner has done so; returns how many.

    Args: name: the table, as database.table. keys: one text for each row, or a JSON list for a key of several columns.
    Raises: ConfigError for a table or key that is none, StopError when the partition is stopped, ServerError when
    nothing consumed it in time.
    """
    plan = stored_plan(settings, state)
    planned = find(plan, name, source)
    wanted = dict.fromkeys(typed_keys(settings, state, plan, planned, keys))
    bring(settings, state, planned, [*wanted], timeout_seconds)
    return len(wanted)


def find(plan: Plan, name: str, source: str | None) -> PlannedTable:
    """The table of that name. Raises ConfigError when there is none, or one at several sources."""
    found = [one for one in plan.tables.values() if one.table.full_name == name and source in (None, one.table.source)]
    if not found:
        names = ", ".join(sorted({one.table.full_name for one in plan.tables.values()}))
        raise ConfigError(f"the migration has no table {name}", hint=f"its tables: {names}")
    found = list({one.table.id: one for one in map(plan.leader, found)}.values())
    if len(found) > 1:
        sources = ", ".join(sorted(one.table.source for one in found))
        raise ConfigError(f"several sources have {name}", hint=f"choose one with --source: {sources}")
    return found[0]
