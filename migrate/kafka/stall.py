"""Whether a client of ours has fallen silent while the broker answers others.

librdkafka 2.12 and later forgets every broker it knows when a broker that is starting answers that there is none, and
may never look for one again (librdkafka issue 5301); others saw single partitions fall silent after a restart of the
broker (issue 5153). Such a client tells of no error: to a consumer it looks as an idle topic does, to a producer as a
broker that takes its time. Only a client of its own that asks beside it can tell.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # documented there

from migrate.kafka.admin import client_options
from migrate.settings import Kafka

EVERY = 30.0
"""Seconds between two looks at what is silent."""
_SURE = 2
"""Looks in a row that found messages and none read: a consumer may be about to get them at the first."""
_ANSWER = 5.0
_OWN, _OTHER = 1.0, 3.0
"""Seconds to wait for an answer; for one of a producer's own client and of another one, while nothing is published."""

Place = tuple[str, int]
"""Topic and partition."""


class SilentPartitions:
    """Looks now and then, in the background, where those partitions end of which nothing came since the last look."""

    def __init__(self, settings: Kafka, group: str, every: float = EVERY) -> None:
        self._settings = settings
        self._group = group
        self._every = every
        self._next = time.monotonic() + every
        self._seen: dict[Place, int] = {}  # next offsets at the last look
        self._asked: dict[Place, Future[Any]] = {}
        self._admin: AdminClient | None = None  # while it is asked
        self._found: dict[Place, int] = {}  # looks in a row
        self._idle = False

    def idle(self) -> None:
        """A poll found nothing: what came is read, so that nothing of ours waits behind something else of ours."""
        self._idle = True

    def forget(self, places: Iterable[Place]) -> None:
        """They are not read, or from elsewhere, from now on."""
        for place in places:
            self._seen.pop(place, None)
            self._asked.pop(place, None)
            self._found.pop(place, None)

    def silent(self, offsets: dict[Place, int]) -> str:
        """offsets: what is to be read next of the partitions that are read now. Returns what there is to say of one of
        which nothing comes although another client reads it; "" as far as is known by now. Waits for that one alone.
        """
        for place in [place for place, answer in self._asked.items() if answer.done()]:
            if told := self._judge(place, self._asked.pop(place), offsets):
                return told
        if not self._asked:
            self._admin = None
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + self._every
                self._look(offsets)
        return ""

    def _look(self, offsets: dict[Place, int]) -> None:
        quiet = {place for place, offset in offsets.items() if self._seen.get(place) == offset}
        self._found = {place: count for place, count in self._found.items() if place in quiet}
        self._seen = dict(offsets)
        if quiet and self._idle:
            self._admin = AdminClient(client_options(self._settings))  # a new one, which has forgotten nothing
            wanted = {TopicPartition(*place): OffsetSpec.latest() for place in quiet}  # type: ignore[no-untyped-call]
            answers = self._admin.list_offsets(wanted, request_timeout=_ANSWER)
            self._asked = {(str(part.topic), int(part.partition)): answer for part, answer in answers.items()}
        self._idle = False

    def _judge(self, place: Place, answer: Future[Any], offsets: dict[Place, int]) -> str:
        try:
            end = int(answer.result().offset)
        except KafkaException:
            return ""  # the broker is away, or still starting
        if offsets.get(place) != self._seen.get(place) or end <= offsets[place]:
            self._found.pop(place, None)
            return ""
        self._found[place] = self._found.get(place, 0) + 1
        if self._found[place] < _SURE:
            return ""
        self._found.pop(place)
        if not self._another_reads(place, offsets[place]):
            return ""  # what is there is no message: the mark at the end of somebody's transaction
        return f"nothing comes of {place[0]} [{place[1]}] from offset {offsets[place]} on, and others can read it"

    def _another_reads(self, place: Place, offset: int) -> bool:
        options = {**client_options(self._settings), "group.id": self._group, "enable.auto.commit": False}
        another = Consumer(options)
        try:
            another.assign([TopicPartition(*place, offset)])
            return any(message.error() is None for message in another.consume(1, _ANSWER))
        finally:
            another.close()


def alone(producer: Producer, settings: Kafka) -> bool:
    """Whether a producer reaches no broker while another client with the same settings does. Waits some seconds."""
    return not _answered(producer, _OWN) and _answered(AdminClient(client_options(settings)), _OTHER)


def _answered(client: Producer | AdminClient, seconds: float) -> bool:
    try:
        return bool(client.list_topics(timeout=seconds).brokers)
    except KafkaException:
        return False
