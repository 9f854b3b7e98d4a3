"""One connection: one request that has to arrive in time, and its answer.

uvicorn has no deadline for a header or a body, and answers what is not HTTP in plain text. There is no second request
on a connection, so that what a client may hold ends with its answer.
"""

from __future__ import annotations

import asyncio
import json
import socket
import weakref
from http import HTTPStatus
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

log = structlog.get_logger("migrate.web")

CONNECTIONS = 512
"""At a time, those in a TLS handshake too."""
REQUEST_SECONDS = 5
"""That a request may take to arrive, header and body, and as long again a TLS handshake before it."""
UNREAD_SECONDS = 30
"""That a client may leave an answer unread, once the buffers between are full."""
HEADER_BYTES = 16 * 1024
HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-store", "Connection": "close"}
"""Of every answer."""


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


class Listener(socket.socket):
    """Closes what would be above CONNECTIONS as soon as it is accepted."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._full = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError for one too many, which the event loop takes for a client that left."""
        connection, address = super().accept()
        self._accepted = weakref.WeakSet(one for one in self._accepted if one.fileno() >= 0)
        if len(self._accepted) >= CONNECTIONS:
            connection.close()
            if not self._full:
                log.warning("too many connections: more are closed at once", limit=CONNECTIONS)
            self._full = True
            raise ConnectionAbortedError
        self._full = self._full and len(self._accepted) > CONNECTIONS // 2
        self._accepted.add(connection)
        return connection, address


class Connection(H11Protocol):
    """uvicorn's own, with a deadline for the request and JSON for what is not one."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _began = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._late)

    def data_received(self, data: bytes) -> None:
        self._began = True
        for start in range(0, len(data), HEADER_BYTES):  # h11 lets a longer header pass that arrives in one piece
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + HEADER_BYTES])
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._in_time()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has said all waits for its answer; true keeps the connection open, which TLS does not have."""
        return self.scheme == "http" and self.conn.their_state is h11.DONE

    def pause_writing(self) -> None:
        """The client does not read its answer: after a while it is cut, as a stop would wait for it."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._is_read()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What h11 does not take for HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST, "this is not a valid HTTP request")

    def shutdown(self) -> None:
        """The server stops: what has arrived is answered, nothing else is waited for."""
        if self._unread is not None:
            self.transport.abort()
        elif self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self._close()
        else:
            self.cycle.keep_alive = False

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _late(self) -> None:
        if self._began:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive within {REQUEST_SECONDS} s")
        else:
            self._close()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer what no handler is to answer any more, and close."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = encoded({"error": message})
            headers = [*HEADERS.items(), ("Content-Length", str(len(body)))]
            answer = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
            for part in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        self._close()

    def _close(self) -> None:
        self._in_time()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
