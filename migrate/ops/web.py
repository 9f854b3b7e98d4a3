"""`migrate web`: the switch over HTTP, for applications that do not reach the state database.

GET /switch               {"version": 3, "side": "target", "writes": "open"}
POST /switch              {"instance": "web-1", "version": 3}: what an application goes by; the answer as above
DELETE /switch/INSTANCE   an application's process that ends

Every request needs the token (`Authorization: Bearer …`). Anything else is refused, without a word on what is inside
(FAULTS S3, S13).
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.model.address import parse_address
from migrate.model.errors import ConfigError, ServerError
from migrate.model.stopping import stop_on_signals
from migrate.settings import Settings
from migrate.state import database, switch
from migrate.state import migration as migrations

log = structlog.get_logger("migrate.web")
_PATH = "/switch"
_MOST = 4096  # bytes of a request
_SECONDS = 10.0  # that a client may take
_INSTANCE = 128


class _Refused(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def serve(settings: Settings, ready: Callable[[str], None] = lambda _address: None) -> None:
    """Answer until told to stop. ready: told where it listens. Raises ConfigError, PreflightError, ServerError."""
    token = settings.web.token
    if token is None:
        raise ConfigError("web.token is not set", hint="set it, for example by ${WEB_TOKEN}; every request needs it")
    host, port = parse_address(settings.web.listen, 0)
    with database.opened(settings.state) as state, stop_on_signals() as stop:
        with state.begin() as connection:
            migrations.get(connection, settings.name, finished=True)
            switch.make(connection, settings.name)
        handler = _handler(settings.name, state, token.get_secret_value())
        try:
            server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise ServerError(f"web.listen {settings.web.listen}: {error}", hint="name another host or port") from error
        with server:
            threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
            address = f"{host}:{server.server_address[1]}"
            log.info("listening", address=address)
            ready(address)
            stop.wait()
            server.shutdown()


def _handler(migration: str, state: sa.Engine, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS
        server_version = "migrate"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(lambda: self._show() if self.path == _PATH else self._none())

        def do_POST(self) -> None:
            self._answer(lambda: self._acknowledge() if self.path == _PATH else self._none())

        def do_DELETE(self) -> None:
            self._answer(lambda: self._forget() if self.path.startswith(f"{_PATH}/") else self._none())

        def _show(self) -> dict[str, Any]:
            with state.connect() as connection:
                now = switch.get(connection, migration)
            return {"version": now.version, "side": now.side.value, "writes": now.writes.value}

        def _acknowledge(self) -> dict[str, Any]:
            size = self.headers.get("Content-Length", "")
            if not size.isdigit() or int(size) > _MOST:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"a body of up to {_MOST} bytes is needed")
            try:
                body = json.loads(self.rfile.read(int(size)))
                instance, version = body["instance"], body["version"]
            except (ValueError, KeyError, TypeError):
                raise _Refused(HTTPStatus.BAD_REQUEST, '{"instance": TEXT, "version": NUMBER} is needed') from None
            right = isinstance(instance, str) and 0 < len(instance) <= _INSTANCE and type(version) is int
            if not right or version < 0:
                raise _Refused(HTTPStatus.BAD_REQUEST, '{"instance": TEXT, "version": NUMBER} is needed')
            with state.begin() as connection:
                switch.acknowledge(connection, migration, instance, version)
            return self._show()

        def _forget(self) -> dict[str, Any]:
            with state.begin() as connection:
                if not switch.forget_application(connection, migration, unquote(self.path[len(_PATH) + 1 :])):
                    raise _Refused(HTTPStatus.NOT_FOUND, "no such instance")
            return {}

        def _none(self) -> dict[str, Any]:
            raise _Refused(HTTPStatus.NOT_FOUND, "only /switch is here")

        def _answer(self, act: Callable[[], dict[str, Any]]) -> None:
            status, body = HTTPStatus.OK, {}
            try:
                given = self.headers.get("Authorization", "").encode("utf-8", "replace")
                if not hmac.compare_digest(given, f"Bearer {token}".encode()):
                    raise _Refused(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
                body = act()
            except _Refused as refused:
                status, body = refused.status, {"error": str(refused)}
            except DBAPIError as error:
                log.warning("the state database does not answer", error=str(error.orig))
                status, body = HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the state database does not answer"}
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - its name there
            log.debug("request", line=format % arguments)

    return Handler
