"""The plan of the tables that were found, and the rules that do not fit them."""

from __future__ import annotations

from collections.abc import Mapping

from migrate.model.errors import MigrateError
from migrate.model.table import Table, TableId
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import update_time
from migrate.settings import Settings
from migrate.target.routing import Plan
from migrate.target.update_time import UpdateTimeError


def plan_of(settings: Settings, found: Mapping[TableId, Table], *, told: bool) -> tuple[Plan | None, list[Result]]:
    """The plan, None where there is nothing to plan; and what does not fit.

    told: each rule that does not fit is a result of its own and the others are planned; else init says the first.
    """
    if not found:
        return None, []
    try:
        return _planned(settings, found), []
    except MigrateError:
        if not told:
            return None, []
    fit, misfits = {}, []
    for id_, table in found.items():
        try:
            _planned(settings, {id_: table})
            fit[id_] = table
        except MigrateError as error:
            check = update_time.CHECK if isinstance(error, UpdateTimeError) else "sharding"
            misfits.append(Result(check, table.full_name, Verdict.PROBLEM, error.message, error.given))
    return (_planned(settings, fit) if fit else None), misfits


def _planned(settings: Settings, tables: Mapping[TableId, Table]) -> Plan:
    """Of these alone, whatever else is in the config. Raises ConfigError."""
    there = [
        one for one in settings.tables if one.is_pattern or (settings.source_of(one), one.database, one.table) in tables
    ]
    return Plan(settings.model_copy(update={"tables": tuple(there)}), tables)
