"""Which position is durably delivered: batches are acknowledged in order (rule 3, seed 000)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from migrate.state.position import Position


@dataclass(slots=True)
class Batch:
    """The messages of one transaction, and the boundary behind it once it is known."""

    id: int
    unconfirmed: int = 0
    end: Position | None = None  # None while the transaction is still being read


class Acks:
    """Ids only rise; the acknowledged position is the end of the last batch before the first unconfirmed one."""

    def __init__(self, start: Position) -> None:
        self._batches: deque[Batch] = deque()
        self._last_id = start.batch
        self.acknowledged = start

    def begin(self) -> Batch:
        """A new transaction's batch."""
        self._last_id += 1
        batch = Batch(self._last_id)
        self._batches.append(batch)
        return batch

    def sent(self, batch: Batch) -> None:
        batch.unconfirmed += 1

    def confirmed(self, batch: Batch) -> None:
        """The broker has one message of the batch."""
        batch.unconfirmed -= 1
        self._advance()

    def end(self, batch: Batch, position: Position) -> None:
        """The transaction is complete; `position` is the boundary behind it."""
        batch.end = position
        self._advance()

    def _advance(self) -> None:
        while self._batches:
            first = self._batches[0]
            if first.unconfirmed or first.end is None:
                return
            self.acknowledged = first.end
            self._batches.popleft()

    @property
    def outstanding(self) -> int:
        return len(self._batches)
