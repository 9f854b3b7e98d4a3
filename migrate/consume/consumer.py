"""The pull consumer: leases partitions, records every message (invariant record-before-queue), feeds queue and merge.

1. take partition leases and raise the fences; 2. read from the end of the consumed prefix; 3. write one poll's
records; 4. queue the messages; 5. every interval: swap, merge, mark consumed.
Steps 1–4 run in the calling thread, step 5 in a thread of its own. A partition that cannot go on is stopped alone
and is tried again; one that another consumer holds now, or shall hold, is let go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Protocol, TypeVar

import sqlalchemy as sa
import structlog

from migrate.consume.ownership import PutBack
from migrate.consume.partition_start import Owner
from migrate.consume.partitions import Partitions
from migrate.consume.queue import SwapQueue
from migrate.consume.recorder import Recorder
from migrate.kafka.reader import PartitionReader
from migrate.metrics import consumer as measured
from migrate.model import process_names
from migrate.model.errors import MigrateError, OwnershipLost, ServerError
from migrate.model.message import Received
from migrate.settings import Settings
from migrate.state import compared, exit_reason, left_out_messages, record
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.state.record import Consumed, Partition

log = structlog.get_logger("migrate.consume")
_DRAIN_POLL = 0.5
T = TypeVar("T")


class Written(Protocol):
    """What a merge did, for the log."""

    inserted: int
    updated: int
    deleted: int
    empty: int
    outdated: int


class Merged(Protocol):
    """What became of a batch: what is at the target now, and what stopped a partition."""

    @property
    def consumed(self) -> Sequence[Consumed]: ...
    @property
    def written(self) -> Written: ...
    @property
    def failed(self) -> Mapping[Partition, MigrateError]: ...


class Writer(Owner, Protocol):
    """Turns batches into rows at the target; the merger."""

    def rounds(self, batch: Sequence[Received]) -> Iterable[Sequence[Received]]:
        """A batch in pieces, each to be merged and marked before the next."""
        ...

    def merge(self, batch: Sequence[Received]) -> Merged: ...
    def find_behind(self) -> Mapping[Partition, MigrateError]:
        """Partitions of which a database has less than it had."""


class Consumer:
    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        leases: Leases,
        writer: Writer,
        stop: threading.Event,
        gone: Collection[str] = (),
    ) -> None:
        """gone: topics and delay topics that the broker does not have: their partitions are stopped."""
        self._settings = settings
        self._state = state
        self._leases = leases
        self._writer = writer
        self._stop = stop
        self._queue = SwapQueue(settings.consume.queue_bytes)
        self._reader = PartitionReader(settings.kafka, settings.group)
        measured.queue_bytes.set_function(lambda: self._queue.waiting)
        self._partitions = Partitions(settings, state, leases, writer, self._reader, self._queue, stop, gone)
        self._recorder = Recorder(
            leases, self._partitions, left_out_messages.LeaveOutReasons(self._in_state), self._in_state
        )
        self._paused = False
        self._merged = time.monotonic()  # when the last merge began
        self._hurried = False  # nothing waits to be folded
        self._works = False  # that is noted
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Consume until stopped. Raises ServerError."""
        merging = threading.Thread(target=self._merge_forever, name="merge", daemon=True)
        merging.start()
        threading.Thread(target=self._compare_forever, name="compare", daemon=True).start()
        try:
            while not self._stop.is_set():
                self._partitions.look_after()
                self._step()
                self._note_works()
        except ServerError:
            if not self._stop.is_set():
                raise  # else only told that we are stopping; what stopped us is below
        finally:
            self._stop.set()
            merging.join()
            self._reader.close()
        if self._failure is not None:
            raise self._failure

    def _note_works(self) -> None:
        """How the last one ended is over, once we have a partition and the servers answered."""
        if not self._works and self._partitions.reading():
            self._in_state(lambda connection: exit_reason.clear(connection, self._settings.name, process_names.CONSUME))
            self._works = True

    # -- reading

    def _step(self) -> None:
        if self._queue.full:
            self._wait_for_room()
            return
        if self._paused:
            self._reader.resume(self._partitions.reading())
            self._paused = False
        settings = self._settings.consume
        wait = min(settings.idle_seconds, 0.5)
        # What is merged seldom is recorded seldom: a transaction for each message would cost more than the wait.
        gather = 0.0 if self._hurried else min(settings.merge_interval_seconds / 10, 0.5)
        raws = self._reader.poll(settings.poll_messages, wait, self._partitions.gone, gather)
        if raws:
            self._queue.put(self._recorder.record(raws))

    def _wait_for_room(self) -> None:
        self._reader.pause(self._partitions.reading())
        self._paused = True
        # Keeps the client alive; a message that slips through is read again.
        for raw in self._reader.poll(1, 0.1, self._partitions.gone):
            self._reader.seek(raw.topic, raw.partition, raw.offset - raw.skipped)

    # -- merging

    def _merge_forever(self) -> None:
        try:
            asked = self._drain_asked()
            while not self._stop.is_set():
                asked = self._wait_for_turn(asked)
                if not self._stop.is_set():
                    with self._partitions.turn:
                        self._merge_once()
        except BaseException as error:
            self._failure = error
            self._stop.set()

    def _wait_for_turn(self, asked: object) -> object:
        """Until a message waits and the interval since the last merge began is over or somebody is in a hurry, or the
        queue is full, or a drain is asked for."""
        if self._hurried and (latest := self._drain_asked()) != asked:
            return latest
        ends = self._merged + self._settings.consume.merge_interval_seconds
        while not self._stop.is_set() and not self._queue.full:
            left = 0.0 if self._hurried else ends - time.monotonic()
            if 0 < left < _DRAIN_POLL:
                self._stop.wait(left)
                continue
            if left <= 0:
                if self._queue.wait(_DRAIN_POLL):
                    break
            elif self._stop.wait(_DRAIN_POLL):
                break
            latest = self._drain_asked()
            if latest != asked:
                return latest
        return asked

    def _drain_asked(self) -> object:
        asked, self._hurried = self._in_state(
            lambda connection: migrations.merge_asked(connection, self._settings.name)
        )
        return asked

    def _compare_forever(self) -> None:
        """A database that nobody writes to may come back with less, too (invariant fence-compares)."""
        while not self._stop.wait(self._settings.consume.compare_seconds):
            try:
                behind = {**self._writer.find_behind(), **self._put_back()}
            except (RuntimeError, CancelledError, ServerError):  # it is being closed, or is asked again
                continue
            with self._partitions.turn:
                for partition, error in behind.items():
                    if self._partitions.works(partition):
                        self._partitions.failed(partition, error)

    def _put_back(self) -> dict[Partition, MigrateError]:
        """Partitions of ours whose consumed prefix the state has lower than we wrote it."""
        with self._partitions.turn:
            ours = self._partitions.consumed()
            back = self._in_state(lambda connection: self._find_put_back(connection, ours, {})) if ours else ()
        return {partition: PutBack() for partition in back}

    def _find_put_back(
        self, connection: sa.Connection, written: Mapping[Partition, int], noted: Mapping[Partition, int]
    ) -> set[Partition]:
        """Of which the state lacks what we wrote. Markers of foreign keys went with it, and what had made everything
        found equal count no more: only a verification finds what differs."""
        back = record.put_back(connection, written, noted)
        if back:
            compared.forget(connection, self._settings.name, Because.STATE)
            record.set_notes(connection, {part: count for part, count in noted.items() if part in back})
        return back

    def _merge_once(self) -> None:
        self._merged = time.monotonic()
        swapped = self._queue.swap()
        for piece in self._writer.rounds(swapped):
            batch = [item for item in piece if self._partitions.works(item.partition)]
            if batch:
                began = time.monotonic()
                merged = self._writer.merge(batch)
                for partition, error in merged.failed.items():
                    self._partitions.failed(partition, error)
                if merged.consumed:
                    self._mark(merged.consumed)
                self._tell(merged, batch, time.monotonic() - began)
        self._queue.done(swapped)

    def _mark(self, consumed: Sequence[Consumed]) -> None:
        """Extend the consumed prefixes, in one transaction, of the partitions that are still ours."""

        def mark(connection: sa.Connection) -> tuple[set[str], set[Partition]]:
            lost = self._leases.lost(connection, [self._partitions.leased(done.partition).held for done in consumed])
            ours = [done for done in consumed if done.partition.lease not in lost]
            written = {done.partition: self._partitions.leased(done.partition).end for done in ours}
            noted = {done.partition: done.notes for done in ours if done.notes is not None}
            back = self._find_put_back(connection, written, noted)
            ours = [done for done in ours if done.partition not in back]
            record.mark_consumed(connection, ours)
            for done in ours:
                self._partitions.went_on(connection, done)
            return lost, back

        lost, back = self._in_state(mark)
        for done in consumed:
            if done.partition in back:
                log.warning("the state database was put back", partition=done.partition.number)
                self._partitions.failed(done.partition, PutBack())
            elif done.partition.lease in lost:
                self._partitions.failed(
                    done.partition, OwnershipLost(f"lease '{done.partition.lease}' is another's now")
                )
            else:
                self._partitions.marked(done)

    def _tell(self, merged: Merged, batch: Sequence[Received], seconds: float) -> None:
        done = merged.written
        measured.merge_seconds.observe(seconds)
        measured.written(done.inserted, done.updated, done.deleted, done.empty, done.outdated)
        at = [item for item in batch if item.partition not in merged.failed] if merged.failed else batch
        measured.visible(item.message.es for item in at if item.apply)
        measured.changed(item.message for item in at if item.apply)
        log.info(
            "merged",
            messages=len(batch),
            rows=sum(one.rows for one in merged.consumed),
            inserted=done.inserted,
            updated=done.updated,
            deleted=done.deleted,
            empty_deletes=done.empty,
            outdated=done.outdated,
            seconds=round(seconds, 3),
        )

    def _in_state(self, action: Callable[[sa.Connection], T]) -> T:
        return in_transaction(self._state, action, self._stop)
