"""`migrate alarms run`: looks, and has receivers told, under a lease that one process holds (decision 0040)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.alarms.letter import Letter
from migrate.alarms.post import Post
from migrate.alarms.round import handed, took, turn
from migrate.model import process_names
from migrate.model.errors import ConfigError, PreflightError, ServerError
from migrate.processes.runtime import Runtime, run_process
from migrate.settings import Settings
from migrate.state.database import in_transaction
from migrate.state.lease import HeldLease
from migrate.status import margins, unlike_tables
from migrate.status.look import look

log = structlog.get_logger("migrate.alarms")
_LAST_SECONDS = 2.0
"""At a stop, for what is being sent; what is not noted by then is sent again after the next start."""
T = TypeVar("T")


def watch(settings: Settings) -> None:
    """Until told to stop. Raises ConfigError where nobody is to be told."""
    if not settings.alarms.to:
        raise ConfigError("alarms.to names nobody", hint="docs/alarms.md shows how receivers are written")

    def body(runtime: Runtime) -> None:
        held = runtime.leases.wait(process_names.ALARMS, runtime.stop)
        if held is not None:
            runtime.works()
            AlarmLoop(runtime, held).run()

    run_process(settings, process_names.ALARMS, body)


class AlarmLoop:
    def __init__(self, runtime: Runtime, held: HeldLease) -> None:
        self._runtime = runtime
        self._settings = runtime.settings
        self._held = held
        self._awake = threading.Event()
        self._unlike = unlike_tables.kept()
        self._margins = margins.kept()
        self._post = Post(self._settings.alarms, self._awake.set)

    def run(self) -> None:
        """Raises OwnershipLost, PreflightError where the migration is finished."""
        stop = self._runtime.stop
        threading.Thread(target=self._wake_at_stop, daemon=True).start()
        while not stop.is_set():
            self._runtime.leases.check(process_names.ALARMS)
            try:
                self._look()
            except PreflightError:
                raise
            except (ServerError, DBAPIError) as error:
                told = error.message if isinstance(error, ServerError) else str(error.orig)
                log.warning("cannot look, tried again", error=told)
            self._rest()
        self._post.wait(_LAST_SECONDS)
        with suppress(ServerError):  # what is not noted is sent again
            self._note()

    def _wake_at_stop(self) -> None:
        self._runtime.stop.wait()
        self._awake.set()

    def _look(self) -> None:
        now = look(self._settings, self._runtime.state, self._unlike)
        now = replace(now, margins=self._margins(self._runtime.state, self._settings))
        idle = [one for one in self._settings.alarms.to if self._post.is_idle(one.name)]
        self._note()  # all that these have taken, so that nothing of it is due

        def due(connection: sa.Connection) -> dict[str, list[Letter]]:
            letters = turn(connection, self._settings, now)
            for receiver in idle:
                handed(connection, self._settings.name, receiver.name, letters[receiver.name])
            return letters

        letters = self._fenced(due)
        for receiver in idle:
            self._post.send(receiver, letters[receiver.name])

    def _rest(self) -> None:
        """Until the next look; what receivers take meanwhile is noted at once, so that a kill repeats little."""
        ends = time.monotonic() + self._settings.alarms.interval_seconds
        while not self._runtime.stop.is_set() and (left := ends - time.monotonic()) > 0:
            self._awake.wait(left)
            self._awake.clear()
            self._note()

    def _note(self) -> None:
        for one in self._post.taken():
            self._fenced(partial(took, migration=self._settings.name, receiver=one.receiver, letter=one.letter))

    def _fenced(self, action: Callable[[sa.Connection], T]) -> T:
        def fenced(connection: sa.Connection) -> T:
            self._runtime.leases.still_ours(connection, self._held)
            return action(connection)

        return in_transaction(self._runtime.state, fenced, self._runtime.stop)
