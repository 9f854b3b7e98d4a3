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
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # documented there

from migrate.kafka import client_close
from migrate.kafka.admin import client_options
from migrate.model.errors import ServerError
from migrate.settings import Kafka

_NOT_NOW = (KafkaException, ServerError)
"""No client can be made: a certificate is being replaced, the program of the token fails."""

EVERY = 30.0
"""Seconds between two looks at what is silent."""
_SURE = 2
"""Looks in a row that found messages and none read: a consumer may be about to get them at the first."""
_OTHERS_COME = 4
"""Looks in a row without a message, after which a partition is looked at although others never cease: what a client
has read waits in one queue, which has been through by then."""
_ANSWER = 5.0
_OWN, _OTHER = 1.0, 3.0  # seconds to wait for an answer of a producer's client, and of another one
_AGAIN = 15.0
"""Seconds for the producer's once more: a client waits up to 10 s before it connects again."""

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
        self._quiet: dict[Place, int] = {}  # looks in a row that found the same
        self._found: dict[Place, int] = {}  # those of them that found an end beyond it
        self._sure: dict[Place, int] = {}  # how many are needed, of those where another client read nothing
        self._asked: dict[Place, Future[Any]] = {}
        self._admin: AdminClient | None = None  # while it is asked
        self._idle = False

    def idle(self) -> None:
        """A poll found nothing: what came is read, so that nothing of ours waits behind something else of ours."""
        self._idle = True

    def forget(self, places: Iterable[Place]) -> None:
        """They are not read, or from elsewhere, from now on."""
        for place in places:
            for known in (self._seen, self._quiet, self._found, self._sure, self._asked):
                known.pop(place, None)

    def silent(self, offsets: dict[Place, int]) -> str:
        """offsets: what is to be read next of the partitions that are read now. Returns what there is to say of one of
        which nothing comes although another client reads it; "" as far as is known by now.

        Waits for that client alone, some seconds, and for one partition at a time.
        """
        for place in [place for place, answer in self._asked.items() if answer.done()]:
            if self._is_suspect(place, self._asked.pop(place), offsets):
                return self._told(place, offsets[place])
        if not self._asked:
            if self._admin is not None:
                client_close.drop(self._admin)
                self._admin = None
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + self._every
                self._look(offsets)
        return ""

    def _look(self, offsets: dict[Place, int]) -> None:
        quiet = {place for place, offset in offsets.items() if self._seen.get(place) == offset}
        self._quiet = {place: self._quiet.get(place, 0) + 1 for place in quiet}
        for place in self._seen.keys() - quiet:
            self._found.pop(place, None)
            self._sure.pop(place, None)
        self._seen = dict(offsets)
        wanted = [place for place, looks in self._quiet.items() if self._idle or looks >= _OTHERS_COME]
        self._idle = False
        if wanted:
            specs = {TopicPartition(*place): OffsetSpec.latest() for place in wanted}  # type: ignore[no-untyped-call]
            with suppress(*_NOT_NOW):
                self._admin = AdminClient(client_options(self._settings))  # a new one, which has forgotten nothing
                answers = self._admin.list_offsets(specs, request_timeout=_ANSWER)
                self._asked = {(str(part.topic), int(part.partition)): answer for part, answer in answers.items()}

    def _is_suspect(self, place: Place, answer: Future[Any], offsets: dict[Place, int]) -> bool:
        if answer.exception() is not None:
            return False  # the broker is away, or still starting
        offset = offsets.get(place)
        if offset is None or offset != self._seen.get(place) or answer.result().offset <= offset:
            self._found.pop(place, None)
            return False
        self._found[place] = self._found.get(place, 0) + 1
        return self._found[place] >= self._sure.get(place, _SURE)

    def _told(self, place: Place, offset: int) -> str:
        if self._another_reads(place, offset):
            return f"nothing comes of {place[0]} [{place[1]}] from offset {offset} on, and others can read it"
        # What is there is no message: the mark at the end of somebody's transaction. It is looked at ever less often.
        self._sure[place] = self._found.pop(place) * 2
        return ""

    def _another_reads(self, place: Place, offset: int) -> bool:
        more = {"group.id": self._group, "enable.auto.commit": False}
        try:
            another = Consumer({**client_options(self._settings), **more})
            try:
                another.assign([TopicPartition(*place, offset)])
                ends = time.monotonic() + _ANSWER
                while (left := ends - time.monotonic()) > 0:
                    if any(message.error() is None for message in another.consume(1, left)):
                        return True  # errors may be of the group, which is not needed
                return False
            finally:
                client_close.close(another.close, self._settings)
        except _NOT_NOW:
            return False


def alone(producer: Producer, settings: Kafka) -> bool:
    """Whether a producer reaches no broker while another client with the same settings does. Waits some seconds."""
    if _answered(producer, _OWN):
        return False
    try:
        another = AdminClient(client_options(settings))
    except _NOT_NOW:
        return False
    client_close.drop(another)
    return _answered(another, _OTHER) and not _answered(producer, _AGAIN)


def _answered(client: Producer | AdminClient, seconds: float) -> bool:
    try:
        return bool(client.list_topics(timeout=seconds).brokers)
    except KafkaException:
        return False
