"""Listens until it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from starlette.routing import Route

from migrate.model.address import is_loopback, parse_address
from migrate.model.errors import ConfigError, ServerError
from migrate.model.stopping import stop_on_signals
from migrate.settings import Certificate, Settings
from migrate.settings.web import NOT_LOOPBACK, SHARED, SHARED_REMEDY
from migrate.state import database, switch
from migrate.state import migration as migrations
from migrate.web.access import Tokens
from migrate.web.connection import HEADER_BYTES, REQUEST_SECONDS, Connection, Listener
from migrate.web.latest import Latest
from migrate.web.metrics import Scrapes
from migrate.web.page.routes import Pages
from migrate.web.status_reader import StatusReader
from migrate.web.switch import AT_ONCE, STATE_SECONDS, application

log = structlog.get_logger("migrate.web")

STATUS_SESSIONS = 5
"""At the state database for looks, pages and searches, beside those of the switch: neither waits for the other."""


def serve(settings: Settings, config: Path, ready: Callable[[str], None] = lambda _address: None) -> None:
    """Answer until told to stop. config: the file of the settings. ready: told where it listens.

    Raises ConfigError, PreflightError, ServerError.
    """
    if not settings.web.answers:
        hint = "set web.tokens, a token of its own for each application instance; every request needs one"
        raise ConfigError("neither web.tokens nor web.token is set", hint=hint)
    tokens = Tokens(settings.web)
    encrypted = None if settings.web.tls is None else _context(settings.web.tls)
    quick = {"connect_timeout": STATE_SECONDS, "read_timeout": STATE_SECONDS}
    with (
        database.opened(settings.state.model_copy(update=quick), pool=AT_ONCE) as state,
        database.opened(settings.state.model_copy(update=quick), pool=STATUS_SESSIONS) as of_status,
        stop_on_signals() as stop,
        ThreadPoolExecutor(AT_ONCE, "web") as threads,
    ):
        with state.begin() as connection:
            migrations.get(connection, settings.name, finished=True)
            switch.make(connection, settings.name)
        with closing(_listener(settings.web.listen, encrypted)) as listener:
            looks = Latest(StatusReader(settings, of_status).read, "status")
            more = [Route("/metrics", Scrapes(settings.name, looks).shown, methods=["GET"])]
            pages = Pages(settings, config, of_status, looks) if tokens.has_readers else None
            more += pages.routes if pages is not None else []
            app = application(settings.name, state, tokens, threads, more)
            serving = uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                workers=1,
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("Server", "migrate")],
                h11_max_incomplete_event_size=HEADER_BYTES,
            )
            serving.load()
            serving.ssl = encrypted

            def listening() -> None:
                log.info("listening", address=settings.web.listen)
                if settings.web.is_shared:
                    log.warning(SHARED, remedy=SHARED_REMEDY)
                ready(settings.web.listen)

            with asyncio.Runner(loop_factory=_Loop) as runner:
                runner.run(_Server(serving, stop, listening, pages).serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """Stops by our event, not by signal handlers of its own."""

    def __init__(
        self, config: uvicorn.Config, stop: threading.Event, listening: Callable[[], None], pages: Pages | None
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._listening = listening
        self._pages = pages
        self._keeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._pages is not None:
            self._keeping = asyncio.create_task(self._pages.keep_history())
        self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._pages is not None and self._keeping is not None:
            self._keeping.cancel()
            self._pages.streams.end()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop.is_set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Loop(asyncio.SelectorEventLoop):
    """With deadlines for the beginning and the end of TLS, which uvicorn does not set."""

    async def create_server(self, *arguments: Any, **more: Any) -> asyncio.Server:
        if more.get("ssl") is not None:
            more |= {"ssl_handshake_timeout": REQUEST_SECONDS, "ssl_shutdown_timeout": REQUEST_SECONDS}
        return await super().create_server(*arguments, **more)


def _listener(listen: str, encrypted: ssl.SSLContext | None) -> Listener:
    """Raises ConfigError for a name that leads elsewhere than to this machine, without TLS; ServerError."""
    host, port = parse_address(listen, 0)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = min(found, key=lambda one: one[0] is not socket.AF_INET)
        if encrypted is None and not is_loopback(str(address[0])):
            raise ConfigError(f"web.listen {listen} {NOT_LOOPBACK}", hint="config/example.yaml shows every key")
        listener = Listener(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ServerError(f"web.listen {listen}: {error}", hint="name another host or port") from error
    return listener


def _context(files: Certificate) -> ssl.SSLContext:
    """Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for file in (files.certificate, files.key):
        if not file.is_file():
            raise ConfigError(f"web.tls: there is no file {file}", hint="name PEM files: the certificate and its key")
    try:
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:  # ssl.SSLError is one
        told = f"web.tls: {files.certificate} with the key {files.key} cannot be used: {error}"
        hint = "both are PEM, the key belongs to the certificate, has no passphrase and can be read by this account"
        raise ConfigError(told, hint=hint) from error
    return context
