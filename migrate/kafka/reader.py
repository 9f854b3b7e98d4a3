"""Reading partitions that a lease assigned to us; positions come from the record table, never from the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from migrate.kafka import client_close
from migrate.kafka.admin import client_options, error_code, error_text, explain
from migrate.kafka.liveness import EVERY, SilentPartitions
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.partition import offset_name
from migrate.settings import Kafka

_TIMEOUT = 15.0
_BLOCK = 1000
_PAUSE = 0.2
_COORDINATOR_MOVES = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The group's offsets are being taken over by another broker, or created: it passes by itself."""
_LEADER_MOVES = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH}
)
"""So it is with a partition, as of a topic that was created a moment ago."""
_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_NOT_THERE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})
_TRUNCATED = KafkaError(KafkaError._LOG_TRUNCATION).str()
"""In the text of what the client says of such a partition; by number it says that there is no offset to go on at."""
DELETED = "messages were deleted before they were applied: raise kafka.retention_hours and copy again"
_NEW_CLIENT = "the Kafka client fell silent: after a restart this process has a new one"
Gone = Callable[[str, int, StopError], None]
"""Topic, partition, and what there is to say."""
T = TypeVar("T")


class MessagesLost(StopError):  # noqa: N818 - it says what happened
    """The broker lost messages that were read."""

    code = Code.TOPIC


class NoSuchTopic(ServerError):  # noqa: N818 - what it says is what happened
    """The broker does not have a topic, or does not know of it yet."""


@dataclass(frozen=True, slots=True)
class RawMessage:
    topic: str
    partition: int
    offset: int
    value: bytes
    skipped: int = 0
    """Offsets before it that have no message although they were read: the cleaner took them (`cleanup.policy=compact`),
    or somebody's transaction left its mark."""

    @property
    def where(self) -> str:
        return offset_name(self.topic, self.partition, self.offset)


def once_settled(ask: Callable[[], T], settings: Kafka) -> T:
    """What a coordinator or a leader answers, asked again while it moves. Raises ServerError."""
    ends = time.monotonic() + _TIMEOUT
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error_code(error) not in _COORDINATOR_MOVES | _LEADER_MOVES or time.monotonic() >= ends:
                raise explain(error, settings) from error
        time.sleep(_PAUSE)


