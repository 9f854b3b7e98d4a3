"""One long-running process: signals, leases, state, and what happens when it must stop for good."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.model.errors import ConfigError, MigrateError, PreflightError, ServerError, StopError
from migrate.model.stopping import stop_on_signals
from migrate.settings import Settings
from migrate.state import database, ending, halt, phase, schema_history
from migrate.state import migration as migrations
from migrate.state.database import in_transaction
from migrate.state.lease import Held, Leases
from migrate.target.plan import Plan

log = structlog.get_logger("migrate.run")
FOR_GOOD = (StopError, PreflightError, ConfigError)
"""Errors that a restart meets again: noted in the state for `migrate status`."""


@dataclass(frozen=True)
class Runtime:
    settings: Settings
    process: str
    state: sa.Engine
    leases: Leases
    stop: threading.Event

    def plan(self) -> Plan:
        """Tables, rules and places as `migrate init` stored them."""
        return stored_plan(self.settings, self.state)

    def wait_for(self, lease: str, plan: Plan) -> Held | None:
        """Stand by for a singleton's lease; None when we are to stop first.

        Raises ServerError when `migrate init` has changed the plan meanwhile.
        """
        held = self.leases.wait(lease, self.stop)
        if held is not None:
            with self.state.connect() as connection:
                plan.refuse_outdated(phase.rule_hashes(connection, self.settings.name))
        return held

    def works(self) -> None:
        """The lease is held and the servers answered: how the last one ended is over."""
        in_transaction(self.state, lambda state: ending.clear(state, self.settings.name, self.process), self.stop)


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
            raise ConfigError(
                f"{planned.table.full_name}: columns, key, sharding rule, places or group changed since it began",
                hint="restore them, or start a new migration under another name",
            )
    return plan


def run_process(settings: Settings, process: str, body: Callable[[Runtime], None]) -> None:
    """Run one stage until it is told to stop.

    A clean stop returns. An error that a restart would meet again is noted in the state first. Raises MigrateError.
    """
    with (
        database.opened(settings.state) as state,
        closing(Leases(state, settings.name, settings.lease.seconds)) as leases,
    ):
        with state.connect() as connection:
            migrations.get(connection, settings.name)  # before init one line is enough
        try:
            with stop_on_signals() as stop:
                leases.start()
                _note(settings, state, process, None)
                log.info("started", pid=os.getpid())
                body(Runtime(settings, process, state, leases, stop))
                with state.begin() as connection:
                    ending.clear(connection, settings.name, process)
                log.info("stopped")
        except FOR_GOOD as error:
            log.error("stopped for good", reason=error.message, hint=error.hint)
            _note(settings, state, process, error)
            raise
        except ServerError as error:
            _note(settings, state, process, error)
            raise


def _note(settings: Settings, state: sa.Engine, process: str, error: MigrateError | None) -> None:
    try:
        with state.begin() as connection:
            if error is None:
                halt.clear(connection, settings.name, process)
            elif isinstance(error, FOR_GOOD):
                halt.note(connection, settings.name, process, error)
                ending.clear(connection, settings.name, process)
            else:
                ending.note(connection, settings.name, process, error)
    except DBAPIError as refused:
        if error is None:
            raise
        log.warning("the reason could not be stored", error=str(refused.orig))
