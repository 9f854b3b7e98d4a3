"""The requeue process: brings delayed deletes back when they are due (rule 11, seed 003 §34).

Each tier of a topic is a topic with the same partitions. A message is read, waits in memory until it is due, goes to
its partition of the topic it came from, and only then is its offset committed; a crash in between sends it twice,
which the ledger recognises.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import structlog

from migrate.delay.markers import SECONDS as MARKERS_SECONDS
from migrate.delay.markers import Markers
from migrate.kafka.admin import NEW
from migrate.kafka.producer import AcknowledgedLost, OrderedProducer
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.kafka.watch import TopicWatch
from migrate.model.errors import ServerError, StopError
from migrate.model.message import decode
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.lease import Leases
from migrate.state.migration import Migration

log = structlog.get_logger("migrate.requeue")
LEASE = "requeue"
_PAUSE = 0.2
_BUFFERED = 1000
"""Messages held of one partition before it is paused. Their due times rise, so the head decides; where they do not, as
the state server's clock was set back, those behind it come late by as much."""


@dataclass(slots=True)
class _Waiting:
    messages: deque[tuple[int, int, bytes]] = field(default_factory=deque)  # (offset, due in ms, value)
    paused: bool = False


class Requeue:
    def __init__(
        self,
        settings: Settings,
        migration: Migration,
        leases: Leases,
        clock: StateClock,
        stop: threading.Event,
        markers: Markers,
        gone: Collection[str] = (),
    ) -> None:
        """markers: what waits in the state. gone: delay topics that the broker does not have."""
        self._settings = settings
        self._leases = leases
        self._clock = clock
        self._stop = stop
        self._markers = markers
        self._reader = PartitionReader(settings.kafka, f"{settings.group}.delay")
        self._producer = OrderedProducer(settings.kafka, ends=markers.ends)
        self._back_to = {name: topic.name for topic in migration.topics for name in settings.delay_topics(topic.name)}
        self._topics = TopicWatch(settings.kafka, {}, self._back_to, gone)
        self._waiting = {
            (name, number): _Waiting()
            for topic in migration.topics
            for name in settings.delay_topics(topic.name)
            for number in range(topic.partitions)
        }

    def run(self) -> None:
        """Requeue until stopped. Raises StopError, OwnershipLost, ServerError."""
        try:
            self._check_topics()
            self._markers.look(self._reader)
            for topic, number in self._waiting:
                low, high = self._bounds(topic, number)
                start = self._reader.committed(topic, number)
                if start is not None and not low <= start <= high:
                    raise StopError(
                        f"{topic} [{number}]: reading goes on at offset {start}, the broker has {low} to {high}",
                        hint="they were deleted before they came back: raise kafka.retention_hours, copy again",
                    )
                self._reader.assign(topic, number, low if start is None else start)
            while not self._stop.is_set():
                self._leases.check(LEASE)
                self._check_topics()
                self._read()
                self._send_due()
                self._markers.send_ready(self._producer)
        except AcknowledgedLost as error:
            self._markers.lost(error)
            raise ServerError(error.message, hint="this process starts again") from error
        finally:
            self._reader.close()

    def _bounds(self, topic: str, number: int) -> tuple[int, int]:
        """As PartitionReader.bounds. Raises TopicGone when the broker goes on to have no such topic: it was deleted
        after it was looked for."""
        ends = time.monotonic() + NEW
        while True:
            try:
                return self._reader.bounds(topic, number)
            except NoSuchTopic as error:
                if time.monotonic() >= ends:
                    raise self._topics.deleted(topic) from error
                if self._stop.wait(_PAUSE):
                    raise

    def _check_topics(self) -> None:
        for gone in self._topics.gone().values():
            raise gone

    def _read(self) -> None:
        for raw in self._reader.poll(500, self._pause()):
            message = decode(raw.value, raw.where, raw.offset)
            if message.delay is None:
                raise StopError(
                    f"message {raw.where} is no delayed delete", hint="something else writes to the delay topics"
                )
            waiting = self._waiting[(raw.topic, raw.partition)]
            waiting.messages.append((raw.offset, message.delay.due_ms, raw.value))
        for part, waiting in self._waiting.items():
            if len(waiting.messages) >= _BUFFERED and not waiting.paused:
                self._reader.pause([part])
                waiting.paused = True
            elif waiting.paused and len(waiting.messages) < _BUFFERED // 2:
                self._reader.resume([part])
                waiting.paused = False

    def _pause(self) -> float:
        """Seconds to wait for messages: not past the next due time."""
        due = [waiting.messages[0][1] for waiting in self._waiting.values() if waiting.messages]
        left = (min(due) / 1000 - self._clock.now()) if due else 1.0
        return min(max(left, 0.01), MARKERS_SECONDS)

    def _send_due(self) -> None:
        """1. produce what is due; 2. wait for the broker; 3. commit the offsets."""
        ends: dict[str, dict[int, int]] = {}
        sent = 0
        for (topic, number), offset, value in self._due():
            self._producer.produce(self._back_to[topic], number, value)
            ends.setdefault(topic, {})[number] = offset + 1
            sent += 1
        if not sent:
            return
        if not self._producer.flush(30.0):
            raise ServerError(
                "Kafka did not confirm requeued deletes within 30 s", hint="they are sent again after a restart"
            )
        for topic, offsets in ends.items():
            self._reader.commit(topic, offsets)
        log.info("requeued", deletes=sent)

    def _due(self) -> Iterator[tuple[tuple[str, int], int, bytes]]:
        if not any(waiting.messages for waiting in self._waiting.values()):
            return
        now = self._clock.now() * 1000
        for part, waiting in self._waiting.items():
            while waiting.messages and waiting.messages[0][1] <= now:
                offset, _, value = waiting.messages.popleft()
                yield part, offset, value
