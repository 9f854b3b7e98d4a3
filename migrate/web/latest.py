"""The latest answer to a question that takes long: asked in one thread at a time, given to all who ask meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")

WAIT_SECONDS = 20.0
"""That a request waits for an answer at most: servers that hang make it long."""


def in_thread(ask: Callable[[], T], name: str) -> asyncio.Future[T]:
    """The answer, from a thread that no stop waits for."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[T] = loop.create_future()

    def tell(answer: T | None, error: Exception | None) -> None:
        if made.done():
            return
        made.set_exception(error) if error is not None else made.set_result(answer)  # type: ignore[arg-type]

    def run() -> None:
        answer, failed = None, None
        try:
            answer = ask()
        except Exception as error:  # whoever waits gets it
            failed = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, answer, failed)

    threading.Thread(target=run, name=name, daemon=True).start()
    return made


class Latest(Generic[T]):
    """The latest answer, for as long as whoever asks takes it for fresh."""

    def __init__(self, ask: Callable[[], T], name: str) -> None:
        """ask: in a thread of this name; what it raises, all who wait get."""
        self._ask = ask
        self._name = name
        self._found: asyncio.Future[T] | None = None
        self._ended = 0.0

    async def get(self, fresh_seconds: float) -> T:
        """What is under way, or ended less than so many seconds ago, or a new answer. Raises TimeoutError."""
        if self._found is None or (self._found.done() and time.monotonic() - self._ended >= fresh_seconds):
            self._found = in_thread(self._asked, self._name)
            self._found.add_done_callback(asyncio.Future.exception)  # seen, also where nobody waits any more
        async with asyncio.timeout(WAIT_SECONDS):
            return await asyncio.shield(self._found)

    def _asked(self) -> T:
        try:
            return self._ask()
        finally:
            self._ended = time.monotonic()


class OncePer(Generic[K, T]):
    """What is made of the latest of some things, made once for each."""

    def __init__(self, make: Callable[[K], T], name: str) -> None:
        self._make = make
        self._name = name
        self._of: K | None = None
        self._made: asyncio.Future[T] | None = None

    async def of(self, thing: K) -> T:
        """thing: the same object gives the same. Raises TimeoutError, and what making it raises."""
        if self._made is None or self._of is not thing:
            self._of, self._made = thing, in_thread(lambda: self._make(thing), self._name)
            self._made.add_done_callback(asyncio.Future.exception)
        async with asyncio.timeout(WAIT_SECONDS):
            return await asyncio.shield(self._made)
