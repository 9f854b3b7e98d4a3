"""Which partitions a consumer works on: taking them, giving them up, and those that are stopped for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.consume import assignment
from migrate.consume.ownership import LeasedPartition, StoppedPartition
from migrate.consume.partition_start import Owner, PartitionStart
from migrate.consume.queue import SwapQueue
from migrate.kafka.reader import MessagesLost, PartitionReader
from migrate.kafka.topic_identity import TopicWatch
from migrate.metrics import consumer as measured
from migrate.model.errors import MigrateError, OwnershipLost, ReadAgain, StopError
from migrate.mysql.errors import passes, text
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import stop_reason
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.state.record import Consumed, Partition

log = structlog.get_logger("migrate.consume")
_LOOK_EVERY = 2.0
T = TypeVar("T")


class Partitions:
    """Changed by the reading thread alone, and only between two batches; the merging thread reports to it."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        leases: Leases,
        owner: Owner,
        reader: PartitionReader,
        queue: SwapQueue,
        stop: threading.Event,
        gone: Collection[str] = (),
    ) -> None:
        """gone: topics and delay topics that the broker does not have."""
        self.turn = threading.Lock()
        """Held while a batch is under way."""
        self._settings = settings
        self._state = state
        self._leases = leases
        self._owner = owner
        self._reader = reader
        self._queue = queue
        self._stop = stop
        self._mine: dict[Partition, LeasedPartition] = {}
        self._stopped: dict[Partition, StoppedPartition] = {}
        self._failed: dict[Partition, MigrateError] = {}
        self._next_look = 0.0
        self._joined = False
        self._asked = self._retry_asked()
        with state.connect() as connection:
            self._migration = migrations.get(connection, settings.name)
        self._beginning = PartitionStart(settings, state, leases, owner, reader, stop, self._migration)
        names = self._migration.topic_names
        self._delays = {name: settings.delay_topics(name) for name in names.values()}
        delays = [one for found in self._delays.values() for one in found]
        self._topics = TopicWatch(settings.kafka, {name: id_ for id_, name in names.items()}, delays, gone)
        self._by_place = {(names[part.topic_id], part.number): part for part in self._migration.partitions}

    # -- asked by the consumer

    def read_at(self, topic: str, number: int) -> LeasedPartition | None:
        """The partition that we hold, as the broker names it; None when it is not to be read now."""
        leased = self._mine.get(self._by_place[topic, number])
        return leased if leased is not None and not self._stands(leased.partition) else None

    def reading(self) -> list[tuple[str, int]]:
        """The partitions that are read, as the broker names them."""
        return [leased.where for partition, leased in self._mine.items() if not self._stands(partition)]

    def works(self, partition: Partition) -> bool:
        """Whether what was read of a partition is to be merged. For the merging thread, with `turn` held."""
        return partition in self._mine and partition not in self._failed

    def consumed(self) -> dict[Partition, int]:
        """The end of the consumed prefix of those that are worked on, as it was written last. With `turn` held."""
        return {part: leased.end for part, leased in self._mine.items() if self.works(part) and leased.begun}

    def leased(self, partition: Partition) -> LeasedPartition:
        return self._mine[partition]

    def _stands(self, partition: Partition) -> bool:
        stopped = self._stopped.get(partition)
        return stopped is not None and stopped.standing

    # -- told by the consumer

    def failed(self, partition: Partition, error: MigrateError) -> None:
        """A merge ended so for a partition. From the merging thread, with `turn` held."""
        self._failed[partition] = error

    def went_on(self, connection: sa.Connection, done: Consumed) -> None:
        """A merge got through; in the transaction that marks it, with `turn` held. A note of a stop is over then."""
        leased, stopped = self._mine[done.partition], self._stopped.get(done.partition)
        if leased.noted and (stopped is None or stopped.is_over(done.end)):
            stop_reason.clear(connection, self._settings.name, leased.name)

    def marked(self, done: Consumed) -> None:
        """That transaction is committed; with `turn` held."""
        stopped = self._stopped.get(done.partition)
        self._mine[done.partition].end = done.end
        if stopped is None or stopped.is_over(done.end):
            self._mine[done.partition].noted = False
            self._stopped.pop(done.partition, None)

    def unreadable(self, leased: LeasedPartition, offset: int, error: StopError) -> None:
        """A message is none: nothing behind it is read; what was read before it goes on."""
        self._reader.unassign(*leased.where)
        self._stand_still(leased, error, offset)

    def gone(self, topic: str, number: int, error: StopError) -> None:
        """The broker no longer has the next message."""
        if leased := self.read_at(topic, number):
            if isinstance(error, MessagesLost):
                self.cut(leased)
                return
            self._drop(leased)
            self._stand_still(leased, error)

    def lost(self, partition: Partition) -> None:
        """Another process holds its lease."""
        if leased := self._mine.get(partition):
            log.warning("partition lost", topic=leased.topic, partition=partition.number)
            self._let_go(leased)

    # -- every two seconds

    def look_after(self) -> None:
        """Deal with what failed; every two seconds try again what is stopped, and take or give up partitions.

        For the reading thread. Raises: ServerError, also when stopping.
        """
        for partition, error in list(self._failed.items()):
            self._deal_with(partition, error)
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + min(_LOOK_EVERY, self._settings.lease.seconds / 4)
        for partition in list(self._mine):
            try:
                self._leases.check(partition.lease)
            except OwnershipLost:
                self.lost(partition)
        try:
            self._share()
        except DBAPIError as error:  # what is ours stays so as long as its leases last
            if not passes(error.orig or error):
                raise
            log.warning("partitions not shared out, the state database refuses", error=text(error.orig or error))
        for topic in self._delays:
            if (gone := self._gone(topic)) is not None:
                self._topic_gone(topic, gone)
        self._try_again()

    def _deal_with(self, partition: Partition, error: MigrateError) -> None:
        leased = self._mine.get(partition)
        if leased is None:
            return
        if isinstance(error, ReadAgain):
            self._drop(leased)
            with self.turn:
                self._stopped.pop(partition, None)  # what stops the reading is met again
            self._begin(leased)
        elif isinstance(error, StopError):
            self._drop(leased)
            self._stand_still(leased, error)
        else:
            self.lost(partition)

    def _share(self) -> None:
        """Give up what is above our share, take what is free up to it."""
        if not self._joined:
            assignment.join(self._leases)
            self._joined = True
        ours = assignment.fair_share(self._leases, len(self._by_place))
        for leased in list(self._mine.values())[ours:]:
            self._let_go(leased)
            log.info("partition given up", topic=leased.topic, partition=leased.partition.number)
        for (topic, _), partition in self._by_place.items():
            if len(self._mine) >= ours or self._stop.is_set():
                return
            if partition not in self._mine and (held := self._leases.acquire(partition.lease)):
                self._mine[partition] = LeasedPartition(partition, held, topic)
                self._begin(self._mine[partition])

    def _gone(self, topic: str) -> StopError | None:
        """Why nothing of a topic can go on, as it is gone, or one of those that its empty deletes go to."""
        known = self._topics.gone()
        return next((known[name] for name in (topic, *self._delays[topic]) if name in known), None)

    def _topic_gone(self, topic: str, error: StopError) -> None:
        for leased in [one for one in self._mine.values() if one.topic == topic]:
            known = self._stands(leased.partition) and self._stopped[leased.partition].error.message == error.message
            if not known:
                self._drop(leased)
                self._stand_still(leased, error)

    def _try_again(self) -> None:
        if self._stopped:
            asked = self._retry_asked()
            if asked != self._asked:
                self._asked = asked
                for stopped in self._stopped.values():
                    stopped.due = 0.0
        for partition, stopped in list(self._stopped.items()):
            if not stopped.standing or time.monotonic() < stopped.due:
                continue
            stopped.standing = False
            if stopped.resume_at is None:
                self._begin(self._mine[partition])
            else:
                self._read(self._mine[partition], stopped.resume_at)

    def _retry_asked(self) -> object:
        return self._in_state(lambda connection: migrations.retry_asked(connection, self._settings.name))

    def _begin(self, leased: LeasedPartition) -> None:
        """Read a partition from the end of its consumed prefix on."""
        try:
            if (error := self._gone(leased.topic)) is not None:
                raise error
            start, is_end = self._beginning.take(leased)
            if is_end and leased.noted:  # whatever stood in the way is applied
                self._in_state(lambda connection: stop_reason.clear(connection, self._settings.name, leased.name))
                leased.noted = False
        except OwnershipLost:
            self.lost(leased.partition)
        except StopError as error:
            self._stand_still(leased, error)
        else:
            self._read(leased, start)

    def cut(self, leased: LeasedPartition) -> None:
        """The message that was consumed last is another one by now."""
        leased.is_cut = True
        self._drop(leased)
        self._begin(leased)

    def _read(self, leased: LeasedPartition, start: int) -> None:
        seen = leased.evidence is not None and self._reader.bounds(*leased.where)[0] < start
        if not seen:
            leased.evidence = None
        self._reader.assign(*leased.where, start - 1 if seen else start)
        log.info(
            "partition taken",
            topic=leased.topic,
            partition=leased.partition.number,
            epoch=leased.held.epoch,
            offset=start,
        )

    def _let_go(self, leased: LeasedPartition) -> None:
        self._drop(leased)
        with self.turn:
            self._mine.pop(leased.partition)
            self._stopped.pop(leased.partition, None)
        self._leases.release(leased.partition.lease)

    def _drop(self, leased: LeasedPartition) -> None:
        """Work on it no more, and forget what was read of it; waits for a batch that is under way."""
        with self.turn:
            self._reader.unassign(*leased.where)
            self._queue.drop(leased.partition)
            self._owner.drop(leased.partition)
            self._failed.pop(leased.partition, None)

    def _stand_still(self, leased: LeasedPartition, error: StopError, offset: int | None = None) -> None:
        partition = leased.partition
        with self.turn:
            before = self._stopped.get(partition)
            known = before is not None and before.error.message == error.message
            stopped = before if before is not None and known else StoppedPartition(error, offset)
            stopped.resume_at = offset
            stopped.stand()
            self._stopped[partition] = stopped
            leased.noted = True
        if not known:
            measured.partition_stops.inc()
            told = {
                "topic": leased.topic,
                "partition": partition.number,
                "reason": error.message,
                "hint": error.hint,
            }
            log.error("a partition is stopped", **told)

        def note(connection: sa.Connection) -> None:
            if not self._leases.lost(connection, [leased.held]):  # else its next owner has cleared what there was
                stop_reason.note(connection, self._settings.name, leased.name, error)

        self._in_state(note)

    def _in_state(self, action: Callable[[sa.Connection], T]) -> T:
        return in_transaction(self._state, action, self._stop)
