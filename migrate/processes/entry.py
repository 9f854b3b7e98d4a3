"""The stages wired up as processes: `migrate publish | consume | commit | requeue | check`."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.commit.cleanup import Cleanup
from migrate.commit.committer import Committer
from migrate.consume.consumer import Consumer
from migrate.delay.lost_deletes import LostDeletes
from migrate.delay.markers import Markers
from migrate.delay.outdated_keys import OutdatedKeys
from migrate.delay.requeue import Requeue
from migrate.kafka import admin, rights
from migrate.merge.merger import Merger
from migrate.merge.standby_guard import StandbyGuard
from migrate.model import process_names
from migrate.model.errors import PreflightError, ServerError
from migrate.model.stopping import stop_on_signals
from migrate.processes import applied_statements
from migrate.processes.runtime import Runtime, run_process
from migrate.processes.same_keys import alike_in
from migrate.publish.publisher import Publisher
from migrate.publish.schema.policy import ToBeApplied
from migrate.settings import Settings
from migrate.state import database, leading, left_out_messages, position
from migrate.state import migration as migrations
from migrate.state.clock import StateClock
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.state.notes import Notes
from migrate.state.pending_markers import PendingMarkers
from migrate.state.schema_history_reader import HistoryReader
from migrate.state.skipped_key import SkipReasons
from migrate.target.refresh import SourcesNow
from migrate.target.requeue import AftermathSender
from migrate.target.stored_plan import stored_plan
from migrate.verify import check_units
from migrate.verify.check_run import CheckOutcome
from migrate.verify.scheduled import CheckInterrupted, ScheduledCheck

log = structlog.get_logger("migrate.run")


def _look_for(runtime: Runtime, names: Iterable[str], seconds: float) -> dict[str, admin.Topic | None]:
    """Each topic as the broker has it; None where it has none, though it was looked for so many seconds."""
    ends = time.monotonic() + seconds
    found: dict[str, admin.Topic | None] = {}
    for name in names:
        while (one := admin.describe(runtime.settings.kafka, name)) is None:
            left = ends - time.monotonic()
            if left <= 0 or runtime.stop.is_set():
                break
            log.warning("the topic is not there", topic=name)
            runtime.stop.wait(min(left, runtime.settings.consume.idle_seconds))
        found[name] = one
    return found


def _check_topics(runtime: Runtime, seconds: float = math.inf) -> tuple[migrations.Migration, set[str]]:
    """The stored migration, once the broker's topics are seen to be those it began with; and those that are not there,
    though they were waited for. Raises PreflightError."""
    with runtime.state.connect() as connection:
        known = migrations.get(connection, runtime.settings.name)
    found = _look_for(runtime, [topic.name for topic in known.topics], seconds)
    for topic in known.topics:
        if (seen := found[topic.name]) is not None:
            migrations.check(topic, migrations.Topic(seen.name, seen.id, seen.partitions))
    return known, {name for name, seen in found.items() if seen is None}


def _gone_delays(runtime: Runtime, known: migrations.Migration) -> set[str]:
    """The delay topics that are not there."""
    names = [name for topic in known.topics for name in runtime.settings.delay_topics(topic.name)]
    return {name for name, seen in _look_for(runtime, names, admin.NEW).items() if seen is None}


def publish(settings: Settings, source: str) -> None:
    """Publish one source's binlog until told to stop."""
    settings.source(source)

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        rights.require(settings, rights.Process.PUBLISH)
        _check_topics(runtime)
        held = runtime.wait_for(process_names.publisher(source), plan)
        while held is not None:
            planned = {key[1:]: one for key, one in runtime.plan().tables.items() if key[0] == source}
            try:
                Publisher(settings, source, planned, runtime.state, runtime.leases, held, runtime.stop).run()
            except ToBeApplied as wanted:
                if applied_statements.apply(runtime, held.name, wanted, planned[wanted.name]):
                    continue
            except ServerError:
                runtime.leases.check(held.name)  # whoever slept past its lease ends because of that
                raise
            return

    run_process(settings, f"publish:{source}", body)


