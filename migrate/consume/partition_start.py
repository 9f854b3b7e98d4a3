"""From where a partition is read: once its new owner is its writer in every target database, and all of them have what
they had (invariants one-committer, fenced-writer, fence-compares)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import sqlalchemy as sa
import structlog

from migrate.consume.ownership import NO_RECORD, LastConsumed, LeasedPartition
from migrate.kafka import admin
from migrate.kafka.reader import DELETED, PartitionReader
from migrate.kafka.topic_identity import BEGIN_ANEW
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.message import CANAL
from migrate.settings import Settings
from migrate.state import compared, reached, record
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.state.database import in_transaction
from migrate.state.lease import HeldLease, Leases
from migrate.state.migration import Migration
from migrate.state.reached import BROKER, DatabaseName, LostMessages
from migrate.state.record import Partition
from migrate.target.reached import Claim, ReachedBefore, Remaining, StateBehind

log = structlog.get_logger("migrate.consume")
T = TypeVar("T")


class Owner(Protocol):
    """Who writes the rows of the partitions that are ours; the merger."""

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None = None,
    ) -> ReachedBefore:
        """had: the offset that each target database had come to.

        at_most: the offset from which on the broker has other messages by now, if it has.
        """

    def drop(self, partition: Partition) -> None: ...


class _Known(NamedTuple):
    """What the state has of a partition."""

    start: int | None  # the end of its consumed prefix
    watermark: dict[str, Coordinate]
    had: dict[DatabaseName, int]  # the offset that each target database had come to
    recorded: int
    last: LastConsumed | None  # the message that was consumed last
    migration: migrations.Migration


class PartitionStart:
    """For the reading thread."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        leases: Leases,
        owner: Owner,
        reader: PartitionReader,
        stop: threading.Event,
        migration: Migration,
    ) -> None:
        self._settings = settings
        self._state = state
        self._leases = leases
        self._owner = owner
        self._reader = reader
        self._stop = stop
        self._migration = migration

    def take(self, leased: LeasedPartition) -> tuple[int, bool]:
        """Become the partition's writer; returns the offset to read from, and whether the broker has no more.

        Raises: OwnershipLost, StopError; ServerError when `migrate init` changed the migration.
        """
        partition = leased.partition

        def load(connection: sa.Connection) -> _Known:
            start = record.next_offset(connection, partition)
            marks = record.watermarks(connection, partition)
            last = record.last_offset(connection, partition)
            had = reached.load(connection, partition)
            seen = record.last(connection, partition)
            evidence = LastConsumed(*seen) if seen is not None and seen[0] + 1 == start else None
            return _Known(start, marks, had, last, evidence, migrations.get(connection, self._settings.name))

        found, watermark, had, leased.recorded, leased.evidence, known = self._in_state(load)
        if known != self._migration:
            raise ServerError("the migration has other topics or partitions now", hint="this process starts again")
        start = found or 0
        leased.marked = CANAL in watermark
        low, high = self._reader.bounds(*leased.where)
        if start < low and self._is_set_back(leased.named, start, low):
            start = low
        if start < low:
            raise StopError(
                f"{leased.named}: the next offset to read is {start}, but the broker has {low} to {high}",
                hint=DELETED,
                code=Code.TOPIC,
            )
        is_other = start > high or leased.is_cut
        if is_other:
            self._refuse_another_topic(leased)
        behind, most, notes = self._take(leased, watermark, had, low if is_other else None)
        if notes:
            self._in_state(partial(self._forget_unless_noted, leased, notes))
        if most > start and not is_other:
            self._in_state(partial(self._forget_unless_recorded, partition, most))
        if is_other:  # noted behind that: who is killed in between finds it again
            self._read_again(leased, start, low, high)
            start = low
        if behind:
            start = self._set_back(leased, start, low, {one: (has, had[one]) for one, has in behind.items()})
        leased.end, leased.begun = min(start, found or 0), True  # as the state has it now
        return start, start == high

    def _is_set_back(self, where: str, start: int, low: int) -> bool:
        """Whether it is read again for a database that lost what the broker no longer has either; others have it."""

        def look(connection: sa.Connection) -> bool:
            noted = reached.lost_since(connection, self._settings.name, None)
            of_targets = [one for one in noted if one.what == where and one.database != BROKER]
            return any(one.start <= start and low <= one.consumed for one in of_targets)

        return self._in_state(look)

    def _take(
        self,
        leased: LeasedPartition,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None,
    ) -> ReachedBefore:
        while True:
            claim = Claim(leased.partition, leased.held.epoch, self._leases.holder)
            try:
                return self._owner.take(claim, watermark, had, at_most)
            except StateBehind as error:
                later = self._in_state(partial(self._raised_above, leased.partition.lease, error.epoch))
                self._leases.raised(leased.held, later)
                leased.held = later

    def _raised_above(self, lease: str, epoch: int, connection: sa.Connection) -> HeldLease:
        self._forget_compared(connection)
        return self._leases.raise_above(lease, epoch, connection)

    def _forget_unless_recorded(self, partition: Partition, most: int, connection: sa.Connection) -> None:
        """A target has what is in no record only of a state that was put back alone (invariant record-before-queue)."""
        if not record.is_there(connection, partition, most - 1):
            self._forget_compared(connection)

    def _forget_unless_noted(self, leased: LeasedPartition, notes: int, connection: sa.Connection) -> None:
        """notes: how many the state had before rows were written behind them. One that has fewer was put back, and who
        made them ended too: keys that are carried nowhere and markers of foreign keys are gone with them."""
        partition = leased.partition
        if (has := record.notes(connection, [partition])[partition]) >= notes:
            return
        self._leases.still_ours(connection, leased.held)
        self._forget_compared(connection)
        record.set_notes(connection, {partition: notes})
        log.warning("the state database was put back", partition=partition.number, notes=has, had=notes)

    def _forget_compared(self, connection: sa.Connection) -> None:
        """The state was put back: with it went what had made everything found equal count no more."""
        compared.forget(connection, self._settings.name, Because.STATE)

    def _refuse_another_topic(self, leased: LeasedPartition) -> None:
        """Offsets of a topic that was re-created say nothing. Raises StopError, also where the broker does not say."""
        try:
            there = admin.describe(self._settings.kafka, leased.topic)
        except ServerError as error:
            raise StopError(error.message, hint=error.given, code=Code.TOPIC) from error
        if there is None or there.id != leased.partition.topic_id:
            raise StopError(
                f"topic {leased.topic} was deleted, or is another one under its name", hint=BEGIN_ANEW, code=Code.TOPIC
            )

    def _read_again(self, leased: LeasedPartition, start: int, low: int, high: int) -> None:
        """The broker lost messages that were consumed, and may have others in their places: all that it has is read
        once more, and what the targets have of it is a repeat."""
        partition = leased.partition
        found = LostMessages(BROKER, leased.named, min(start, high), start, low)

        def note(connection: sa.Connection) -> None:
            self._leases.still_ours(connection, leased.held)
            record.forget(connection, partition, low)
            reached.note_lost(connection, partition.migration, found)

        self._in_state(note)
        log.error("the broker lost acknowledged messages", lost=str(found), read_again_from=low)
        leased.recorded, leased.evidence, leased.is_cut = NO_RECORD, None, False

    def _set_back(
        self, leased: LeasedPartition, start: int, low: int, behind: Mapping[DatabaseName, tuple[Remaining, int]]
    ) -> int:
        """Databases lost what they had: from where on the partition is to be applied again. Returns the offset.

        behind: what each has, and the offset that it had come to. What the broker no longer has is noted, and settled
        by a verification (invariant fence-compares). So is all that a database lost in which applications write: older
        changes would come over newer rows there.
        """
        partition, where = leased.partition, leased.named
        consumed = start
        given_up = {database for database, (has, _) in behind.items() if has.active}
        start = max(low, min([start, *(has.offset for has, _ in behind.values() if not has.active)]))
        found = [
            LostMessages(database, where, has.offset, end, end if has.active else start, consumed)
            for database, (has, end) in behind.items()
        ]

        def note(connection: sa.Connection) -> None:
            self._leases.still_ours(connection, leased.held)
            record.set_back(connection, partition, start)
            for one in found:
                reached.note_lost(connection, partition.migration, one)
                if one.database in given_up or one.kept >= one.end:  # nobody gives it
                    reached.lower(connection, partition, one.database, one.start)

        self._in_state(note)
        leased.recorded, leased.evidence = NO_RECORD, None  # what was applied is to be applied again
        for one in found:
            told = log.warning if one.healed else log.error
            told("a target lost committed transactions", lost=str(one), applied_again_from=start)
        return start

    def _in_state(self, action: Callable[[sa.Connection], T]) -> T:
        return in_transaction(self._state, action, self._stop)
