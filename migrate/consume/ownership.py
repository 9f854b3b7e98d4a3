"""The partitions that are ours, and those of them that are stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from migrate.kafka.reader import RawMessage
from migrate.model.coordinate import Coordinate
from migrate.model.errors import MigrateError, ReadAgain
from migrate.model.message import CANAL, DIGEST, LEFT_OUT, Message
from migrate.model.partition import Partition
from migrate.state import stop_reason
from migrate.state.database import PUT_BACK
from migrate.state.lease import HeldLease
from migrate.state.reached import BROKER, LostMessages

NO_RECORD = -1
"""Instead of an offset: whatever is read is to be applied, though it may have been before."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0


class PutBack(ReadAgain):
    """The state has a lower end of a partition's consumed prefix than we wrote, or lacks what we noted of it."""

    def __init__(self) -> None:
        super().__init__(PUT_BACK)


class LastConsumed(NamedTuple):
    """The message that was consumed last: where another one is in its place, the broker lost messages."""

    offset: int
    source: str
    coordinate: Coordinate

    def is_other(self, message: Message) -> bool:
        if self.source == message.source == CANAL and self.coordinate.ordinal < DIGEST:
            return False  # it was stored without a digest, by an earlier version
        return message.identity != (self.source, self.coordinate)


@dataclass(slots=True)
class LeasedPartition:
    """A partition that we hold the lease of."""

    partition: Partition
    held: HeldLease
    topic: str
    recorded: int = NO_RECORD  # the highest offset with a record from before we took it
    noted: bool = True  # the state has a note that it is stopped, or may have one of an owner before

    evidence: LastConsumed | None = None  # what is read first, and not given on
    begun: bool = False  # it is read, or was
    end: int = 0  # of the consumed prefix, as we know it
    is_cut: bool = False  # the broker has other messages than were consumed
    marked: bool = False  # Canal writes there: its transactions leave marks, which take offsets too

    @property
    def named(self) -> str:
        """For people, and in `LostMessages`."""
        return f"{self.topic} [{self.partition.number}]"

    @property
    def where(self) -> tuple[str, int]:
        """As the broker names it."""
        return self.topic, self.partition.number

    @property
    def name(self) -> str:
        """For the notes of what is stopped, and why."""
        return stop_reason.of_partition(*self.where)


def gaps(leased: LeasedPartition, items: Sequence[tuple[RawMessage, Message]]) -> list[LostMessages]:
    """Offsets without a message before those that were read: the cleaner of a topic that is compacted took them, as the
    key of a message is its table's name. None of a partition in which Canal writes."""
    leased.marked |= any(message.source == CANAL and message.type != LEFT_OUT for _, message in items)
    return [
        LostMessages(BROKER, leased.named, start, raw.offset, raw.offset)
        for raw, _ in items
        if raw.skipped and not leased.marked
        if (start := max(raw.offset - raw.skipped, leased.end)) < raw.offset
    ]


@dataclass(slots=True)
class StoppedPartition:
    """Why a partition is stopped, and when it is tried again: what was refused may have been mended meanwhile."""

    error: MigrateError
    resume_at: int | None  # only reading stopped, at this offset, and what was read before goes on; None: all of it
    standing: bool = False  # False: it is being tried again
    due: float = 0.0
    _pause: float = _FIRST_PAUSE

    def is_over(self, consumed_to: int) -> bool:
        """Whether a merge up to there got past what stopped it; a message that cannot be read may still be ahead."""
        return not self.standing and consumed_to > (self.resume_at or 0)

    def stand(self) -> None:
        """Until the next attempt; longer each time."""
        self.standing = True
        self.due = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
