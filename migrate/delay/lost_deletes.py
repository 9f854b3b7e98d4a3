"""Delayed deletes that a ledger waits for and no message brings back: the broker lost it, or deleted it too early.

A delay partition that was put back may have been refilled past the committed offset, and where the whole broker was
put back that offset was too. So what is on its way is compared with the ledgers, which are not at the broker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.kafka.reader import PartitionReader, RawMessage
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError, StopError
from migrate.model.message import Message
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import consumed_total
from migrate.state.clock import StateClock
from migrate.state.database import in_transaction
from migrate.state.migration import Migration, Topic
from migrate.target import ledger
from migrate.target.place import Aftermath, EmptyDelete
from migrate.target.pool import TargetPool
from migrate.target.refresh_request import partition_for
from migrate.target.requeue import AftermathSender
from migrate.target.routing import Place, Plan, PlannedTable

log = structlog.get_logger("migrate.requeue")
_LEAST_SECONDS = 60.0
"""Between two looks; otherwise the longest tier, as what is on its way for longer is not."""
_PATIENCE_SECONDS = 60.0
"""For what is in the partitions to be applied, beside what a batch waits for its merge; one of which it is not is left
to the next look."""
_BETWEEN_SECONDS = 0.3

Part = tuple[str, int]
Found = tuple[PlannedTable, Place, ledger.Entry]


def entries(settings: Settings, plan: Plan, pool: TargetPool) -> Iterator[Found]:
    """Every empty delete that a ledger waits for. Raises ServerError."""
    # Of a group any table speaks for all, of a broadcast table that is read the first node.
    tables = {planned.noted_as.id: planned for planned in map(plan.leader, plan.tables.values())}
    for planned in tables.values():
        for place in planned.places:
            with explained(str(place)):
                waiting = ledger.waiting_at(pool.get(place.database), settings.name, planned.noted_as, place.table)
            for entry in waiting:
                yield planned, place, entry


class DeleteSender:
    """Sends deletes again that ledgers wait for."""

    def __init__(self, settings: Settings, known: Migration, clock: StateClock) -> None:
        self._settings = settings
        self._topics = {topic.name: topic for topic in known.topics}
        self._sender = AftermathSender(settings, known, clock)

    def send(self, found: Sequence[Found]) -> None:
        """Into the first delay topic. Raises ServerError, TopicGone."""
        left: dict[tuple[Partition, str], Aftermath] = {}
        for planned, place, entry in found:
            partition = partition_for(self._settings, planned, self._topic(planned), entry.key)
            aftermath = left.setdefault((partition, place.database.name), Aftermath())
            aftermath.empties.append(EmptyDelete(planned.table, place.table, entry.key, entry.coordinate, 0))
        for (partition, database), aftermath in left.items():
            self._sender.send(partition, database, aftermath)

    def _topic(self, planned: PlannedTable) -> Topic:
        return self._topics[planned.topic or self._settings.topic]


class LostDeletes:
    """For the one process that brings messages back: looks when it starts, and then every longest tier."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        plan: Plan,
        migration: Migration,
        clock: StateClock,
        stop: threading.Event,
    ) -> None:
        """migration: with the topics that are there."""
        self._settings = settings
        self._state = state
        self._plan = plan
        self._topics = {topic.name: topic for topic in migration.topics}
        self._parts = migration.places
        self._migration = migration
        self._clock = clock
        self._stop = stop
        self._retries = _PATIENCE_SECONDS + settings.consume.merge_interval_seconds
        self._every = max(_LEAST_SECONDS, *settings.delay.tiers_seconds)
        self._next = self._until = 0.0
        self._ends: dict[Part, int] | None = None  # while a look is under way: where the partitions ended
        self._sent: set[int] = set()  # what was sent to them since

    def note_sent(self, value: bytes, where: str, offset: int) -> None:
        """A delayed message goes to its own partition: what it holds is on its way. where, offset: as for `decode`."""
        if self._ends is not None:
            self._sent |= _marks(decode(value, where, offset))

    def look(self, reader: PartitionReader, check: Callable[[], None]) -> None:
        """Send again what was lost, where it is time for that.

        Once what was in the partitions is applied: until then a delete may be on its way in them. reader: whose group's
        offsets are those up to which delayed messages came back. check: raises where this process shall not go on.
        Raises: TopicGone, what check raises. A server that is away is asked again.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _BETWEEN_SECONDS
        try:
            if self._ends is None:
                if not self._any():
                    self._over(self._every)
                    return
                self._ends = {part: reader.bounds(*part)[1] for part in self._parts}
                self._until = now + self._retries
            applied = self._applied(self._ends)
            if len(applied) < len(self._ends) and now < self._until:
                return
            if applied:
                self._send(reader, applied, check)
        except ServerError as error:
            log.warning("delay topics not compared with the ledgers; tried again", reason=error.message)
            self._over(_LEAST_SECONDS)
        else:
            self._over(self._every)

    def _over(self, pause: float) -> None:
        self._ends, self._next = None, time.monotonic() + pause
        self._sent.clear()

    def _any(self) -> bool:
        with closing(TargetPool(self._settings)) as pool:
            for one in self._plan.used_databases:
                with explained(f"{one.target}/{one.database}"):
                    if ledger.waiting(pool.get(one), self._settings.name):
                        return True
        return False

    def _applied(self, ends: dict[Part, int]) -> set[Part]:
        """The partitions of which all was applied up to there."""
        consumed = in_transaction(
            self._state, partial(consumed_total.prefixes, migration=self._settings.name), self._stop
        )
        return {
            (topic, number)
            for (topic, number), end in ends.items()
            if consumed.get(Partition(self._settings.name, self._topics[topic].id, number), 0) >= end
        }

    def _send(self, reader: PartitionReader, parts: set[Part], check: Callable[[], None]) -> None:
        """Nothing leaves a delay topic meanwhile: this is the thread that would send it."""
        spans = {
            (delay, number): self._span(reader, delay, number)
            for topic, number in parts
            for delay in self._settings.delay_topics(topic)
        }
        on_their_way = self._sent | self._in_topics(spans, check)
        with closing(TargetPool(self._settings)) as pool:
            waiting = (one for one in entries(self._settings, self._plan, pool) if self._is_of(one, parts))
            missing = [one for one in waiting if _mark_of(one) not in on_their_way]
        if missing:  # a delete's message is there before its entry is: what was noted meanwhile has one
            later = {part: (end, reader.bounds(*part)[1]) for part, (_, end) in spans.items()}
            on_their_way = self._in_topics(later, check)
            missing = [one for one in missing if _mark_of(one) not in on_their_way]
        log.info("delay topics compared with the ledgers", partitions=len(parts), lost=len(missing))
        if missing:
            DeleteSender(self._settings, self._migration, self._clock).send(missing)
            log.warning("deletes that no message would bring back sent again", deletes=len(missing))

    def _is_of(self, one: Found, parts: set[Part]) -> bool:
        planned, _, entry = one
        topic = self._topics.get(planned.topic or self._settings.topic)
        return topic is not None and (topic.name, planned.partition(entry.key, topic.partitions)) in parts

    def _span(self, reader: PartitionReader, topic: str, number: int) -> tuple[int, int]:
        low, high = reader.bounds(topic, number)
        return begins(low, high, reader.committed(topic, number)), high

    def _in_topics(self, spans: dict[Part, tuple[int, int]], check: Callable[[], None]) -> set[int]:
        found: set[int] = set()
        with closing(PartitionReader(self._settings.kafka, f"{self._settings.group}.delay.look")) as reader:
            for raw in self._messages(reader, spans, check):
                found |= _marks(decode(raw.value, raw.where, raw.offset))
        return found

    def _messages(
        self, reader: PartitionReader, spans: dict[Part, tuple[int, int]], check: Callable[[], None]
    ) -> Iterator[RawMessage]:
        def may_go_on() -> None:
            check()
            if self._stop.is_set():
                raise ServerError("stopped while the delay topics were read")

        try:
            yield from reader.spans(spans, may_go_on)
        except StopError as error:  # deleted by age, or put back, since it was asked where the partition begins
            raise ServerError(error.message, hint="this is checked again by itself") from error


def begins(low: int, high: int, committed: int | None) -> int:
    """Where a delay partition is read from: at its first message where the offset that was reached is not there."""
    return low if committed is None or not low <= committed <= high else committed


def _marks(message: Message) -> set[int]:
    """Of the deletes of a message."""
    delay, key = message.delay, message.pk_names
    if delay is None:
        return set()
    return {
        _mark(delay.database, delay.table, tuple(str(row[name]) for name in key), coordinate)
        for row, coordinate in zip(message.data, message.coordinates(), strict=True)
    }


def _mark_of(one: Found) -> int:
    _, place, entry = one
    return _mark(place.database.name, place.table, entry.key, entry.coordinate)


def _mark(database: str, place: str, key: Sequence[str], at: Coordinate) -> int:
    return hash((database, place, tuple(key), tuple(at)))
