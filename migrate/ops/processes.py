"""The stages wired up as processes: `migrate publish | consume | commit | requeue`."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.commit.cleanup import Cleanup
from migrate.commit.committer import LEASE as COMMIT_LEASE
from migrate.commit.committer import Committer
from migrate.consume.consumer import Consumer
from migrate.delay.requeue import LEASE as REQUEUE_LEASE
from migrate.delay.requeue import Requeue
from migrate.kafka import admin
from migrate.merge.merger import Merger
from migrate.ops.runtime import Runtime, run_process
from migrate.publish.publisher import Publisher, lease_name
from migrate.settings import Settings
from migrate.state import left_out, position
from migrate.state import migration as migrations
from migrate.state.clock import StateClock
from migrate.state.database import in_transaction
from migrate.state.schema_history import Reading
from migrate.state.skip import Skips
from migrate.target.requeue import AftermathSender

log = structlog.get_logger("migrate.run")


def _check_topics(runtime: Runtime) -> migrations.Migration:
    """The stored migration, once the broker's topics are seen to be those it began with; waits for them to appear."""
    with runtime.state.connect() as connection:
        known = migrations.get(connection, runtime.settings.name)
    for topic in known.topics:
        while not runtime.stop.is_set():
            found = admin.describe(runtime.settings.kafka, topic.name)
            if found is not None:
                migrations.check(topic, migrations.Topic(found.name, found.id, found.partitions))
                break
            log.warning("the topic is not there", topic=topic.name)
            runtime.stop.wait(runtime.settings.consume.idle_seconds)
    return known


def publish(settings: Settings, source: str) -> None:
    """Publish one source's binlog until told to stop."""
    settings.source(source)

    def body(runtime: Runtime) -> None:
        runtime.plan()
        _check_topics(runtime)
        held = runtime.wait_for(lease_name(source))
        if held is not None:  # tables may have been added while we stood by
            planned = {key[1:]: one for key, one in runtime.plan().tables.items() if key[0] == source}
            Publisher(settings, source, planned, runtime.state, runtime.leases, held, runtime.stop).run()

    run_process(settings, f"publish:{source}", body)


def consume(settings: Settings) -> None:
    """Consume, merge and write until told to stop."""
    # What a merge makes has no cycles and lives until its end: looking through it again and again finds nothing.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        known = _check_topics(runtime)

        def in_state(action: Callable[[sa.Connection], Any]) -> Any:
            return in_transaction(runtime.state, action, runtime.stop)

        sender = AftermathSender(settings, known, StateClock(runtime.state))
        history, skips = Reading(in_state, settings.name), Skips(in_state, settings.name)

        def where_read() -> Settings:
            found: Settings = in_state(lambda connection: position.now_read(connection, settings))
            return found

        merger = Merger(plan, sender, runtime.stop, history, skips, left_out.Reasons(in_state), where_read)
        try:
            Consumer(settings, runtime.state, runtime.leases, merger, runtime.stop).run()
        finally:
            merger.close()

    run_process(settings, "consume", body)


def commit(settings: Settings) -> None:
    """Commit consumed prefixes, and clean up, until told to stop."""

    def body(runtime: Runtime) -> None:
        plan = runtime.plan()
        _check_topics(runtime)
        scheduler = Cleanup(plan, runtime.state, runtime.leases, runtime.stop).schedule()
        try:
            if runtime.wait_for(COMMIT_LEASE) is not None:
                Committer(settings, runtime.state, runtime.leases, runtime.stop).run()
        finally:
            scheduler.shutdown(wait=True)

    run_process(settings, "commit", body)


def requeue(settings: Settings) -> None:
    """Bring delayed deletes back until told to stop."""

    def body(runtime: Runtime) -> None:
        _check_topics(runtime)
        if runtime.wait_for(REQUEUE_LEASE) is not None:
            known = _check_topics(runtime)  # it may have got more partitions while we stood by
            Requeue(settings, known, runtime.leases, StateClock(runtime.state), runtime.stop).run()

    run_process(settings, "requeue", body)
