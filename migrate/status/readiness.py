"""What keeps a stream from being switched: everything must run, be copied, and be at the target."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import MigrateError
from migrate.model.words import counted, duration
from migrate.mysql.errors import explained
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state import check, failover, foreign, left_out_messages, oversized, verification
from migrate.state.phase import Phase
from migrate.status import snapshot, target_losses
from migrate.status.snapshot import Status
from migrate.target import ledger, parked
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
) -> list[str]:
    """Each in one line; none when the stream is ready. without: sources that are gone, and not asked about.
    patience_seconds: how long it may be behind before that is one."""
    plan = plan or stored_plan(settings, state)
    deadline = time.monotonic() + patience_seconds
    try:
        now = snapshot.read(settings, state, plan=plan)
        while _lag(now, without) > max_lag_seconds and time.monotonic() < deadline:
            time.sleep(_AGAIN)
            now = snapshot.read(settings, state, plan=plan)
    except MigrateError as error:
        return [error.message]
    ready = {Phase.COPIED.value, *([snapshot.CATCHING_UP] if without else [])}  # in doubt by a server that is gone
    return standing_in_the_way(settings, now, max_lag_seconds, without) + [
        f"table {name} is {stage}" for name, stage in now.tables.items() if stage not in ready
    ]


def standing_in_the_way(
    settings: Settings, now: Status, max_lag_seconds: float | None = None, without: Collection[str] = ()
) -> list[str]:
    """What keeps a stream from being at its target, by its status.

    max_lag_seconds: of a stream that hurries; None: of one that waits for its merges, as it does before a cutover.
    """
    sources = [one for one in now.sources if one.name not in without]
    halting = {lease_name(name) for name in without}
    lag = _lag(now, without)
    found = [f"{one['process']} stands still: {one['reason']}" for one in now.halted if one["process"] not in halting]
    found += [f"source '{one.name}': {one.problem}" for one in sources if one.problem]
    found += [f"no publisher has begun with source '{one.name}'" for one in sources if not one.published]
    found += [f"topic {name} is not at the broker" for name in sorted(now.gone)]
    found += now.unanswered
    found += [
        f"no publisher reads source '{source.name}'{_ended(now, lease_name(source.name))}"
        for source in sources
        if lease_name(source.name) not in now.leading
    ]
    if idle := [part for part in now.partitions if not part.owner]:
        found.append(f"no consumer works on {counted(len(idle), 'partition')}{_ended(now, 'consume')}")
    found += [f"source '{one.name}' is replayed up to {one.replaying}" for one in sources if one.replaying]
    if max_lag_seconds is None:
        most, interval = settings.cutover.max_lag_seconds, settings.consume.merge_interval_seconds
        allowed, told = (
            most + interval,
            f"cutover.max_lag_seconds and consume.merge_interval_seconds ({most:g} + {interval:g})",
        )
    else:
        allowed, told = max_lag_seconds, f"cutover.max_lag_seconds ({max_lag_seconds:g})"
    if lag > allowed:
        found.append(f"it is {lag:.1f} s behind, above {told}")
    longest = duration(max(settings.delay.tiers_seconds))
    aside = {
        f"empty delete waits, for up to {longest} (delay.tiers_seconds)": now.empty_deletes,
        "marker of a foreign key waits for its table's copy to close": now.waiting_markers,
        "change is parked": now.parked,
        "key is skipped": now.skips,
    }
    found += [f"{count} × {what}" for what, count in aside.items() if count]
    return found + to_be_verified(now, without)


def to_be_verified(now: Status, without: Collection[str] = ()) -> list[str]:
    """What stands in the way until a clean verification of all tables that begins after it."""
    found = [f"source '{one.name}': {one.doubt}" for one in now.sources if one.doubt and one.name not in without]
    if now.foreign and not without:
        found.append(foreign_listed(now.foreign))
    found += [f"{one}, not verified since" for one in now.lost]
    if now.differing:
        found.append(differs(now.differing))
    if now.left_out_since:
        found.append(f"{now.left_out_since} × message is left out, and what it held not verified since")
    if rows := sum(not row["verified"] for row in now.oversized):
        found.append(f"{rows} × row is left out of the stream, and not verified since")
    return found


def not_carried(connection: sa.Connection, migration: str) -> str:
    """What a stream left out, or the scheduled check found different, since the last clean verification; "" for
    nothing."""
    since = verification.equal_since(connection, migration)
    if keys := check.count(connection, migration, verification=since):
        return differs(keys)
    if rows := len(oversized.every(connection, migration, since)):
        return f"{counted(rows, 'row')} left out of the stream, too large for Kafka"
    if messages := left_out_messages.count(connection, migration, since):
        return f"{counted(messages, 'message')} left out"
    return ""


def differs(keys: int) -> str:
    return f"{counted(keys, 'row')} found different by the scheduled check, and not verified since"


def foreign_left(connection: sa.Connection, migration: str) -> str:
    """As `foreign_listed`, of both streams; "" where nothing is listed."""
    rows = foreign.count_both(connection, migration)
    return foreign_listed(rows) if rows else ""


def foreign_listed(count: int) -> str:
    """What holds a switch back until those rows were found equal."""
    return (
        f"{counted(count, 'row')} written at a standby side, or too late, not found equal yet: `migrate foreign list`"
    )


def _lag(now: Status, without: Collection[str]) -> float:
    return max([now.lag_of_consumers, *(one.lag_seconds for one in now.sources if one.name not in without)])


def _ended(now: Status, process: str) -> str:
    """How the last one of a process ended, where that is known."""
    return "".join(
        f": the last one ended at {one['at']}: {one['reason']}" for one in now.ended if one["process"] == process
    )


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


def too_old(connection: sa.Connection, settings: Settings) -> str:
    """Why the last verification is no ground for a cutover any more; "" when it is. settings: of the way there."""
    hours = settings.cutover.verified_within_hours
    if verification.is_fresh(connection, settings.name, hours):
        return ""
    return f"the last clean verification of all tables began more than {hours:g} h ago (cutover.verified_within_hours)"
