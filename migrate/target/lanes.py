"""The sessions over which the databases of one target server are written side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import LifoQueue
from typing import TypeVar

from migrate.settings import Settings
from migrate.target.pool import TargetPool

T = TypeVar("T")


class Lanes:
    """So many sessions, each opened on first use; the one that was used last goes first."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._idle: LifoQueue[TargetPool] = LifoQueue()
        for _ in range(count):
            self._idle.put(TargetPool(settings))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="target")

    @contextmanager
    def one(self) -> Iterator[TargetPool]:
        """A session nobody else uses meanwhile; waits for one."""
        pool = self._idle.get()
        try:
            yield pool
        finally:
            self._idle.put(pool)

    def submit(self, write: Callable[[TargetPool], T]) -> Future[T]:
        """Have a thread do it with a session, once one is free."""
        return self._threads.submit(self._do, write)

    def _do(self, write: Callable[[TargetPool], T]) -> T:
        with self.one() as pool:
            return write(pool)

    def close(self) -> None:
        """End what has begun, and the sessions."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()
