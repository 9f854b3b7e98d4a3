"""The checks of time and space: what is to be copied, and what has room for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from migrate.preflight.capacity import loading, retention, row_sizes, space, volume
from migrate.preflight.capacity.volume import Volume
from migrate.preflight.check import (
    AT_SOURCE_PLANNED,
    AT_TARGET_PLANNED,
    CONNECTED,
    PLANNED,
    At,
    Group,
    Subjects,
    Visit,
    declare,
    declare_each,
)
from migrate.preflight.result import Result
from migrate.target.routing import PlannedTable


def _loading(visit: Visit) -> Iterable[Result]:
    loads = visit.known.settings.copy_.load == "auto"
    return loading.check_target(visit.connection, visit.name) if loads else []


def _to_copy(visit: Visit) -> Sequence[PlannedTable]:
    copied = visit.known.state.copied
    return [one for key, one in visit.plan.tables.items() if key[0] == visit.name and key not in copied]


def _volume(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    visit.known.sources.volumes[planned.table.id] = volume.of(visit.connection, planned.table)
    return []


def _retention_at_source(visit: Visit) -> Iterable[Result]:
    there = [found for key, found in visit.known.sources.volumes.items() if key[0] == visit.name]
    return retention.check(visit.connection, sum(there, Volume()))


def _retention_of_topics(visit: Visit) -> Iterable[Result]:
    total = sum(visit.known.sources.volumes.values(), Volume())
    return retention.check_kafka(visit.known.settings.kafka.retention_hours, total)


def _row_sizes(visit: Visit) -> Iterable[Result]:
    planned = [one for key, one in visit.plan.tables.items() if key[0] == visit.name]
    return row_sizes.check(visit.connection, planned, visit.plan.settings)


def _disk(visit: Visit) -> Iterable[Result]:
    visit.known.targets.disks[visit.name] = space.look(visit.connection)
    return []


def _space_at_targets(visit: Visit) -> Iterable[Result]:
    needed = space.needed(visit.known.sources.volumes, visit.plan.tables.values())
    return space.check_targets(visit.known.targets.disks, needed)


_TO_COPY = Subjects(_to_copy, lambda planned: planned.table.full_name)

LOADING = declare("loading", Group.CAPACITY, At.TARGET, _loading, CONNECTED)

VOLUMES = declare_each("space", Group.CAPACITY, At.SOURCE, _TO_COPY, _volume, AT_SOURCE_PLANNED)
DISKS = declare("space", Group.CAPACITY, At.TARGET, _disk, AT_TARGET_PLANNED)
SPACE_AT_TARGETS = declare("space", Group.CAPACITY, At.HERE, _space_at_targets, PLANNED)
SPACE_HERE = declare("space", Group.CAPACITY, At.HERE, lambda visit: space.check_here(visit.known.settings.run_dir), ())

RETENTION_AT_SOURCE = declare("retention", Group.CAPACITY, At.SOURCE, _retention_at_source, AT_SOURCE_PLANNED)
RETENTION_OF_TOPICS = declare("retention", Group.CAPACITY, At.HERE, _retention_of_topics, PLANNED)

ROW_SIZES = declare("row size", Group.CAPACITY, At.SOURCE, _row_sizes, AT_SOURCE_PLANNED)
