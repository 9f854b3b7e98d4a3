"""The tables a copy or a verification works on."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.model.errors import ConfigError, PreflightError
from migrate.settings import Settings
from migrate.state import schema_history
from migrate.target.routing import Plan, PlannedTable


def chosen_tables(settings: Settings, state: sa.Engine, names: Sequence[str] | None) -> list[PlannedTable]:
    """The tables of the config as `migrate init` stored them, or of them those named "database.table".

    Raises: PreflightError before init; ConfigError for a name that is not in the config.
    """
    with state.connect() as connection:
        known = schema_history.latest(connection, settings.name)
        first = schema_history.first(connection, settings.name)
    if not known:
        raise PreflightError(f"migration '{settings.name}' is not there yet", hint="run `migrate init` first")
    planned = list(Plan(settings, known, first).tables.values())
    for name in names or ():
        if not any(item.table.full_name == name for item in planned):
            hint = "tables in the config: " + ", ".join(item.table.full_name for item in planned)
            raise ConfigError(f"there is no table named '{name}'", hint=hint)
    return [item for item in planned if names is None or item.table.full_name in names]
