"""The swap read/write queue between the poll loop and the merger.

Two lists and one ordinary lock, held only for append and swap. Bounded by bytes: a full queue makes the consumer
pause its partitions.
"""

from __future__ import annotations

import threading

from migrate.model.message import Received
from migrate.model.partition import Partition


class SwapQueue:
    """`put` appends to the write list; `swap` takes that list and leaves an empty one."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._write: list[Received] = []
        self._lock = threading.Lock()
        self._waiting = 0  # bytes put and not yet given back by `done`
        self._some = threading.Event()

    def put(self, items: list[Received]) -> None:
        with self._lock:
            self._write.extend(items)
            self._waiting += sum(item.size for item in items)
            if self._write:
                self._some.set()

    def wait(self, seconds: float) -> bool:
        """Until something is put that no swap has taken, at most so long; whether there is."""
        return self._some.wait(seconds)

    def swap(self) -> list[Received]:
        """Everything put since the last swap, in order."""
        with self._lock:
            taken, self._write = self._write, []
            self._some.clear()
        return taken

    def done(self, items: list[Received]) -> None:
        """A swapped list was merged: its bytes are free again."""
        with self._lock:
            self._waiting -= sum(item.size for item in items)

    def drop(self, partition: Partition) -> None:
        """Forget what waits of a partition: its next owner, or its next attempt, reads it again."""
        with self._lock:
            kept = [item for item in self._write if item.partition != partition]
            dropped = [item for item in self._write if item.partition == partition]
            self._write = kept
            if not kept:
                self._some.clear()
            self._waiting -= sum(item.size for item in dropped)

    @property
    def waiting(self) -> int:
        """Bytes."""
        return self._waiting

    @property
    def full(self) -> bool:
        return self._waiting >= self._limit
