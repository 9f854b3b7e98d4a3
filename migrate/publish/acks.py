"""Which position is durably delivered: batches are acknowledged in order (rule 3, seed 000)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from migrate.publish.gtid import GtidSet
from migrate.state.position import Position, from_timestamp

log = structlog.get_logger("migrate.publish")


class Boundary(NamedTuple):
    """A place between transactions, and the transaction that ended there."""

    file: str
    pos: int
    event_time: int = 0  # seconds since 1970; 0 where the log tells none
    gtid: str | None = None  # "" for an anonymous transaction, None when none ended here


@dataclass(slots=True)
class Batch:
    """The messages of one transaction, and the boundary behind it once it is known."""

    id: int
    unconfirmed: int = 0
    end: Boundary | None = None  # None while the transaction is still being read


class Acks:
    """Ids only rise; the acknowledged position is the end of the last batch before the first unconfirmed one.

    gtids: what is delivered up to `start`; None when that is not known, and then it is not kept.
    """

    def __init__(self, start: Position, gtids: GtidSet | None = None) -> None:
        self._batches: deque[Batch] = deque()
        self._last_id = start.batch
        self._position = start
        self._gtids = gtids
        self._done: Batch | None = None  # the last acknowledged one, not yet in `_position`
        self._event_time = 0
        self.created: Mapping[str, int] = {start.file: start.file_created}  # when each file was begun

    def begin(self) -> Batch:
        """A new transaction's batch."""
        self._last_id += 1
        batch = Batch(self._last_id)
        self._batches.append(batch)
        return batch

    def sent(self, batch: Batch, messages: int = 1) -> None:
        batch.unconfirmed += messages

    def confirmed(self, batch: Batch) -> None:
        """The broker has one message of the batch."""
        batch.unconfirmed -= 1
        if not batch.unconfirmed:
            self._advance()

    def end(self, batch: Batch, boundary: Boundary) -> None:
        """The transaction is complete; `boundary` is behind it."""
        batch.end = boundary
        self._advance()

    def _advance(self) -> None:
        while self._batches:
            first = self._batches[0]
            end = first.end
            if first.unconfirmed or end is None:
                return
            self._done = self._batches.popleft()
            if end.event_time:
                self._event_time = end.event_time
            if end.gtid and self._gtids is not None:
                self._gtids.add(end.gtid)
            elif end.gtid == "" and self._gtids is not None:
                log.warning("an anonymous transaction: the position goes on by file only", file=end.file, pos=end.pos)
                self._gtids = None

    @property
    def acknowledged(self) -> Position:
        """Built when asked for: writing out a GTID set for every transaction would cost more than the transaction."""
        if self._done is not None and self._done.end is not None:
            end = self._done.end
            self._position = replace(
                self._position,
                file=end.file,
                pos=end.pos,
                event_time=from_timestamp(self._event_time) or self._position.event_time,
                gtid_set="" if self._gtids is None else str(self._gtids),
                batch=self._done.id,
                file_created=self.created.get(end.file, 0),
            )
            self._done = None
        return self._position

    @property
    def outstanding(self) -> int:
        return len(self._batches)
