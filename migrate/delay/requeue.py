"""The requeue process: brings delayed deletes back when they are due (invariant tombstone-under-open-chunk).

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

from migrate.delay.lost_deletes import LostDeletes, begins
from migrate.delay.markers import SECONDS as MARKERS_SECONDS
from migrate.delay.markers import Markers
from migrate.delay.outdated_keys import OutdatedKeys
from migrate.kafka import admin
from migrate.kafka.admin import NEW
from migrate.kafka.producer import AcknowledgedLost, OrderedProducer
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.kafka.topic_identity import TopicWatch
from migrate.model import process_names
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.message_reader import decode
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.lease import Leases
from migrate.state.migration import Migration

log = structlog.get_logger("migrate.requeue")
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
        lost: LostDeletes,
        outdated: OutdatedKeys,
        gone: Collection[str] = (),
    ) -> None:
        """markers: what waits in the state. lost: what only the ledgers wait for. outdated: keys that the update-time
        filter skipped. gone: delay topics that the broker does not have."""
        self._settings = settings
        self._leases = leases
        self._clock = clock
        self._stop = stop
        self._markers = markers
        self._lost = lost
        self._outdated = outdated
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
            self._markers.look()
            for topic, number in self._waiting:
                low, high = self._bounds(topic, number)
                had = self._reader.committed(topic, number)
                start = begins(low, high, had)
                if had not in (None, start):  # what was between is looked for in the ledgers
                    log.warning(
                        "the offset to read a delay topic from is not at the broker",
                        topic=topic,
                        partition=number,
                        read_to=had,
                        start=start,
                    )
                    self._reader.commit(topic, {number: start})  # or the topic grows past it, over what is unsent
                self._reader.assign(topic, number, start)
            with self._markers.looking():
                while not self._stop.is_set():
                    self._producer.check()
                    self._check_lease()
                    self._check_topics()
                    self._read()
                    self._send_due()
                    self._lost.look(self._reader, self._check_lease)
                    self._markers.send_ready(self._producer)
                    self._outdated.look(self._reader, self._producer)
        except AcknowledgedLost as error:
            self._markers.note_lost()
            raise ServerError(error.message, hint="this process starts again") from error
        finally:
            self._outdated.close()
            self._reader.close()

    def _bounds(self, topic: str, number: int) -> tuple[int, int]:
        """As PartitionReader.bounds. Raises TopicGone when the broker goes on to have no such partition: its topic was
        deleted after it was looked for. ServerError where only this client does not find it: one that asked a broker
        which had just started goes on to know no such topic."""
        ends = time.monotonic() + NEW
        while True:
            try:
                return self._reader.bounds(topic, number)
            except NoSuchTopic as error:
                if time.monotonic() >= ends:
                    there = admin.describe(self._settings.kafka, topic)
                    if there is not None and there.partitions > number:
                        raise ServerError(
                            f"Kafka has {topic} [{number}], and this client does not find it",
                            hint="after a restart this process has a new client",
                        ) from error
                    raise self._topics.deleted(topic) from error
                if self._stop.wait(_PAUSE):
                    raise

    def _check_lease(self) -> None:
        self._leases.check(process_names.REQUEUE)

    def _check_topics(self) -> None:
        for gone in self._topics.gone().values():
            raise gone

    def _read(self) -> None:
        for raw in self._reader.poll(500, self._pause(), self._start_again):
            message = decode(raw.value, raw.where, raw.offset)
            if message.delay is None:
                raise StopError(
                    f"message {raw.where} is no delayed delete",
                    hint="something else writes to the delay topics",
                    code=Code.TOPIC,
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

    def _start_again(self, _topic: str, _number: int, error: StopError) -> None:
        raise ServerError(error.message, hint="this process starts again, and sends what the ledgers wait for")

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
            self._lost.note_sent(value, f"{topic} [{number}]", offset)
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
