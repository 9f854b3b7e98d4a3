"""Markers of foreign keys come back into their partitions once the copy of their table is closed."""

from __future__ import annotations

import threading
import time

import sqlalchemy as sa
import structlog

from migrate.kafka.producer import OrderedProducer
from migrate.model.errors import ServerError
from migrate.settings import Settings
from migrate.state import phase, waiting
from migrate.state.database import in_transaction
from migrate.state.migration import Migration
from migrate.state.phase import Phase
from migrate.state.waiting import Waiting
from migrate.target.cascades import partitions
from migrate.target.plan import Plan

log = structlog.get_logger("migrate.requeue")
_SECONDS = 1.0
"""Between two looks into the state."""


class Markers:
    """For the one process that brings messages back."""

    def __init__(
        self, settings: Settings, state: sa.Engine, plan: Plan, migration: Migration, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._state = state
        self._plan = plan
        self._topics = migration.topic_names
        self._migration = migration
        self._stop = stop
        self._next = 0.0

    def bring_back(self, producer: OrderedProducer) -> None:
        """Send what need not wait any more, and forget it once the broker has it; a crash in between sends it twice,
        and nothing is found the second time. Raises ServerError."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS
        ready = in_transaction(self._state, self._ready, self._stop)
        for one in ready:
            topic, numbers = self._where(one)
            for number in numbers:
                producer.produce(topic, number, one.message.encode("utf-8"))
        if not ready:
            return
        if not producer.flush(30.0):
            raise ServerError("Kafka did not confirm markers within 30 s", hint="they are sent again after a restart")
        in_transaction(self._state, lambda connection: waiting.came_back(connection, ready), self._stop)
        log.info("markers came back", count=len(ready))

    def _ready(self, connection: sa.Connection) -> list[Waiting]:
        name = self._settings.name
        there = waiting.of_tables(connection, name) & self._plan.tables.keys()
        if not there:
            return []
        copied = {id_ for id_, one in phase.every(connection, name).items() if one is Phase.COPIED}
        closed = [id_ for id_ in there if copied.issuperset(self._group(id_))]
        return waiting.some(connection, name, sorted(closed))

    def _group(self, id_: tuple[str, str, str]) -> set[tuple[str, str, str]]:
        return {one.table.id for one in self._plan.members(self._plan.tables[id_])}

    def _where(self, one: Waiting) -> tuple[str, list[int]]:
        """Its partition; all of the table's where the topic is another by now."""
        if (name := self._topics.get(one.partition.topic_id)) is not None:
            return name, [one.partition.number]
        planned = self._plan.tables[one.table]
        topic = self._migration.topic(planned.topic or self._settings.topic)
        return topic.name, list(partitions(planned, topic.partitions))
