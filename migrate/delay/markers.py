"""Markers of foreign keys go into the partitions of their table once nothing can come before them any more.

A marker for the children of a row that went follows the change at the source which took it: the children's own changes
from before that are in their partitions once the publisher's stored position is behind it. One of a table whose copy is
open waits until the copy is closed.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import NamedTuple

import sqlalchemy as sa
import structlog

from migrate.kafka.acknowledged import AcknowledgedCheck
from migrate.kafka.producer import AcknowledgedEnds, OrderedProducer
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError
from migrate.model.message import REQUEUE
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.settings import Settings
from migrate.state import acknowledged, pending_markers, phase, position, reached, replay
from migrate.state.database import in_transaction
from migrate.state.migration import Migration
from migrate.state.pending_markers import PendingMarker
from migrate.state.phase import Phase
from migrate.state.reached import BROKER, LostMessages
from migrate.target.routing import Plan, PlannedTable

log = structlog.get_logger("migrate.requeue")
SECONDS = 0.3
"""Between two looks into the state: a grandchild waits so long."""
_AT_ONCE = 1_000
SENDER = REQUEUE
"""In a source's place, among what was acknowledged."""


class Delivered(NamedTuple):
    """Up to where everything of a source is in its partitions.

    published: whether anything of it is; up_to: None while changes are published again, which may not be there yet.
    former: whether all of the servers before is, too.
    """

    published: bool
    up_to: Coordinate | None
    former: bool = True

    def is_behind(self, after: Coordinate | None) -> bool:
        """Whether a change is in its partition; None, no change: whether the publisher has begun."""
        if after is None or self.up_to is None:
            return self.published and after is None
        is_former = after.incarnation < self.up_to.incarnation
        return self.published and after < self.up_to and (self.former or not is_former)


def delivered(connection: sa.Connection, migration: str, source: str) -> Delivered:
    """What of a source is in its partitions by now."""
    place = position.load(connection, migration, source)
    if place is None or replay.replaying(connection, migration, place):
        return Delivered(place is not None, None)
    return Delivered(True, place.coordinate, replay.is_past_failover(connection, migration, place))


class Markers:
    """For the one process that brings messages back."""

    def __init__(
        self, settings: Settings, state: sa.Engine, plan: Plan, migration: Migration, stop: threading.Event
    ) -> None:
        """migration: with the topics that are there."""
        self._settings = settings
        self._state = state
        self._plan = plan
        self._topics = {topic.name: topic for topic in migration.topics}
        self._stop = stop
        self._next = 0.0
        with state.connect() as connection:
            found = acknowledged.load(connection, settings.name, SENDER)
        names = migration.topic_names
        known = {part: end for part, end in found.items() if part.topic_id in names}
        self.ends = AcknowledgedEnds({(names[part.topic_id], part.number): end for part, end in known.items()})
        """For the producer: up to where the broker acknowledged what this process sent."""
        self._kept = AcknowledgedCheck(settings.kafka, f"{settings.group}.delay.acknowledged", self.ends, SENDER, stop)

    def looking(self) -> AbstractContextManager[None]:
        """Compare while the block sends; its producer raises AcknowledgedLost."""
        return self._kept.looking(self._settings.consume.compare_seconds)

    def look(self) -> None:
        """A partition that ends before that, or has another sender's message there, lost markers, perhaps, which nobody
        sends again: only a verification finds what they would have changed (invariant fence-compares).
        Raises ServerError.
        """
        self._kept.look()
        self.note_lost()

    def note_lost(self) -> None:
        """Note it, and take the partitions as they are from here on."""
        lost = {
            (topic, number): LostMessages(BROKER, f"{topic} [{number}]", end, had, had)
            for (topic, number), (end, had) in self.ends.lost.copy().items()
        }
        if not lost:
            return

        def note(connection: sa.Connection) -> None:
            for one in lost.values():
                reached.note_lost(connection, self._settings.name, one)
            acknowledged.put(connection, SENDER, {self._partition(*place): 0 for place in lost})

        in_transaction(self._state, note, self._stop)
        for place, one in lost.items():
            self.ends.forget(place)
            log.error("the broker lost acknowledged messages", lost=str(one))

    def _partition(self, topic: str, number: int) -> Partition:
        return Partition(self._settings.name, self._topics[topic].id, number)

    def send_ready(self, producer: OrderedProducer) -> None:
        """Send what need not wait any more, and note it once the broker has it; a crash in between sends it twice, and
        nothing is found the second time. Raises ServerError."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS
        ready, messages = in_transaction(self._state, self._ready, self._stop)
        for one in ready:
            planned = self._plan.tables[one.table]
            topic = self._topics[planned.topic or self._settings.topic]
            for number in planned.partitions(topic.partitions):
                producer.produce(topic.name, number, messages[one.id].encode("utf-8"))
        if not ready:
            return
        if not producer.flush(30.0):
            raise ServerError("Kafka did not confirm markers within 30 s", hint="they are sent again after a restart")
        changed = self.ends.changed()
        ends = {self._partition(*place): end for place, end in changed.items()}

        def sent(connection: sa.Connection) -> None:
            pending_markers.sent(connection, self._settings.name, ready)
            acknowledged.put(connection, SENDER, ends)

        in_transaction(self._state, sent, self._stop)
        self.ends.stored(changed)
        log.info("markers sent", count=len(ready))

    def _ready(self, connection: sa.Connection) -> tuple[list[PendingMarker], dict[int, str]]:
        """Of tables that are in the migration, and whose topic is there; with what they say."""
        name = self._settings.name
        if not (found := pending_markers.every(connection, name)):
            return [], {}
        copied = {id_ for id_, one in phase.every(connection, name).items() if one is Phase.COPIED}
        passed = {source: delivered(connection, name, source) for source in {one.table[0] for one in found}}
        ready = [
            one
            for one in found
            if (planned := self._plan.tables.get(one.table)) is not None
            and (planned.topic or self._settings.topic) in self._topics
            and passed[one.table[0]].is_behind(one.after)
            and (not one.copied or copied.issuperset(self._group(planned)))
        ][:_AT_ONCE]
        return ready, pending_markers.messages(connection, ready) if ready else {}

    def _group(self, planned: PlannedTable) -> set[TableId]:
        return {one.table.id for one in self._plan.members(planned)}
