"""The routes.

GET /switch               {"version": 3, "side": "target", "writes": "open"}
POST /switch              {"instance": "web-1", "version": 3}: what an application goes by; the answer as above, with
                          "seen", the time of this acknowledgement
DELETE /switch/INSTANCE?seen=TIME   an application's process that ends; TIME as its last acknowledgement was answered
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from migrate.settings.web import INSTANCE
from migrate.state import database, switch
from migrate.web.access import Caller, Tokens
from migrate.web.front import BODY_BYTES, Front, answer, refused

log = structlog.get_logger("migrate.web")
T = TypeVar("T")

STATE_SECONDS = 3
"""That the state database may take to answer, and a request waits for its turn to ask it."""
AT_ONCE = 2 * database.SESSIONS
"""Requests that ask the state database at a time; as many as the engine has connections for."""
_PATH = "/switch"
_WANTED = '{"instance": TEXT, "version": NUMBER} is needed'
_SILENT = "the state database does not answer"


def application(
    migration: str, state: sa.Engine, tokens: Tokens, threads: ThreadPoolExecutor, more: Sequence[Route]
) -> ASGIApp:
    """threads: AT_ONCE of them, which ask the state database; its engine gives up within STATE_SECONDS. more: routes
    beside those of the switch."""
    switches = _Switch(migration, state, threads)
    routes = [
        Route(_PATH, switches.shown_or_acknowledged, methods=["GET", "POST"]),
        Route(f"{_PATH}/{{instance:path}}", switches.left, methods=["DELETE"]),
        *more,
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    app.router.redirect_slashes = False
    return Front(app, tokens)


class _Switch:
    def __init__(self, migration: str, state: sa.Engine, threads: ThreadPoolExecutor) -> None:
        self._migration = migration
        self._state = state
        self._threads = threads
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def shown_or_acknowledged(self, request: Request) -> Response:
        if not request.state.caller.reads_switch:
            raise HTTPException(HTTPStatus.FORBIDDEN, request.state.caller.only_reads)
        if request.method == "POST":
            now, seen = await self._acknowledge(request)
            return answer(HTTPStatus.OK, {**_shown(now), "seen": seen.isoformat()})
        return answer(HTTPStatus.OK, _shown(await self._get()))

    async def left(self, request: Request) -> Response:
        instance = str(request.path_params["instance"])
        _allow(request, instance)
        seen = _seen(request)

        def leave(connection: sa.Connection) -> tuple[bool, bool]:
            left = switch.forget_application(connection, self._migration, instance, seen)
            return left, seen is not None and switch.knows(connection, self._migration, instance)

        left, known = await self._ask(leave)
        if known and not left:
            raise HTTPException(HTTPStatus.CONFLICT, "the instance acknowledged again since: its row stays")
        if not left:
            raise HTTPException(HTTPStatus.NOT_FOUND, "no such instance")
        return answer(HTTPStatus.OK, {})

    async def _get(self) -> switch.Switch:
        return await self._ask(lambda connection: switch.get(connection, self._migration))

    async def _acknowledge(self, request: Request) -> tuple[switch.Switch, datetime]:
        instance, version = _acknowledgement(await request.body())
        _allow(request, instance)

        def acknowledge(connection: sa.Connection) -> tuple[switch.Switch, datetime | None]:
            now = switch.get(connection, self._migration)
            if not 0 < version <= now.version:
                return now, None
            return now, switch.acknowledge(connection, self._migration, instance, version)

        now, seen = await self._ask(acknowledge)
        if seen is None:
            told = f"the switch has not had that version; it has {now.version}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, told)
        return now, seen

    async def _ask(self, question: Callable[[sa.Connection], T]) -> T:
        """In a thread and a transaction. Raises HTTPException where the state database does not answer."""
        try:
            async with asyncio.timeout(STATE_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, _SILENT) from None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, question)
        except SQLAlchemyError as error:
            log.warning(_SILENT, error=str(getattr(error, "orig", None) or type(error).__name__))
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, _SILENT) from None
        finally:
            self._turn.release()

    def _asked(self, question: Callable[[sa.Connection], T]) -> T:
        with self._state.begin() as connection:
            return question(connection)


def _shown(now: switch.Switch) -> dict[str, Any]:
    return {"version": now.version, "side": now.side.value, "writes": now.writes.value}


def _seen(request: Request) -> datetime | None:
    """When the row was written that a process means which ends; None where it does not say. Raises HTTPException."""
    if (given := request.query_params.get("seen")) is None:
        return None
    try:
        seen = datetime.fromisoformat(given)
        if seen.tzinfo is None:
            return seen
    except ValueError:
        pass
    raise HTTPException(HTTPStatus.BAD_REQUEST, "seen: the time that the last acknowledgement was answered is needed")


def _allow(request: Request, instance: str) -> None:
    """Raises HTTPException where the caller may not speak for an instance."""
    caller: Caller = request.state.caller
    if told := caller.refusal(instance):
        raise HTTPException(HTTPStatus.FORBIDDEN, told)


def _acknowledgement(body: bytes) -> tuple[str, int]:
    """Instance and version. Raises HTTPException."""
    if not 0 < len(body) <= BODY_BYTES:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"a body of up to {BODY_BYTES} bytes is needed")
    try:
        given: Any = json.loads(body)
        instance, version = given["instance"], given["version"]
        right = len(instance.encode()) > 0 and len(instance) <= INSTANCE and type(version) is int
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise HTTPException(HTTPStatus.BAD_REQUEST, _WANTED)
    return instance, version
