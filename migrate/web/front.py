"""What every request goes through before a route: its body within limits, its token, an answer to whatever fails."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from migrate.model.errors import defect
from migrate.web.access import Tokens
from migrate.web.connection import HEADERS, encoded

log = structlog.get_logger("migrate.web")

BODY_BYTES = 4096
OF_PROGRAMS = ("/switch", "/metrics")
"""Paths for which no browser asks a person for a name and a token."""
_ASK = 'Basic realm="migrate", charset="UTF-8"'
_DISCARDED_BYTES = 1024 * 1024
"""Read of a body that is too long: a client that still writes when the connection is closed does not see the answer."""


def answer(status: int, body: object) -> Response:
    return Response(encoded(body), status, HEADERS)


class Front:
    """ASGI around the routes; they find the caller in `request.state.caller`."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        body = await _body(scope, receive)
        if body is None:
            return  # the client left, or was cut
        try:
            await self._answer(scope, body, receive, sent)
        except Exception as error:
            log.error("a request met a defect", error=defect(error))
            if not status:
                told = {"error": "a defect of this program; its log says where"}
                await answer(HTTPStatus.INTERNAL_SERVER_ERROR, told)(scope, receive, sent)
        log.debug("request", method=scope["method"], path=scope["raw_path"].decode("ascii", "replace"), status=status)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return given.pop() if given else await receive()

        authorizations = [value for name, value in scope["headers"] if name == b"authorization"]
        caller = self._tokens.caller(authorizations[0]) if len(authorizations) == 1 else None
        if caller is None:
            refusal = answer(HTTPStatus.UNAUTHORIZED, {"error": "the token is missing or wrong"})
            if self._tokens.has_readers and not scope["path"].startswith(OF_PROGRAMS):
                refusal.headers["WWW-Authenticate"] = _ASK
            await refusal(scope, read, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, read, send)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """As much of it as tells one that is too long; None where the client leaves before its end."""
    announced = Headers(scope=scope).get("content-length", "0")
    body, size = bytearray(), 0
    if int(announced) > _DISCARDED_BYTES:
        return b" " * (BODY_BYTES + 1)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = bytes(message.get("body", b""))
        size += len(part)
        body += part[: BODY_BYTES + 1 - len(body)]
        if not message.get("more_body", False) or size > _DISCARDED_BYTES:
            return bytes(body)


async def refused(_request: object, error: Exception) -> Response:
    """An HTTPException, of ours or of the router, as JSON."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for no other
    return answer(error.status_code, {"error": error.detail})