class PartitionReader:
    """`assign()` only, auto-commit off, and no reset: an offset that is gone stops us (invariant unknown-stops)."""

    def __init__(self, settings: Kafka, group: str, look_every: float = EVERY) -> None:
        """look_every: seconds between two looks at partitions of which nothing comes."""
        self._settings = settings
        self._assigned: dict[tuple[str, int], int] = {}  # what is to be read next
        self._paused: set[tuple[str, int]] = set()
        self._silence = SilentPartitions(settings, group, look_every)
        options: dict[str, Any] = {
            **client_options(settings),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 32_768,
            "fetch.wait.max.ms": 100,
            "enable.partition.eof": False,
        }
        self._consumer = Consumer(options)

    def assign(self, topic: str, partition: int, offset: int) -> None:
        """Read one more partition from `offset` on."""
        self._assigned[(topic, partition)] = offset
        self._consumer.incremental_assign([TopicPartition(topic, partition, offset)])

    def unassign(self, topic: str, partition: int) -> None:
        if self._assigned.pop((topic, partition), None) is not None:
            if (topic, partition) in self._paused:  # or it would still be so when it is assigned again
                self.resume([(topic, partition)])
            self._silence.forget([(topic, partition)])
            self._consumer.incremental_unassign([TopicPartition(topic, partition)])

    def pause(self, parts: Iterable[tuple[str, int]]) -> None:
        wanted = list(parts)
        self._paused.update(wanted)
        self._silence.forget(wanted)
        self._consumer.pause([TopicPartition(topic, partition) for topic, partition in wanted])

    def resume(self, parts: Iterable[tuple[str, int]]) -> None:
        wanted = list(parts)
        self._paused.difference_update(wanted)
        self._consumer.resume([TopicPartition(topic, partition) for topic, partition in wanted])

    def seek(self, topic: str, partition: int, offset: int) -> None:
        if (topic, partition) in self._assigned:
            self._assigned[(topic, partition)] = offset
            self._silence.forget([(topic, partition)])
        self._consumer.seek(TopicPartition(topic, partition, offset))

    def poll(
        self, messages: int, seconds: float, gone: Gone | None = None, gather_seconds: float = 0.0
    ) -> list[RawMessage]:
        """Up to `messages` messages, waiting at most `seconds` for the first, `gather_seconds` for more.

        gone: told of a partition whose next offset is no longer at the broker; without it that is raised.
        Raises: StopError, and ServerError for what does not pass by itself: also when nothing comes of a partition
        that has messages.
        """
        found = self._consumer.consume(1, seconds)  # asked for more, it waits for all of them
        if not found:
            self._silence.idle()
        if found and messages > 1:
            found += self._consumer.consume(messages - 1, gather_seconds)
        result = []
        ends: dict[tuple[str, int], int] = {}
        for message in found:
            error = message.error()
            if error is None:
                place, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
                expected = ends.get(place, self._assigned.get(place, offset))
                result.append(RawMessage(*place, offset, message.value() or b"", max(0, offset - expected)))
                ends[place] = offset + 1
            elif error.code() in _NOT_THERE:
                kind = MessagesLost if _TRUNCATED in error.str() else StopError
                place = str(message.topic()), int(message.partition() or 0)
                result = [raw for raw in result if (raw.topic, raw.partition) != place]
                ends.pop(place, None)
                stop = kind(
                    f"{message.topic()} [{message.partition()}]: the offset to read from is no longer at the broker"
                    f" ({error.str()})",
                    hint=DELETED,
                )
                if gone is None:
                    raise stop
                gone(str(message.topic()), int(message.partition() or 0), stop)
            elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._FATAL) or error.fatal():
                raise explain(KafkaException(error), self._settings)
        self._assigned.update({place: end for place, end in ends.items() if place in self._assigned})
        if told := self._silence.silent(
            {place: end for place, end in self._assigned.items() if place not in self._paused}
        ):
            raise ServerError(f"Kafka at {self._settings.bootstrap}: {told}", hint=_NEW_CLIENT)
        return result

    def between(self, topic: str, partition: int, start: int, end: int) -> Iterator[RawMessage]:
        """The messages of a partition that is not assigned, from one offset to another. Raises as `poll`."""
        return self.spans({(topic, partition): (start, end)})

    def spans(
        self, wanted: Mapping[tuple[str, int], tuple[int, int]], check: Callable[[], None] = lambda: None
    ) -> Iterator[RawMessage]:
        """The messages of partitions that are not assigned, from one offset of each to another; in order within each.

        All at once, as the first message of a partition takes the broker some time. check: called while nothing comes
        too, as of a broker that is away; raises where it is not to go on. Raises as `poll`, and what check raises.
        """
        left = {part: span for part, span in wanted.items() if span[0] < span[1]}
        try:
            for part, (start, _) in left.items():
                self.assign(*part, start)
            while left:
                check()
                for raw in self.poll(_BLOCK, 1.0):
                    part = raw.topic, raw.partition
                    if part not in left:
                        continue
                    end = left[part][1]
                    if raw.offset + 1 >= end:
                        del left[part]
                        self.unassign(*part)
                    if raw.offset < end:
                        yield raw
        finally:
            for part in left:
                self.unassign(*part)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(first offset at the broker, one past the last). Raises NoSuchTopic, ServerError."""

        def ask() -> tuple[int, int]:
            try:
                return self._consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=_TIMEOUT, cached=False
                )
            except KafkaException as error:
                if error_code(error) in _UNKNOWN:
                    where = f"Kafka at {self._settings.bootstrap}"
                    raise NoSuchTopic(
                        f"{where} has no {topic} [{partition}]", hint="check whether the topic was deleted"
                    ) from error
                raise

        low, high = once_settled(ask, self._settings)
        return int(low), int(high)

    def committed(self, topic: str, partition: int) -> int | None:
        """The group's committed offset, None when there is none. Raises ServerError."""
        wanted = [TopicPartition(topic, partition)]
        found = once_settled(lambda: self._consumer.committed(wanted, timeout=_TIMEOUT)[0], self._settings)
        return None if found.offset < 0 else int(found.offset)

    def commit(self, topic: str, offsets: dict[int, int]) -> bool:
        """Publish offsets for the group, and wait for the broker's answer. False: it has no such topic.

        Raises ServerError.
        """
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

        def ask() -> list[TopicPartition] | None:
            try:
                return self._consumer.commit(offsets=wanted, asynchronous=False) or []
            except KafkaException as error:
                if error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise

        answered = once_settled(ask, self._settings)
        if answered is None:
            return False
        for part in answered:
            if part.error is not None and part.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            if part.error is not None:
                told = error_text(part.error)
                raise ServerError(f"Kafka did not take offset {part.offset} of {part.topic} [{part.partition}]: {told}")
        return True

    def close(self) -> None:
        """Waits some seconds at most: a client that has lost its broker may not come to its end."""
        client_close.close(self._consumer.close, self._settings)
