"""The tables a copy or a verification works on."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.model.errors import ConfigError
from migrate.settings import Settings
from migrate.target.routing import PlannedTable
from migrate.target.stored_plan import stored_plan


def chosen_tables(settings: Settings, state: sa.Engine, names: Sequence[str] | None) -> list[PlannedTable]:
    """The tables of the config as `migrate init` stored them, or of them those named "database.table". Of a broadcast
    table that is read the first node stands for all.

    Raises: PreflightError before init; ConfigError for a name that is not in the config, and where the config lacks a
    table of the migration, or has another rule for one: what is not looked at is not equal.
    """
    planned = list(stored_plan(settings, state).tables.values())
    for name in names or ():
        if not any(item.table.full_name == name for item in planned):
            hint = "tables in the config: " + ", ".join(item.table.full_name for item in planned)
            raise ConfigError(f"there is no table named '{name}'", hint=hint)
    mirrored = {item.mirror_of for item in planned if names is None or item.table.full_name in names}
    return [
        item
        for item in planned
        if item.mirror_of is None and (names is None or item.table.full_name in names or item.table.id in mirrored)
    ]
