"""What keeps a stream from being switched: everything must run, be copied, and be at the target."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import MigrateError
from migrate.model.words import counted
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import failover, foreign, left_out_messages, oversized, verification
from migrate.status import blockers, snapshot_reading, target_losses, told
from migrate.status.blocker import Blocker, Kind
from migrate.status.snapshot import Snapshot
from migrate.status.table_state import TableState
from migrate.target import ledger, outdated, parked
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan

_AGAIN = 0.2  # seconds between two looks at a stream that is behind


def problems(
    settings: Settings,
    state: sa.Engine,
    plan: Plan | None,
    max_lag_seconds: float,
    without: Collection[str] = (),
    patience_seconds: float = 0.0,
) -> list[Blocker]:
    """None when the stream is ready. without: sources that are gone, and not asked about. patience_seconds: how long it
    may be behind before that is one."""
    plan = plan or stored_plan(settings, state)
    deadline = time.monotonic() + patience_seconds
    try:
        now = snapshot_reading.read(settings, state, plan=plan)
        while blockers.lag(now, without) > max_lag_seconds and time.monotonic() < deadline:
            time.sleep(_AGAIN)
            now = snapshot_reading.read(settings, state, plan=plan)
    except MigrateError as error:
        return [Blocker(Kind.NO_ANSWER, facts={"reason": error.message})]
    return blockers.of_stream(settings, now, max_lag_seconds, without) + not_ready(now, without)


def not_ready(now: Snapshot, without: Collection[str] = ()) -> list[Blocker]:
    """Tables that are not copied, or whose source is in doubt: that of a server that is gone is not judged."""
    ready = {TableState.COPIED, *([TableState.CATCHING_UP] if without else [])}
    return [
        Blocker(Kind.TABLE_NOT_READY, name, {"state": stage})
        for name, stage in now.tables.items()
        if stage not in ready
    ]


def not_carried(connection: sa.Connection, migration: str) -> str:
    """What a stream left out, or a check or verification found different, since the last clean verification; "" for
    nothing."""
    since = verification.equal_since(connection, migration)
    if keys := snapshot_reading.differing(connection, migration, since):
        return told.differs(keys)
    if rows := len(oversized.every(connection, migration, since)):
        return f"{counted(rows, 'row')} left out of the stream, too large for Kafka"
    if messages := left_out_messages.count(connection, migration, since):
        return f"{counted(messages, 'message')} left out"
    return ""


def foreign_left(connection: sa.Connection, migration: str) -> str:
    """Rows of both streams that came by no stream, in a line; "" where nothing is listed."""
    rows = foreign.count_both(connection, migration)
    return told.foreign(rows) if rows else ""


def left_behind(settings: Settings, state: sa.Engine, plan: Plan, without: Collection[str] = ()) -> str:
    """What is not at the places although its messages are consumed; "" for nothing. without: sources that are gone.
    Raises ServerError."""
    with state.connect() as known:
        expected = target_losses.Expected.read(known, plan)
        if gone := verification.lost(known, settings.name):
            return f"{gone[0]}: not verified since"
        if unread := not_carried(known, settings.name):
            return unread
        if doubts := [name for name in failover.in_doubt(known, settings.name) if name not in without]:
            return f"source '{doubts[0]}' is another server since the last verification"
    with closing(TargetPool(settings)) as pool, explained("targets"):
        for database in plan.used_databases:
            connection = pool.get(database)
            if gone := expected.lost(connection, database):
                return str(gone[0])
            if kept := outdated.count(connection, settings.name):
                return f"{database.target}/{database.database} has {counted(kept, 'key')} skipped by update_time"
            if (waiting := ledger.waiting(connection, settings.name)) or (
                aside := parked.count(connection, settings.name)
            ):
                what = (
                    f"{counted(waiting, 'delete')} that found nothing"
                    if waiting
                    else f"{counted(aside, 'parked change')}"
                )
                return f"{database.target}/{database.database} has {what}"
    return ""


def too_old(connection: sa.Connection, settings: Settings) -> Blocker | None:
    """Why the last verification is no ground for a cutover any more, or None. settings: of the forward stream."""
    hours = settings.cutover.verified_within_hours
    if verification.is_fresh(connection, settings.name, hours):
        return None
    return Blocker(Kind.VERIFIED_TOO_LONG_AGO, facts={"hours": hours})
