"""Every five minutes: drop old committed records, ledger entries nobody comes back for, decisions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import sqlalchemy as sa
import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from migrate.model import process_names
from migrate.model.table import Table, TableId
from migrate.settings import Settings
from migrate.state import record
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.target import chunk_fence, decided, ledger, write_context
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan

log = structlog.get_logger("migrate.cleanup")
_LIMIT = 10_000
_ROWS = 1_000  # of decisions in one statement: each has up to 2,000 keys, and may be megabytes


class Cleanup:
    """Runs beside the committer, under a lease of its own; a second one stands by."""

    def __init__(
        self,
        settings: Settings,
        plan: Callable[[], Plan],
        state: sa.Engine,
        leases: Leases,
        stop: threading.Event,
    ) -> None:
        """plan: the plan as `migrate init` noted it last, which may be another at each run."""
        self._plan = plan
        self._settings = settings
        self._state = state
        self._leases = leases
        self._stop = stop
        self._held = False

    def schedule(self) -> BackgroundScheduler:
        """Start the schedule: one instance, missed runs coalesced."""
        scheduler = BackgroundScheduler(timezone="UTC")
        seconds = self._settings.commit.cleanup_interval_seconds
        scheduler.add_job(
            self._run_safely,
            "interval",
            seconds=seconds,
            id="cleanup",
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        scheduler.start()
        return scheduler

    def _run_safely(self) -> None:
        try:
            if not self._held and self._leases.acquire(process_names.CLEANUP) is None:
                return
            self._held = True
            self._leases.check(process_names.CLEANUP)
            self.run_once()
        except Exception as error:  # the next run tries again; the committer beside must go on
            self._held = False
            self._leases.release(process_names.CLEANUP)
            log.warning("cleanup failed, next run tries again", error=str(error))

    def run_once(self) -> tuple[int, int]:
        """Returns (records, ledger entries) deleted; old decisions go too."""
        age = self._settings.commit.cleanup_age_seconds

        def clean(connection: sa.Connection) -> int:
            return record.clean_up(connection, self._settings.name, age, _LIMIT)

        records = 0
        while deleted := in_transaction(self._state, clean, self._stop):
            records += deleted
            if deleted < _LIMIT or self._stop.is_set():
                break
        plan = self._plan()
        with closing(TargetPool(self._settings)) as pool:
            entries = self._clean_ledgers(plan, pool)
            decisions = self._clean_decisions(plan, pool)
        log.info("cleaned up", records=records, ledger_entries=entries, decisions=decisions)
        return records, entries

    def _clean_ledgers(self, plan: Plan, pool: TargetPool) -> int:
        """A place's entries go once the copies of all tables that share it are closed."""
        tables: dict[TableId, tuple[Table, set[TableId]]] = {}
        for planned in plan.tables.values():
            tables.setdefault(planned.noted_as.id, (planned.noted_as, set()))[1].add(planned.table.id)
        deleted = 0
        for database in plan.used_databases:
            self._leases.check(process_names.CLEANUP)  # frozen for long, the plan may be another now
            connection = pool.get(database)
            known = write_context.read(connection, self._settings.name)
            for noted_as, ids in tables.values():
                if known.noted and ids <= known.closed:
                    with connection.transaction():
                        if chunk_fence.hold_closed(connection, self._settings.name, ids):  # none was opened since
                            deleted += ledger.clean_up(connection, self._settings.name, noted_as, _LIMIT)
        return deleted

    def _clean_decisions(self, plan: Plan, pool: TargetPool) -> int:
        seconds, deleted = self._settings.consume.keep_decisions_seconds, 0
        for database in plan.used_databases:
            while gone := decided.clean_up(pool.get(database), self._settings.name, seconds, _ROWS):
                deleted += gone
                if gone < _ROWS or self._stop.is_set():
                    break
        return deleted
