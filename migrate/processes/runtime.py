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

from migrate.metrics import serving
from migrate.model.errors import ConfigError, MigrateError, PreflightError, ServerError, StopError
from migrate.model.stopping import stop_on_signals
from migrate.settings import Settings
from migrate.state import database, exit_reason, phase, stop_reason
from migrate.state import migration as migrations
from migrate.state.database import in_transaction
from migrate.state.lease import Held, Leases
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan

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
        in_transaction(self.state, lambda state: exit_reason.clear(state, self.settings.name, self.process), self.stop)


def run_process(settings: Settings, process: str, body: Callable[[Runtime], None]) -> None:
    """Run one stage until it is told to stop.

    A clean stop returns. An error that a restart would meet again is noted in the state first. Raises MigrateError.
    """
    with (
        serving(settings, process),
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
                    exit_reason.clear(connection, settings.name, process)
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
                stop_reason.clear(connection, settings.name, process)
            elif isinstance(error, FOR_GOOD):
                stop_reason.note(connection, settings.name, process, error)
                exit_reason.clear(connection, settings.name, process)
            else:
                exit_reason.note(connection, settings.name, process, error)
    except DBAPIError as refused:
        if error is None:
            raise
        log.warning("the reason could not be stored", error=str(refused.orig))
