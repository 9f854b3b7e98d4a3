"""Batches on their way to Kafka: given out with rising ids, acknowledged in order (invariant position-after-delivery).

Three marks move over what is read, put ≥ get ≥ ack. A batch holds whole transactions, or a piece of one that is above
`publish.transaction_rows`. What was got and not acknowledged is not kept: the log itself is the store, and after
`rollback` it is read again from the acknowledged position.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from migrate.model.errors import Code, StopError
from migrate.publish.log.gtid import GtidSet
from migrate.state.position import Position, from_timestamp

log = structlog.get_logger("migrate.publish")
_MOST_PLACES = 100_000
"""Batches and boundaries that may be outstanding, some 25 MB: transactions without rows of ours have no other bytes."""
EMPTY = -1
"""The id of a batch that holds nothing."""

Messages = dict[str, list[tuple[int, bytes | None, bytes]]]
"""(Partition, key, message)s by topic."""


class Boundary(NamedTuple):
    """A place between transactions, and the transaction that ended there."""

    file: str
    pos: int
    event_time: int = 0  # seconds since 1970; 0 where the log tells none
    gtid: str | None = None  # "" for an anonymous transaction, None when none ended here


@dataclass(slots=True)
class Batch:
    id: int
    messages: Messages  # taken out by whoever sends them
    ends: list[Boundary]  # of the transactions in it; none while one is still being read
    rows: int = 0
    size: int = 0  # bytes
    unconfirmed: int = 0

    @property
    def end(self) -> Boundary | None:
        return self.ends[-1] if self.ends else None


class Batches:
    """Of one source. Not for several threads.

    Args: gtids: what is delivered up to `start`; None when that is not known, and then it is not kept.
    limit_bytes: of messages that are put and not yet acknowledged; `put` says when it is reached.
    more: reads on for at most so many seconds, for a `get` that waits.
    """

    def __init__(
        self,
        start: Position,
        gtids: GtidSet | None = None,
        limit_bytes: int = 64 * 1024 * 1024,
        more: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._last_id = start.batch
        self._position = start
        self._gtids = gtids
        self._limit = limit_bytes
        self._more = more
        self._clock = clock
        self._event_time = 0
        self.rows = self.transactions = self.acknowledgements = 0  # acknowledged so far, for its metrics
        self.waits: list[float] = []  # seconds from `sent` to there, of one batch at a time
        self.created: Mapping[str, int] = {start.file: start.file_created}  # when each file was begun
        self._forget()

    def _forget(self) -> None:
        self._waiting: Batch | None = None
        self._since = 0.0  # when what waits was put
        self._outstanding: deque[Batch] = deque()
        self._held = 0  # bytes that wait or are outstanding
        self._places = 0  # batches and boundaries that are outstanding
        self._timed = EMPTY  # the batch whose acknowledgement is waited for with a clock
        self._timed_since = 0.0
        self._done: Batch | None = None  # the last acknowledged one, not yet in `_position`

    # -- put, get, ack

    def put(self, messages: Messages, rows: int, size: int, end: Boundary | None) -> bool:
        """Take in a transaction, or with `end` None a piece of one.

        False when that brings us to the byte limit: nothing should be read before something is acknowledged.
        """
        waiting = self._waiting
        if waiting is None:
            self._waiting = Batch(EMPTY, messages, [] if end is None else [end], rows, size)
            self._since = self._clock()
        else:
            for topic, part in messages.items():
                waiting.messages.setdefault(topic, []).extend(part)
            waiting.rows += rows
            waiting.size += size
            if end is not None:
                waiting.ends.append(end)
        self._held += size
        return self._held < self._limit

    def ready(self, size: int, timeout: float | None = None) -> bool:
        """Whether `get` would return something at once."""
        waiting = self._waiting
        if waiting is None:
            return False
        return not timeout or waiting.rows >= size or self._clock() - self._since >= timeout

    def get(self, size: int, timeout: float | None = None) -> Batch:
        """What waits, as soon as that is `size` rows or `timeout` seconds are over; without a time-out at once.

        Its id is above all earlier ones, or EMPTY when nothing waits.
        """
        if timeout:
            ends = self._clock() + timeout
            while (self._waiting is None or self._waiting.rows < size) and (left := ends - self._clock()) > 0:
                self._more(left)
        batch = self._waiting
        if batch is None:
            return Batch(EMPTY, {}, [])
        self._waiting = None
        self._last_id += 1
        batch.id = self._last_id
        self._outstanding.append(batch)
        self._places += 1 + len(batch.ends)
        return batch

    def pass_on(self, rows: int, size: int, ends: list[Boundary]) -> Batch:
        """`put` and `get` in one, for what waits for nothing and finds nothing waiting; its messages stay elsewhere."""
        self._last_id = number = self._last_id + 1
        batch = Batch(number, {}, ends, rows, size)
        self._outstanding.append(batch)
        self._held += size
        self._places += 1 + len(ends)
        return batch

    @property
    def crowded(self) -> bool:
        """Whether so much is outstanding, bytes aside, that nothing should be read before something is acknowledged."""
        return self._places >= _MOST_PLACES

    def ack(self, number: int) -> None:
        """The batch is delivered. Raises StopError for any but the smallest outstanding id: data would be lost."""
        if not self._outstanding or self._outstanding[0].id != number:
            first = self._outstanding[0].id if self._outstanding else "none"
            raise StopError(
                f"batch {number} is acknowledged out of turn; the first outstanding one is {first}", code=Code.DEFECT
            )
        self._acknowledge()

    def _acknowledge(self) -> None:
        batch = self._outstanding.popleft()
        self._held -= batch.size
        self._places -= 1 + len(batch.ends)
        self.rows += batch.rows
        self.transactions += len(batch.ends)
        self.acknowledgements += 1
        if batch.id == self._timed:
            self._timed = EMPTY
            self.waits.append(self._clock() - self._timed_since)
        if not batch.ends:
            return
        self._done = batch
        self._event_time = next((end.event_time for end in reversed(batch.ends) if end.event_time), self._event_time)
        if self._gtids is not None:
            self._gtids.add(*[gtid for _, _, _, gtid in batch.ends if gtid])
            if any(gtid == "" for _, _, _, gtid in batch.ends):
                at = batch.ends[-1]
                log.warning("an anonymous transaction: the position goes on by file", file=at.file, pos=at.pos)
                self._gtids = None

    # -- what the broker says

    def sent(self, batch: Batch, count: int = 1) -> None:
        batch.unconfirmed += count
        if count and self._timed == EMPTY:
            self._timed, self._timed_since = batch.id, self._clock()

    def confirmed(self, batch: Batch) -> None:
        """The broker has one of the parts that were `sent`. Batches are acknowledged in turn once it has them all."""
        batch.unconfirmed -= 1
        if not batch.unconfirmed:
            self.settle()

    def settle(self) -> None:
        """Acknowledge every batch that is confirmed, and before which all are."""
        outstanding = self._outstanding
        while outstanding and not outstanding[0].unconfirmed:
            self._acknowledge()

    # -- the rest

    def rollback(self) -> Position:
        """Forget what waits or is outstanding; returns the acknowledged position, from which it is to be put again."""
        position = self.acknowledged
        self._forget()
        return position

    @property
    def outstanding(self) -> list[Batch]:
        """Got and not acknowledged, in order."""
        return list(self._outstanding)

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
