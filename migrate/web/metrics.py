"""GET /metrics: the status by Prometheus's text format, from one look a second, however many ask."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from migrate.status import exported
from migrate.web.access import Caller
from migrate.web.connection import HEADERS
from migrate.web.latest import WAIT_SECONDS, Latest, OncePer
from migrate.web.status_reader import Seen

FRESH_SECONDS = 1.0
"""For so long after its end a look is given to whoever asks."""


class _Once:
    """As a collector."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


class Scrapes:
    """What the looks are, for Prometheus."""

    def __init__(self, migration: str, looks: Latest[Seen]) -> None:
        self._migration = migration
        self._looks = looks
        self._texts = OncePer(self._text, "metrics")

    async def shown(self, request: Request) -> Response:
        """Raises HTTPException."""
        caller: Caller = request.state.caller
        if not caller.reads_metrics:
            raise HTTPException(HTTPStatus.FORBIDDEN, "this token does not read metrics; use web.metrics_token")
        try:
            body = await self._texts.of(await self._looks.get(FRESH_SECONDS))
        except TimeoutError:
            told = f"the servers did not answer within {WAIT_SECONDS:g} s"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, told) from None
        return Response(body, HTTPStatus.OK, {**HEADERS, "Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    def _text(self, seen: Seen) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        found = [exported.up(self._migration, False)] if seen.look is None else list(exported.families(seen.look))
        registry.register(_Once(found))
        return generate_latest(registry)
