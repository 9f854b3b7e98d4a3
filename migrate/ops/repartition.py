"""More partitions for a drained migration: until then a key's changes could overtake each other (rule 2)."""

from __future__ import annotations

from contextlib import closing

import sqlalchemy as sa

from migrate.commit.committer import LEASE as COMMIT_LEASE
from migrate.delay.requeue import LEASE as REQUEUE_LEASE
from migrate.kafka import admin
from migrate.model.coordinate import file_number
from migrate.model.errors import ConfigError, PreflightError
from migrate.ops import status
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position, record
from migrate.state.lease import Leases
from migrate.state.migration import Migration
from migrate.state.record import Partition


def repartition(settings: Settings, state: sa.Engine, partitions: int) -> Migration:
    """Give the migration's topics that many partitions; returns what is stored now. Safe to repeat after a kill.

    Every process must have been stopped, and everything that was published must be at the target. Raises: ConfigError
    for a number that is not above the present one, PreflightError when something still runs or waits.
    """
    with state.connect() as connection:
        known = migrations.get(connection, settings.name)
    if partitions <= known.partitions:
        raise ConfigError(
            f"topic {known.topic} has {known.partitions} partitions; Kafka can only add some",
            hint=f"choose more than {known.partitions}",
        )
    with closing(Leases(state, settings.name, settings.lease.seconds).start()) as leases:
        _stand_in_for_everyone(settings, leases, known)
        _refuse_unless_drained(settings, state, known)
        found = admin.require(settings.kafka, known.topic)
        migrations.check(known, Migration(known.name, found.name, found.id, known.partitions))
        if found.partitions not in (known.partitions, partitions):
            raise PreflightError(
                f"topic {known.topic} has {found.partitions} partitions, the migration {known.partitions}",
                hint=f"they were added by hand: `migrate repartition {found.partitions}` brings both together",
            )
        for name in (known.topic, *settings.delay_topics):
            admin.add_partitions(settings.kafka, name, partitions)
        with state.begin() as connection:
            for lease in (COMMIT_LEASE, REQUEUE_LEASE):
                leases.still_ours(connection, leases.check(lease))
            return migrations.set_partitions(connection, known, partitions)


def _stand_in_for_everyone(settings: Settings, leases: Leases, known: Migration) -> None:
    """Take every process's lease, so that none runs meanwhile."""
    names = [lease_name(source.name) for source in settings.sources]
    names += [COMMIT_LEASE, REQUEUE_LEASE, *(f"partition:{number}" for number in range(known.partitions))]
    for name in names:
        if leases.acquire(name) is None:
            raise PreflightError(
                f"a process still runs: the lease '{name}' is held",
                hint="stop `migrate run` after `migrate drain`, wait until the lease has run out, and say this again",
            )


def _refuse_unless_drained(settings: Settings, state: sa.Engine, known: Migration) -> None:
    now = status.read(settings, state)
    waiting = {
        "messages": now.waiting_messages,
        "records": now.records.get("new", 0),
        "empty deletes": now.empty_deletes,
    }
    left = ", ".join(f"{count} {what}" for what, count in waiting.items() if count)
    if left:
        raise PreflightError(
            f"not drained: {left} wait", hint="start `migrate run`, wait for `migrate drain`, stop it, say this again"
        )
    for source in settings.sources:
        _refuse_unsaved_position(settings, state, known, source.name)


def _refuse_unsaved_position(settings: Settings, state: sa.Engine, known: Migration, source: str) -> None:
    """A publisher that was killed sends again what it had not noted; that must fall where it fell before."""
    with state.connect() as connection:
        stored = position.load(connection, settings.name, source)
        marks = [
            record.watermarks(connection, Partition(settings.name, known.topic_id, number)).get(source)
            for number in range(known.partitions)
        ]
    if stored is None:
        return
    here = (stored.incarnation, file_number(stored.file), stored.pos)
    if any(mark is not None and mark[:3] >= here for mark in marks):
        raise PreflightError(
            f"source '{source}': its publisher was killed before it noted how far it came",
            hint="start `migrate run` once more, wait for `migrate drain`, stop it, say this again",
        )
