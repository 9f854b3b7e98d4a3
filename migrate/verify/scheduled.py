"""The scheduled check: a run every two minutes, under a lease that one process holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy.exc import DBAPIError

from migrate.chunks.outcome import may_pass
from migrate.model import process_names
from migrate.model.errors import MigrateError, ServerError, StopError
from migrate.mysql.errors import text
from migrate.settings import Settings
from migrate.state import leading, stop_reason
from migrate.state.database import in_transaction
from migrate.state.lease import HeldLease, Leases
from migrate.target.routing import Plan
from migrate.verify.check_run import CheckOutcome, CheckRun

log = structlog.get_logger("migrate.check")
_JOB = "check"
_LOOK_SECONDS = 0.5
_SOON_SECONDS = 10.0
"""After a run that could not compare something, as a table that is just altered at one side; each further pause is
twice as long, up to that between all runs."""


class CheckInterrupted(Exception):  # noqa: N818 - it ends a run, and is no error
    """The process is to end."""


class ScheduledCheck:
    """Runs until stopped. What a run cannot compare is noted for `migrate status` and tried again soon."""

    def __init__(
        self,
        settings: Settings,
        plan: Callable[[], Plan],
        state: sa.Engine,
        leases: Leases,
        held: HeldLease,
        stop: threading.Event,
    ) -> None:
        """plan: reads the tables as they are now, once a run."""
        self._settings = settings
        self._plan = plan
        self._state = state
        self._leases = leases
        self._held = held
        self._stop = stop
        self._ending = threading.Event()
        self._failure: Exception | None = None
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._pause = _SOON_SECONDS

    def run(self) -> None:
        """Raises OwnershipLost when another process took over, and what a restart would meet again."""
        self._schedule()
        try:
            while not self._stop.wait(_LOOK_SECONDS):
                self._leases.check(process_names.CHECK)
                if self._failure is not None:
                    raise self._failure
        finally:
            self._ending.set()
            self._scheduler.shutdown(wait=True)

    def run_once(self) -> CheckOutcome:
        """One run now. Raises StopError for a table that cannot be compared, ServerError."""
        return CheckRun(self._plan(), self._state, self._write, self._sleep).run()

    def _schedule(self) -> None:
        self._scheduler.add_job(
            self._run_safely,
            "interval",
            seconds=self._settings.check.interval_seconds,
            next_run_time=datetime.now(UTC),
            id=_JOB,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        self._scheduler.start()

    def _run_safely(self) -> None:
        try:
            if not self._run_and_note():
                self._pause = _SOON_SECONDS
            elif (soon := datetime.now(UTC) + timedelta(seconds=self._pause)) < self._next():
                self._scheduler.modify_job(_JOB, next_run_time=soon)
                self._pause *= 2
        except Exception as error:  # told by the main thread: it ends the process
            self._failure = error

    def _next(self) -> datetime:
        """When it runs without being asked to run sooner."""
        when: datetime = self._scheduler.get_job(_JOB).next_run_time
        return when

    def _run_and_note(self) -> bool:
        """Whether something was noted that could not be compared."""
        try:
            self._leases.check(process_names.CHECK)
            with self._state.connect() as connection:
                if not leading.leads(connection, self._settings.name):
                    return False  # the sources follow by now: what is newer at the targets is no difference
            done = self.run_once()
            self._note(None)
        except CheckInterrupted:
            log.info("run ended early")
        except StopError as error:
            log.error("cannot compare, tried again soon", reason=error.message, hint=error.hint)
            self._note(error)
            return True
        except (ServerError, DBAPIError) as error:
            reason = text(error.orig or error) if isinstance(error, DBAPIError) else str(error)
            log.warning("check failed, tried again", error=reason)
            if isinstance(error, ServerError) and not may_pass(error):
                with suppress(ServerError):  # the state itself may be what refuses
                    self._note(error)
                return True
        else:
            log.info("checked", **asdict(done.counts), differences=done.differences, seconds=done.seconds)
        return False

    def _sleep(self, seconds: float) -> None:
        """Raises Ending when the process is to end, OwnershipLost."""
        ends = time.monotonic() + seconds
        while True:
            self._leases.check(process_names.CHECK)
            left = ends - time.monotonic()
            if self._stop.wait(max(0.0, min(left, _LOOK_SECONDS))) or self._ending.is_set():
                raise CheckInterrupted
            if left <= _LOOK_SECONDS:
                return

    def _write(self, action: Callable[[sa.Connection], None]) -> None:
        def fenced(connection: sa.Connection) -> None:
            self._leases.still_ours(connection, self._held)
            action(connection)

        in_transaction(self._state, fenced, self._ending)

    def _note(self, error: MigrateError | None) -> None:
        def note(connection: sa.Connection) -> None:
            if error is None:
                stop_reason.clear(connection, self._settings.name, process_names.CHECK)
            else:
                stop_reason.note(connection, self._settings.name, process_names.CHECK, error)

        self._write(note)
