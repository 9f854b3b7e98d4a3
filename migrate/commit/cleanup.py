"""Every five minutes: drop old committed records, ledger entries nobody comes back for, decisions (seed 003 §32)."""

from __future__ import annotations

import threading
from contextlib import closing

import sqlalchemy as sa
import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from migrate.model.table import Table
from migrate.settings import Settings
from migrate.state import record
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.target import decided, ledger, standing
from migrate.target.plan import Plan, TableId, TargetPool

log = structlog.get_logger("migrate.cleanup")
LEASE = "cleanup"
_LIMIT = 10_000
_TRANSACTIONS = 1_000  # whose decisions go in one statement: each may be megabytes


class Cleanup:
    """Runs beside the committer, under a lease of its own; a second one stands by."""

    def __init__(self, plan: Plan, state: sa.Engine, leases: Leases, stop: threading.Event) -> None:
        self._plan = plan
        self._settings: Settings = plan.settings
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
            if not self._held and self._leases.acquire(LEASE) is None:
                return
            self._held = True
            self._leases.check(LEASE)
            self.run_once()
        except Exception as error:  # the next run tries again; the committer beside must go on
            self._held = False
            self._leases.release(LEASE)
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
        entries = self._clean_ledgers()
        decisions = self._clean_decisions()
        log.info("cleaned up", records=records, ledger_entries=entries, decisions=decisions)
        return records, entries

    def _clean_ledgers(self) -> int:
        """A place's entries go once the copies of all tables that share it are closed."""
        tables: dict[TableId, tuple[Table, set[TableId]]] = {}
        for planned in self._plan.tables.values():
            tables.setdefault(planned.noted_as.id, (planned.noted_as, set()))[1].add(planned.table.id)
        deleted = 0
        with closing(TargetPool(self._settings)) as pool:
            for database in self._plan.used_databases:
                connection = pool.get(database)
                known = standing.read(connection, self._settings.name)
                for noted_as, ids in tables.values():
                    if known.noted and ids <= known.closed:
                        deleted += ledger.clean_up(connection, self._settings.name, noted_as, _LIMIT)
        return deleted

    def _clean_decisions(self) -> int:
        seconds, deleted = self._settings.consume.keep_decisions_seconds, 0
        with closing(TargetPool(self._settings)) as pool:
            for database in self._plan.used_databases:
                while gone := decided.clean_up(pool.get(database), self._settings.name, seconds, _TRANSACTIONS):
                    deleted += gone
                    if gone < _TRANSACTIONS or self._stop.is_set():
                        break
        return deleted
