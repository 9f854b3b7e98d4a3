"""More partitions for a drained migration: else a key's changes could overtake each other (invariant per-key-order)."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.kafka import admin
from migrate.kafka.topic_identity import BEGIN_ANEW
from migrate.model import process_names
from migrate.model.coordinate import file_number
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.words import counted
from migrate.processes import exclusive
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position, record
from migrate.state.migration import Migration, Topic
from migrate.status import snapshot_reading
from migrate.target.routing import Plan

_STOP = "stop `migrate run` after `migrate drain`, wait until the lease has run out, and run this command again"


def repartition(settings: Settings, state: sa.Engine, partitions: int, topic: str | None = None) -> Topic:
    """Give a topic, and its delay topics, that many partitions; returns what is stored now. Safe to repeat.

    topic: which; may be left out where the migration has one. Every process must have been stopped, and everything that
    was published must be at the target. Raises: ConfigError for a number that is not above the present one or an
    unknown topic, PreflightError when something still runs or waits.
    """
    with state.connect() as connection:
        migration = migrations.get(connection, settings.name)
    known = _chosen(migration, topic)
    if partitions <= known.partitions:
        raise ConfigError(
            f"topic {known.name} has {counted(known.partitions, 'partition')}; Kafka cannot take partitions away",
            hint=f"choose more than {known.partitions}",
        )
    with exclusive.for_everyone(settings, state, migration, _STOP) as leases:
        refuse_unless_drained(settings, state, migration)
        found = admin.require(settings.kafka, known.name)
        migrations.check(known, Topic(found.name, found.id, known.partitions))
        if found.partitions not in (known.partitions, partitions):
            raise PreflightError(
                f"topic {known.name} has {counted(found.partitions, 'partition')}, the migration {known.partitions}",
                hint=f"they were added by hand: `migrate repartition {found.partitions}` records them",
            )
        for name in (known.name, *settings.delay_topics(known.name)):
            admin.add_partitions(settings.kafka, name, partitions)
        with state.begin() as connection:
            for lease in process_names.SINGLE:
                leases.still_ours(connection, leases.check(lease))
            return migrations.set_partitions(connection, settings.name, known, partitions)


def _chosen(migration: Migration, name: str | None) -> Topic:
    names = ", ".join(topic.name for topic in migration.topics)
    if name is None and len(migration.topics) > 1:
        raise ConfigError("the migration has several topics", hint=f"choose one with --topic: {names}")
    for topic in migration.topics:
        if name in (None, topic.name):
            return topic
    raise ConfigError(f"the migration has no topic {name}", hint=f"its topics: {names}")


def refuse_unless_drained(settings: Settings, state: sa.Engine, known: Migration, plan: Plan | None = None) -> None:
    """Everything that was published is at the target, and none of it will be sent again. Raises PreflightError.

    plan: where the config's is not the stored one.
    """
    now = snapshot_reading.read(settings, state, plan=plan)
    waiting = {
        "message": now.waiting_messages,
        "record": now.records.get("new", 0),
        "empty delete": now.empty_deletes,
        "marker of a foreign key": now.waiting_markers,
        "key skipped by update_time": now.outdated,
        "partition that a target lost changes of": now.lacking,
    }
    for topic in sorted(now.gone):
        raise PreflightError(f"topic {topic} is not at the broker", hint=BEGIN_ANEW)
    left = ", ".join(counted(count, what) for what, count in waiting.items() if count)
    if left:
        raise PreflightError(
            f"not drained: {left} waiting",
            hint="start `migrate run`, wait for `migrate drain`, stop it, then run this again",
        )
    for source in settings.sources:
        _refuse_unsaved_position(settings, state, known, source.name)


def _refuse_unsaved_position(settings: Settings, state: sa.Engine, known: Migration, source: str) -> None:
    """A publisher that was killed sends again what it had not noted; that must fall where it fell before."""
    with state.connect() as connection:
        stored = position.load(connection, settings.name, source)
        marks = [record.watermarks(connection, partition).get(source) for partition in known.partitions]
    if stored is None:
        return
    here = (stored.incarnation, file_number(stored.file), stored.pos)
    if any(mark is not None and mark[:3] >= here for mark in marks):
        raise PreflightError(
            f"source '{source}': its publisher was killed before it noted its last position",
            hint="start `migrate run` once more, wait for `migrate drain`, stop it, then run this again",
        )
