"""The plan of a migration from what `migrate init` stored, held against the config."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.model.errors import ConfigError, PreflightError
from migrate.settings import Settings
from migrate.state import phase, schema_history
from migrate.target.changed_rule import changed_rule
from migrate.target.routing import Plan


def stored_plan(settings: Settings, state: sa.Engine) -> Plan:
    """The plan from the definitions that `migrate init` stored. Raises PreflightError before init."""
    with state.connect() as connection:
        tables = schema_history.latest(connection, settings.name)
        first = schema_history.first(connection, settings.name)
        begun = phase.rule_hashes(connection, settings.name)
    if not tables:
        raise PreflightError(f"migration '{settings.name}' is not there yet", hint="run `migrate init` first")
    plan = Plan(settings, tables, first)
    for source, name, table in sorted(tables.keys() - plan.tables.keys()):
        raise ConfigError(
            f"{name}.{table} of source '{source}' belongs to the migration and is not in the config",
            hint="put it back; or stop `migrate run`, and remove it with `migrate init`",
        )
    for key, planned in plan.tables.items():
        if begun.get(key, planned.rule_hash) != planned.rule_hash:
            raise changed_rule(planned, begun[key])
    return plan
