"""The pull consumer: leases partitions, records every message, feeds the queue, runs the merge (rules 5 to 8).

1. take partition leases and raise the fences; 2. read from the end of the consumed prefix; 3. write one poll's
records; 4. queue the messages; 5. every interval: swap, merge, mark consumed.
Steps 1–4 run in the calling thread, step 5 in a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import sqlalchemy as sa
import structlog

from migrate.consume.queue import SwapQueue
from migrate.kafka.reader import PartitionReader, Raw
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError, StopError
from migrate.model.message import Received, decode
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import record
from migrate.state.database import in_transaction
from migrate.state.lease import Held, Leases
from migrate.state.record import Consumed, Partition, Record

log = structlog.get_logger("migrate.consume")
_TAKE_EVERY = 2.0
_DRAIN_POLL = 0.5
T = TypeVar("T")


class Written(Protocol):
    """What a merge did, for the log."""

    inserted: int
    updated: int
    deleted: int
    empty: int


class Writer(Protocol):
    """Turns batches into rows at the target; the merger."""

    def take(self, partition: Partition, epoch: int, watermark: dict[str, Coordinate]) -> None: ...
    def drop(self, partition: Partition) -> None: ...
    def merge(self, batch: Sequence[Received]) -> tuple[list[Consumed], Written]: ...


class Consumer:
    def __init__(
        self, settings: Settings, state: sa.Engine, leases: Leases, writer: Writer, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._state = state
        self._leases = leases
        self._writer = writer
        self._stop = stop
        self._queue = SwapQueue(settings.consume.queue_bytes)
        self._held: dict[Partition, Held] = {}
        self._recorded: dict[Partition, int] = {}  # highest offset with a record from before we took the partition
        self._reader = PartitionReader(settings.kafka, settings.group)
        self._failure: BaseException | None = None
        self._next_take = 0.0
        with state.connect() as connection:
            self._migration = migrations.get(connection, settings.name)
        names = self._migration.topic_names
        self._places = {part: (names[part.topic_id], part.number) for part in self._migration.partitions}
        self._partitions = {place: part for part, place in self._places.items()}

    def run(self) -> None:
        """Consume until stopped. Raises StopError, OwnershipLost, ServerError."""
        merging = threading.Thread(target=self._merge_forever, name="merge", daemon=True)
        merging.start()
        try:
            while not self._stop.is_set():
                self._take_partitions()
                self._step()
        except ServerError:
            if not self._stop.is_set():
                raise  # else only told that we are stopping; what stopped us is below
        finally:
            self._stop.set()
            merging.join()
            self._reader.close()
        if self._failure is not None:
            raise self._failure

    # -- partitions

    def _take_partitions(self) -> None:
        if len(self._held) == len(self._places) or time.monotonic() < self._next_take:
            return
        self._next_take = time.monotonic() + _TAKE_EVERY
        for partition in self._places:
            if partition not in self._held and (held := self._leases.acquire(partition.lease)):
                self._take(partition, held)

    def _take(self, partition: Partition, held: Held) -> None:
        topic, number = self._places[partition]
        with self._state.connect() as connection:
            start = record.next_offset(connection, partition)
            watermark = record.watermarks(connection, partition)
            self._recorded[partition] = record.last_offset(connection, partition)
            now = migrations.get(connection, self._settings.name)
        if now != self._migration:
            raise ServerError("the migration has other topics or partitions now", hint="this process starts again")
        low, high = self._reader.bounds(topic, number)
        if start is None:
            start = 0
        if not low <= start <= high:
            raise StopError(
                f"{topic} [{number}]: reading goes on at offset {start}, the broker has {low} to {high}",
                hint="messages were deleted before they were applied: raise kafka.retention_hours and copy again",
            )
        self._writer.take(partition, held.epoch, watermark)
        self._held[partition] = held
        self._reader.assign(topic, number, start)
        log.info("partition taken", topic=topic, partition=number, epoch=held.epoch, offset=start)

    # -- reading

    def _step(self) -> None:
        if self._queue.full:
            self._wait_for_room()
            return
        raws = self._reader.poll(self._settings.consume.poll_messages, min(self._settings.consume.idle_seconds, 0.5))
        if not raws:
            return
        received = self._record(raws)
        self._queue.put(received)

    def _wait_for_room(self) -> None:
        parts = [self._places[partition] for partition in self._held]
        self._reader.pause(parts)
        while self._queue.full and not self._stop.is_set():
            for raw in self._reader.poll(1, 0.1):  # keeps the client alive; a message that slips through is read again
                self._reader.seek(raw.topic, raw.partition, raw.offset)
        self._reader.resume(parts)

    def _record(self, raws: Sequence[Raw]) -> list[Received]:
        """Write the records of one poll, one statement a partition, before anything is queued (rule 5)."""
        received = []
        by_partition: dict[Partition, list[Raw]] = {}
        for raw in raws:
            by_partition.setdefault(self._partitions[raw.topic, raw.partition], []).append(raw)
        decoded = {
            partition: [(raw, decode(raw.value, raw.where, raw.offset)) for raw in part]
            for partition, part in by_partition.items()
        }

        def write(connection: sa.Connection) -> dict[Partition, set[int]]:
            done: dict[Partition, set[int]] = {}
            for partition, items in decoded.items():
                if items[0][0].offset <= self._recorded[partition]:
                    done[partition] = record.done_offsets(connection, partition, [raw.offset for raw, _ in items])
                rows = [
                    Record(raw.offset, message.source, message.coordinate, len(message.data)) for raw, message in items
                ]
                record.insert_new(connection, partition, rows)
            return done

        for partition in decoded:
            self._leases.check(partition.lease)
        known = self._in_state(write)
        for partition, items in decoded.items():
            done = known.get(partition, set())
            received += [
                Received(partition, raw.offset, len(raw.value), message, raw.offset not in done)
                for raw, message in items
            ]
        return received

    # -- merging

    def _merge_forever(self) -> None:
        try:
            asked = self._drain_asked()
            while not self._stop.is_set():
                asked = self._wait_for_turn(asked)
                if not self._stop.is_set():
                    self._merge_once()
        except BaseException as error:
            self._failure = error
            self._stop.set()

    def _wait_for_turn(self, asked: object) -> object:
        """Until the interval since the last merge is over, the queue is full, or a drain is asked for."""
        ends = time.monotonic() + self._settings.consume.merge_interval_seconds
        while not self._stop.is_set() and not self._queue.full:
            left = ends - time.monotonic()
            if left <= 0:
                break
            if left < _DRAIN_POLL:
                self._stop.wait(left)
                continue
            if self._stop.wait(_DRAIN_POLL):
                break
            latest = self._drain_asked()
            if latest != asked:
                return latest
        return asked

    def _drain_asked(self) -> object:
        return self._in_state(lambda connection: migrations.drain_asked(connection, self._settings.name))

    def _merge_once(self) -> None:
        batch = self._queue.swap()
        if not batch:
            return
        began = time.monotonic()
        consumed, written = self._writer.merge(batch)
        for done in consumed:
            self._mark(done)
        self._queue.done(batch)
        log.info(
            "merged",
            messages=len(batch),
            rows=sum(done.rows for done in consumed),
            inserted=written.inserted,
            updated=written.updated,
            deleted=written.deleted,
            empty_deletes=written.empty,
            seconds=round(time.monotonic() - began, 3),
        )

    def _mark(self, done: Consumed) -> None:
        held = self._held[done.partition]

        def mark(connection: sa.Connection) -> None:
            self._leases.still_ours(connection, held)
            record.mark_consumed(connection, done)

        self._in_state(mark)

    def _in_state(self, action: Callable[[sa.Connection], T]) -> T:
        return in_transaction(self._state, action, self._stop)