def consume(settings: Settings) -> None:
    """Consume, merge and write until told to stop."""
    # What a merge makes has no cycles and lives until its end: looking through it again and again finds nothing.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        rights.require(settings, rights.Process.CONSUME)
        known, gone = _check_topics(runtime, admin.NEW)
        gone |= _gone_delays(runtime, known)

        def in_state(action: Callable[[sa.Connection], Any]) -> Any:
            return in_transaction(runtime.state, action, runtime.stop)

        sender = AftermathSender(settings, known, StateClock(runtime.state))
        history, skips = HistoryReader(in_state, settings.name), SkipReasons(in_state, settings.name, alike_in(plan))

        def sources_now() -> SourcesNow:
            def read(connection: sa.Connection) -> SourcesNow:
                return SourcesNow(position.now_read(connection, settings), leading.given_up(connection, settings.name))

            found: SourcesNow = in_state(read)
            return found

        notes = Notes(in_state)
        sides = StandbyGuard(in_state, settings.name, notes)
        merger = Merger(
            plan,
            sender,
            runtime.stop,
            history,
            skips,
            left_out_messages.LeaveOutReasons(in_state),
            sources_now,
            sides,
            PendingMarkers(notes, settings.name),
            notes,
        )
        try:
            Consumer(settings, runtime.state, runtime.leases, merger, runtime.stop, gone).run()
        finally:
            merger.close()

    run_process(settings, process_names.CONSUME, body)


def commit(settings: Settings) -> None:
    """Commit consumed prefixes, and clean up, until told to stop."""

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        rights.require(settings, rights.Process.COMMIT)
        _check_topics(runtime, admin.NEW)
        scheduler = Cleanup(settings, runtime.plan, runtime.state, runtime.leases, runtime.stop).schedule()
        try:
            if runtime.wait_for(process_names.COMMIT, plan) is not None:
                runtime.works()
                Committer(settings, runtime.state, runtime.leases, runtime.stop).run()
        finally:
            scheduler.shutdown(wait=True)

    run_process(settings, "commit", body)


def requeue(settings: Settings) -> None:
    """Bring delayed deletes back until told to stop."""

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        rights.require(settings, rights.Process.REQUEUE)
        _check_topics(runtime, admin.NEW)
        if runtime.wait_for(process_names.REQUEUE, plan) is not None:
            known, gone = _check_topics(runtime, admin.NEW)  # it may have got more partitions while we stood by
            there = replace(known, topics=tuple(topic for topic in known.topics if topic.name not in gone))
            missing = _gone_delays(runtime, there)
            runtime.works()
            markers = Markers(settings, runtime.state, plan, there, runtime.stop)
            clock = StateClock(runtime.state)
            lost = LostDeletes(settings, runtime.state, plan, there, clock, runtime.stop)
            outdated = OutdatedKeys(settings, runtime.state, plan, there, runtime.stop)
            Requeue(settings, there, runtime.leases, clock, runtime.stop, markers, lost, outdated, missing).run()

    run_process(settings, "requeue", body)


def check(settings: Settings) -> None:
    """Compare finished chunks every so often until told to stop."""

    def body(runtime: Runtime) -> None:
        held = runtime.wait_for(process_names.CHECK, runtime.plan())
        if held is not None:
            runtime.works()
            ScheduledCheck(settings, runtime.plan, runtime.state, runtime.leases, held, runtime.stop).run()

    run_process(settings, process_names.CHECK, body)


def check_once(settings: Settings) -> CheckOutcome:
    """One run of the check. Raises ServerError when it was told to stop; PreflightError when another one checks."""
    with (
        database.opened(settings.state) as state,
        closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases,
        stop_on_signals() as stop,
    ):
        held = leases.take(process_names.CHECK)
        if held is None:
            raise PreflightError(
                "another process checks this migration already",
                hint="`migrate run` starts one; `migrate status` shows what it finds",
            )
        plan = stored_plan(settings, state)
        with state.connect() as connection:
            if not check_units.begun(connection, plan):
                raise PreflightError(
                    "nothing can be compared yet: no copy has begun",
                    hint="start `migrate run`, then `migrate copy`; in a group every table must be copied",
                )
        try:
            return ScheduledCheck(settings, partial(stored_plan, settings, state), state, leases, held, stop).run_once()
        except CheckInterrupted as ending:
            hint = "what it compared so far is kept; run it again for the rest"
            raise ServerError("the check was stopped before it was done", hint=hint) from ending
