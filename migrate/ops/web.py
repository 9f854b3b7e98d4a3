"""`migrate web`: the switch over HTTP, for applications that do not reach the state database.

GET /switch               {"version": 3, "side": "target", "writes": "open"}
POST /switch              {"instance": "web-1", "version": 3}: what an application goes by; the answer as above
DELETE /switch/INSTANCE   an application's process that ends

Every request needs the token (`Authorization: Bearer …`). Anything else is refused, without a word on what is inside
(FAULTS S3, S13). Where the state database does not answer, each request is told so within seconds.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

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
_STATE_SECONDS = 3  # that the state database may take to answer, and a request waits for its turn to ask it
_AT_ONCE = 2 * database.SESSIONS  # requests that ask it; as many as the engine has connections for
_WANTED = '{"instance": TEXT, "version": NUMBER} is needed'
_SILENT = "the state database does not answer"


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
    quick = {"connect_timeout": _STATE_SECONDS, "read_timeout": _STATE_SECONDS}
    with database.opened(settings.state.model_copy(update=quick), pool=_AT_ONCE) as state, stop_on_signals() as stop:
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


def _shown(now: switch.Switch) -> dict[str, Any]:
    return {"version": now.version, "side": now.side.value, "writes": now.writes.value}


def _handler(migration: str, state: sa.Engine, token: str) -> type[BaseHTTPRequestHandler]:
    turn = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def asked() -> Iterator[sa.Connection]:
        if not turn.acquire(timeout=_STATE_SECONDS):
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, _SILENT)
        try:
            with state.begin() as connection:
                yield connection
        finally:
            turn.release()

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
            with asked() as connection:
                return _shown(switch.get(connection, migration))

        def _acknowledge(self) -> dict[str, Any]:
            size = self.headers.get("Content-Length", "")
            if not (size.isascii() and size.isdigit()) or int(size) > _MOST:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"a body of up to {_MOST} bytes is needed")
            try:
                body = json.loads(self.rfile.read(int(size)))
                instance, version = body["instance"], body["version"]
                right = len(instance.encode()) > 0 and len(instance) <= _INSTANCE and type(version) is int
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                right = False
            if not right:
                raise _Refused(HTTPStatus.BAD_REQUEST, _WANTED)
            with asked() as connection:
                now = switch.get(connection, migration)
                if not 0 < version <= now.version:
                    told = f"the switch has not had that version; it has {now.version}"
                    raise _Refused(HTTPStatus.BAD_REQUEST, told)
                switch.acknowledge(connection, migration, instance, version)
            return _shown(now)

        def _forget(self) -> dict[str, Any]:
            with asked() as connection:
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
            except UnicodeError:
                status, body = HTTPStatus.BAD_REQUEST, {"error": "not every character can be kept"}
            except SQLAlchemyError as error:
                log.warning(_SILENT, error=str(getattr(error, "orig", None) or type(error).__name__))
                status, body = HTTPStatus.SERVICE_UNAVAILABLE, {"error": _SILENT}
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
