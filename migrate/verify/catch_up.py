"""Whether the stream has come to what a look saw: live writes are no differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing

import sqlalchemy as sa
import structlog

from migrate.kafka.producer import AcknowledgedLost
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model.errors import ServerError
from migrate.model.message import REQUEUE
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.errors import explained
from migrate.publish.start_position import SourceEnd, source_end
from migrate.settings import Settings
from migrate.state import acknowledged, position, record
from migrate.state import migration as migrations
from migrate.state.pending_markers import Generations
from migrate.target import chunk_fence, outdated
from migrate.target.pool import TargetPool
from migrate.target.routing import TargetDatabase
from migrate.target.stored_plan import stored_plan

log = structlog.get_logger("migrate.verify")
_SETTLES = 5.0
_BETWEEN = 0.5
"""Seconds that a partition is given to end where it had ended, and between two looks."""


class CatchUp:
    """The ends of some sources' logs when this was made, and whether everything up to there is at the target.

    Topics that are not at the broker are waited for no longer: `gone` has them by name.
    """

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        sources: Collection[str],
        ends: Mapping[str, SourceEnd] | None = None,
    ) -> None:
        """ends: of these sources, where their logs end for good; a publisher must not read another server then.

        Raises ServerError when a source does not answer.
        """
        self._sources = sources
        self._settings = settings
        self._state = state
        self._fixed = ends is not None
        self._ends = dict(ends) if ends is not None else self._source_ends()
        self._topic_ends: dict[Partition, int] | None = None
        self._generations = Generations(settings.name)
        self.gone: dict[str, NoSuchTopic] = {}

    def again(self) -> CatchUp:
        """The topics may have got longer since: up to where they end then."""
        self._topic_ends = None
        self._generations = Generations(self._settings.name)
        return self

    def passed(self) -> bool:
        """Ask again. Raises ServerError, AcknowledgedLost."""
        if self._topic_ends is None:
            if not self._published():
                return False
            with self._state.connect() as connection:
                if not self._generations.sent(connection):
                    return False
            self._topic_ends = topic_ends(self._settings, self._state, self._sources, self.gone)
        with self._state.connect() as connection:
            for partition, end in self._topic_ends.items():
                if (record.next_offset(connection, partition) or 0) < end:
                    return False
            if self._generations.last(connection):
                return not self._skips()
        self._topic_ends = None
        return False

    def _skips(self) -> bool:
        """Whether keys of tables of these sources, which are copied, wait to be refreshed, as the update-time filter
        skipped them."""
        if not any(table.update_time for table in self._settings.tables):
            return False
        plan, name = stored_plan(self._settings, self._state), self._settings.name
        waiting: set[TableId] = set()
        closed: dict[TargetDatabase, Collection[TableId]] = {}
        with closing(TargetPool(self._settings)) as pool:
            for database in plan.used_databases:
                with explained(f"{database.target}/{database.database}"):
                    waiting |= outdated.waiting(pool.get(database), name)
                    closed[database] = chunk_fence.closed(pool.get(database), name)
        return any(
            all(id_ in closed[database] for database in planned.databases)
            for id_ in waiting
            if (planned := plan.tables.get(id_)) is not None and planned.table.source in self._sources
        )

    def _published(self) -> bool:
        stored = self._positions(self._ends)
        for name, end in self._ends.items():
            where = stored[name]
            if where is not None and not end.is_of(where):
                if self._fixed:
                    told = f"the publisher of source '{name}' reads another server by now"
                    raise ServerError(told, hint="run `migrate verify` again")
                self._ends = self._source_ends()  # the publisher reads another server by now
                return False
            if where is None or not end.reached_by(where):
                return False
        return True

    def _source_ends(self) -> dict[str, SourceEnd]:
        now, before = position.where_read(self._state, self._settings), self._positions(self._sources)
        ends = {source.name: source_end(source) for source in now.sources if source.name in self._sources}
        for name, end in ends.items():
            end.refuse_earlier(name, before[name])
        return ends

    def _positions(self, names: Collection[str]) -> dict[str, position.Position | None]:
        with self._state.connect() as connection:
            return {name: position.load(connection, self._settings.name, name) for name in names}


def topic_ends(
    settings: Settings, state: sa.Engine, sources: Collection[str], gone: dict[str, NoSuchTopic]
) -> dict[Partition, int]:
    """Where each partition ends. A topic that is not at the broker comes into `gone`, by name.

    Raises: AcknowledgedLost where one ends before what the broker had acknowledged of these sources: what is lost would
    be taken for drained (invariant fence-compares). Of another one, which was taken out or is gone, no publisher could
    send it again. ServerError.
    """
    with state.connect() as connection:
        known = migrations.get(connection, settings.name)
        # Before the broker is asked, which has no less.
        had = acknowledged.highest(connection, settings.name, {*sources, REQUEUE})
    ends: dict[Partition, int] = {}
    with closing(PartitionReader(settings.kafka, f"{settings.group}.check")) as reader:
        for partition in known.partitions:
            topic = known.topic_names[partition.topic_id]
            try:
                ends[partition] = _end(reader, topic, partition.number, had.get(partition, 0))
            except NoSuchTopic as error:
                gone[topic] = error
    return ends


def _end(reader: PartitionReader, topic: str, number: int, had: int) -> int:
    """Where a partition ends. A leader that has just begun may not say at once that it has all.

    Raises AcknowledgedLost, NoSuchTopic, ServerError.
    """
    until = time.monotonic() + _SETTLES
    while (end := reader.bounds(topic, number)[1]) < had:
        if time.monotonic() >= until:
            raise AcknowledgedLost(topic, number, end, had)
        time.sleep(_BETWEEN)
    return end


def come(
    passed: Callable[[], bool], sources: Collection[str], seconds: float, sleep: Callable[[float], None], between: float
) -> bool:
    """Wait until the stream has passed; whether it has in time. between: seconds, until it is asked again. Raises what
    `passed` does."""
    deadline, told = time.monotonic() + seconds, False
    while not passed():
        if not told:
            log.info("waits for the stream; `migrate run` must be running", sources=sorted(sources), at_most=seconds)
            told = True
        if time.monotonic() > deadline:
            return False
        sleep(between)
    return True
