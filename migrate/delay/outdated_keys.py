"""Keys of which the update-time filter skipped a change are refreshed, each once, when nothing of their table is
filtered any more (docs/decisions/0050).

That is so once the table's copy is closed in each of its databases, everything that was committed before it ended is in
the partitions, and the partitions are consumed up to there. No change of the table is skipped from then on, so that one
request for each key settles all of them (invariant refresh-settles-doubt); the refresh itself ends the key's entry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.delay.markers import delivered
from migrate.kafka.producer import OrderedProducer
from migrate.kafka.reader import PartitionReader
from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError
from migrate.model.message import encode
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import consumed_total
from migrate.state.database import in_transaction
from migrate.state.migration import Migration, Topic
from migrate.target import chunk_fence, outdated
from migrate.target.pool import TargetPool
from migrate.target.refresh import requeued_refresh
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

log = structlog.get_logger("migrate.requeue")
SECONDS = 1.0
"""Between two looks at the target databases."""
_AWAY_SECONDS = 30.0
_AT_ONCE = 5_000
"""Keys of a table in one database."""

Ends = Mapping[TargetDatabase, Coordinate]


class OutdatedKeys:
    """For the one process that brings messages back. Close it."""

    def __init__(
        self, settings: Settings, state: sa.Engine, plan: Plan, migration: Migration, stop: threading.Event
    ) -> None:
        """migration: with the topics that are there."""
        self._settings = settings
        self._state = state
        self._plan = plan
        self._topics = {topic.name: topic for topic in migration.topics}
        self._stop = stop
        self._pool = TargetPool(settings)
        self._filters = any(planned.update_time is not None for planned in plan.tables.values())
        self._next: float | None = 0.0  # None: there is nothing to look for
        self._until: dict[TableId, dict[Partition, int]] = {}  # what is to be consumed before keys of a table are asked
        self._asked: set[TableId] = set()

    def close(self) -> None:
        self._pool.close()

    def look(self, reader: PartitionReader, producer: OrderedProducer) -> None:
        """Ask for keys to be refreshed, where it is time for that. Where no table has a filter, and no key is left of
        one that had, this looks once.

        Raises ServerError where Kafka does not answer. A target that is away is asked again.
        """
        if self._next is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS
        try:
            found = self._found()
            if not found and not self._filters:
                self._next = None
                return
            for planned in found:
                self._look(planned, reader, producer)
        except ServerError as error:
            self._pool.close()
            self._next = time.monotonic() + _AWAY_SECONDS
            log.warning("keys that the update-time filter skipped are not looked at now", reason=error.message)

    def _found(self) -> list[PlannedTable]:
        """Tables that have keys which wait, or an end, and whose topic is there."""
        ids: set[TableId] = set()
        for database in self._plan.used_databases:
            with explained(f"{database.target}/{database.database}"):
                ids |= outdated.of_tables(self._pool.get(database), self._settings.name)
        some = [self._plan.tables[id_] for id_ in sorted(ids) if id_ in self._plan.tables]
        return [one for one in some if (one.topic or self._settings.topic) in self._topics]

    def _look(self, planned: PlannedTable, reader: PartitionReader, producer: OrderedProducer) -> None:
        """Raises ServerError."""
        id_, topic = planned.table.id, self._topics[planned.topic or self._settings.topic]
        ends = self._ends(planned)
        if ends is None or not self._is_delivered(planned.table.source, ends.values()):
            self._until.pop(id_, None)
            return
        if id_ not in self._until:
            parts = [self._partition(topic, number) for number in planned.partitions(topic.partitions)]
            self._until[id_] = {one: reader.bounds(topic.name, one.number)[1] for one in parts}
        until = self._until[id_]
        prefixes = partial(consumed_total.prefixes, migration=self._settings.name)
        consumed = in_transaction(self._state, prefixes, self._stop)
        if any(consumed.get(one, 0) < end for one, end in until.items()):
            return
        del self._until[id_]  # the next look waits until these requests are consumed
        keys, left = self._keys(planned)
        if keys:
            self._ask(planned, topic, keys, producer)
        if not left:
            for database, end in ends.items():
                with explained(f"{database.target}/{database.database}"):
                    outdated.pass_end(self._pool.get(database), self._settings.name, id_, end)

    def _ends(self, planned: PlannedTable) -> Ends | None:
        """Where the copy ended, by database, where it is filtered up to there; None while a copy is open in any."""
        name, id_, ends = self._settings.name, planned.table.id, dict[TargetDatabase, Coordinate]()
        for database in planned.databases:
            with explained(f"{database.target}/{database.database}"):
                connection = self._pool.get(database)
                if id_ not in chunk_fence.closed(connection, name):
                    return None
                if (end := outdated.ends(connection, name).get(id_)) is not None:
                    ends[database] = end
        return ends

    def _is_delivered(self, source: str, ends: Collection[Coordinate]) -> bool:
        if not ends:
            return True
        end = max(ends)
        read = partial(delivered, migration=self._settings.name, source=source)
        # One that the position is at has everything before it.
        return in_transaction(self._state, read, self._stop).is_behind(end._replace(transaction=end.transaction - 1))

    def _keys(self, planned: PlannedTable) -> tuple[list[Key], bool]:
        """Those that wait, in whichever of the databases; and whether more may."""
        keys, left = dict[Key, None](), False
        for database in planned.databases:
            with explained(f"{database.target}/{database.database}"):
                some = outdated.keys(self._pool.get(database), self._settings.name, planned.table.id, _AT_ONCE)
            left = left or len(some) == _AT_ONCE
            keys |= dict.fromkeys(some)
        return list(keys), left

    def _ask(self, planned: PlannedTable, topic: Topic, keys: list[Key], producer: OrderedProducer) -> None:
        for key in keys:
            number = planned.partition(key, topic.partitions)
            producer.produce(topic.name, number, encode(requeued_refresh(planned.table, [key])))
        if not producer.flush(30.0):
            raise ServerError("Kafka did not confirm refreshes within 30 s", hint="they are asked for again by itself")
        told = {"table": planned.table.full_name, "keys": len(keys)}
        if planned.table.id in self._asked:
            log.warning("keys that the update-time filter skipped are refreshed; some were not yet", **told)
        else:
            log.info("keys that the update-time filter skipped are refreshed", **told)
        self._asked.add(planned.table.id)

    def _partition(self, topic: Topic, number: int) -> Partition:
        return Partition(self._settings.name, topic.id, number)
