"""Server-sent events: what changed of a page since it was sent last (https://html.spec.whatwg.org/#server-sent-events)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from migrate.web.latest import WAIT_SECONDS
from migrate.web.page.render import Parts, digests

MOST = 64
"""Pages that are kept live at a time; further ones are not."""
STREAM_SECONDS = 600.0
"""After so long a browser asks again, with its token."""


class Unreadable(Exception):  # noqa: N818 - it says what is so
    """Why there is nothing to show now, in a line."""


class Streams:
    """Of every page that is open."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._open = 0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """The server stops."""
        self._ending.set()

    def answer(
        self, read: Callable[[], Awaitable[Parts]], headers: Mapping[str, str], has: Mapping[str, str]
    ) -> Response | None:
        """Events for one page; None where MOST are open. read: raises TimeoutError, Unreadable. has: digests of the
        parts that the page has."""
        if self._open >= MOST:
            return None
        self._open += 1
        return _Answer(self._events(read, dict(has)), headers, self._closed)

    def _closed(self) -> None:
        self._open -= 1

    async def _events(self, read: Callable[[], Awaitable[Parts]], sent: dict[str, str]) -> AsyncIterator[bytes]:
        until = asyncio.get_running_loop().time() + STREAM_SECONDS
        yield b"retry: 2000\n\n"
        while asyncio.get_running_loop().time() < until:
            event = await self._next(read, sent)
            if event is None:
                return
            yield event
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self._interval)
                return

    async def _next(self, read: Callable[[], Awaitable[Parts]], sent: dict[str, str]) -> bytes | None:
        """None where the server stops meanwhile."""
        reading = asyncio.ensure_future(read())
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return None
            parts = reading.result()
        except TimeoutError:
            return _event("problem", f"the servers did not answer within {WAIT_SECONDS:g} s")
        except Unreadable as error:
            return _event("problem", str(error))
        finally:
            reading.cancel()
            ending.cancel()
        now = digests(parts)
        changed = {name: str(html) for name, html in parts.items() if sent.get(name) != now[name]}
        sent.update(now)
        return _event("parts", changed)


class _Answer(StreamingResponse):
    """Says when it is over, whoever ended it."""

    def __init__(self, events: AsyncIterator[bytes], headers: Mapping[str, str], closed: Callable[[], None]) -> None:
        super().__init__(events, HTTPStatus.OK, {**headers, "Content-Type": "text/event-stream"})
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()


def parts_it_has(request: Request) -> dict[str, str]:
    """Digests by name, of a page that was just loaded. One that connects again has taken in more since."""
    if "last-event-id" in request.headers:
        return {}
    pairs = (one.partition(":") for one in request.query_params.get("has", "").split())
    return {name: digest for name, _, digest in pairs}


def _event(name: str, data: Any) -> bytes:
    """JSON has no line ends, which would end the event's data. The id is what a browser connects again with."""
    return f"event: {name}\nid: 1\ndata: {json.dumps(data)}\n\n".encode()
