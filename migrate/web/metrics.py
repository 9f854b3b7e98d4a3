"""GET /metrics: the status by Prometheus's text format, from one look a second, however many ask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus

import sqlalchemy as sa
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.status import exported, unlike_tables
from migrate.status.look import look
from migrate.web.access import Caller
from migrate.web.connection import HEADERS

log = structlog.get_logger("migrate.web")

METRICS_SESSIONS = 3
"""At the state database, beside those of the switch, so that neither waits for the other."""
FRESH_SECONDS = 1.0
"""For so long after its end a look is given to whoever asks."""
WAIT_SECONDS = 20.0
"""That a request waits for one at most: servers that hang make it long."""


class _Once:
    """As a collector."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


class Scrapes:
    """One look at a time, in a thread that no stop waits for."""

    def __init__(self, settings: Settings, state: sa.Engine) -> None:
        self._settings = settings
        self._state = state
        self._unlike = unlike_tables.kept()
        self._latest: asyncio.Future[bytes] | None = None
        self._ended = 0.0

    async def shown(self, request: Request) -> Response:
        """Raises HTTPException."""
        caller: Caller = request.state.caller
        if not caller.reads_metrics:
            raise HTTPException(HTTPStatus.FORBIDDEN, "this token does not read metrics; use web.metrics_token")
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                body = await asyncio.shield(self._look())
        except TimeoutError:
            told = f"the servers did not answer within {WAIT_SECONDS:g} s"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, told) from None
        return Response(body, HTTPStatus.OK, {**HEADERS, "Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    def _look(self) -> asyncio.Future[bytes]:
        """The one that is under way, or has just ended, or a new one."""
        if self._latest is None or (self._latest.done() and time.monotonic() - self._ended >= FRESH_SECONDS):
            loop = asyncio.get_running_loop()
            made: asyncio.Future[bytes] = loop.create_future()
            self._latest = made

            def arrived(body: bytes) -> None:
                self._ended = time.monotonic()
                made.set_result(body)

            def run() -> None:
                body = self._text()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(arrived, body)

            threading.Thread(target=run, name="metrics", daemon=True).start()
        return self._latest

    def _text(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(self._families()))
        return generate_latest(registry)

    def _families(self) -> list[Metric]:
        try:
            return list(exported.families(look(self._settings, self._state, self._unlike)))
        except (MigrateError, SQLAlchemyError) as error:
            told = error.message if isinstance(error, MigrateError) else str(getattr(error, "orig", None) or error)
            log.warning("the status cannot be read", error=told)
        except Exception:  # a defect: whoever waits gets an answer all the same
            log.exception("the status met a defect")
        return [exported.up(self._settings.name, False)]
