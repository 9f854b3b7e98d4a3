"""The page's paths, for tokens that read the page; one of them acts, for those of operators.

GET /                   every migration of the state database
GET /m/NAME             one migration; ?span=1h, 24h or 7d
GET /m/NAME/explain     a row by ?table= and &key=
GET, POST /m/NAME/act   what an operator does
GET /live, /m/NAME/live, /m/NAME/act/live  what changes of these, while they are open
GET /static/…           the style and the script
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.state.status_history import PastStatus
from migrate.status.verdict import Verdict
from migrate.web.access import Caller
from migrate.web.connection import HEADERS
from migrate.web.front import BODY_BYTES
from migrate.web.latest import WAIT_SECONDS, Latest, OncePer
from migrate.web.page import details, render
from migrate.web.page.actions import Actions, ActionsSeen, Refused
from migrate.web.page.history import SAMPLE_SECONDS, History, KnownMigration, every_migration, of_migration, sample
from migrate.web.page.live import Streams, Unreadable, parts_it_has
from migrate.web.page.plots import Span, rates
from migrate.web.page.render import MigrationRow, Parts, RowAsked
from migrate.web.page.row_search import MESSAGES, RowSearch
from migrate.web.page.view import View
from migrate.web.status_reader import Seen, reason

log = structlog.get_logger("migrate.web")

INTERVAL_SECONDS = 5.0
"""Between two looks while any page is open."""
_OTHERS = 8
"""Migrations besides this server's own whose history is kept for those who look next."""
SAFE = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: nothing runs that the server did not send as a file, and no other site shows or reads the page."""
_OWN_SITE = ("none", "same-origin")
"""Of Sec-Fetch-Site, which browsers send: what was typed, and what this page asks for."""
_HTML = "text/html; charset=utf-8"
_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Pages:
    """The views of what `looks` sees, each made once for a look however many ask for it."""

    def __init__(self, settings: Settings, config: Path, state: sa.Engine, looks: Latest[Seen]) -> None:
        """config: the file that `settings` are from."""
        self._name = settings.name
        self._settings = settings
        self._state = state
        self._looks = looks
        self._history = History(settings, state)
        self._views = OncePer(self._view, "page")
        self._known = Latest(lambda: every_migration(state), "migrations")
        self._others: dict[str, Latest[Sequence[PastStatus]]] = {}
        self._search = RowSearch(settings, state)
        self._actions = Actions(settings, config, state)
        self.streams = Streams(INTERVAL_SECONDS)

    @property
    def routes(self) -> list[Route]:
        paths: dict[str, _Handler] = {
            "/": self._overview,
            "/live": self._live_overview,
            "/m/{name}": self._migration,
            "/m/{name}/live": self._live_migration,
            "/m/{name}/explain": self._explain,
            "/m/{name}/act": self._act,
            "/m/{name}/act/live": self._live_actions,
            "/static/{file}": self._static,
        }
        reading = [Route(path, _for_readers(handler), methods=["GET"]) for path, handler in paths.items()]
        return [*reading, Route("/m/{name}/act", _for_readers(self._begin), methods=["POST"])]

    async def keep_history(self) -> None:
        """Note a look each minute, until cancelled: whether anybody watches or not."""
        while True:
            with suppress(TimeoutError):
                seen = await self._looks.get(INTERVAL_SECONDS)
                if seen.look is not None:
                    await asyncio.to_thread(self._note, seen)
            await asyncio.sleep(SAMPLE_SECONDS)

    def _note(self, seen: Seen) -> None:
        try:
            if seen.look is not None:
                self._history.note(seen.look)
        except (MigrateError, SQLAlchemyError) as error:
            log.warning("the status of this minute cannot be kept", error=reason(error))

    async def _overview(self, _request: Request) -> Response:
        try:
            parts = await self._parts_of_list()
        except (TimeoutError, Unreadable) as error:
            return _problem(error)
        return _html(render.overview(parts, INTERVAL_SECONDS))

    async def _migration(self, request: Request) -> Response:
        name, span = str(request.path_params["name"]), Span.of(request.query_params.get("span", ""))
        try:
            if name != self._name:
                known = next((one for one in await self._every() if one.name == name), None)
                if known is None:
                    return _html(render.missing(name), HTTPStatus.NOT_FOUND)
                return _html(render.other(known, self._name, await self._past_of(name), span))
            view = await self._now(span)
        except (TimeoutError, Unreadable) as error:
            return _problem(error)
        except (MigrateError, SQLAlchemyError) as error:
            return _problem(Unreadable(reason(error)))
        return _html(render.migration(name, view, acts=_caller(request).acts))

    async def _live_overview(self, request: Request) -> Response:
        return self._stream(request, self._parts_of_list)

    async def _live_migration(self, request: Request) -> Response:
        self._refuse_other(request)
        span = Span.of(request.query_params.get("span", ""))

        async def read() -> Parts:
            return render.parts_of(await self._now(span))

        return self._stream(request, read)

    async def _explain(self, request: Request) -> Response:
        self._refuse_other(request)
        if request.headers.get("sec-fetch-site", "none") not in _OWN_SITE:
            raise HTTPException(HTTPStatus.FORBIDDEN, "a search begins at this page, not at another site")
        asked = RowAsked(*(request.query_params.get(name, "").strip() for name in ("table", "key", "source")))
        tables: list[str] = []
        with suppress(TimeoutError):
            seen = await self._looks.get(INTERVAL_SECONDS)
            tables = self._search.tables(seen.look.now) if seen.look is not None else []
        if not asked.table or not asked.key:
            return _html(render.row_search(self._name, asked, tables, MESSAGES))
        found = await self._search.find(asked)
        told = {"lines": found.lines, "problem": found.problem, "hint": found.hint}
        return _html(render.row_search(self._name, asked, tables, MESSAGES, **told))  # type: ignore[arg-type]

    async def _act(self, request: Request) -> Response:
        self._refuse_other(request)
        return await self._shown_actions(_operator(request), HTTPStatus.OK)

    async def _begin(self, request: Request) -> Response:
        self._refuse_other(request)
        operator, body = _operator(request), await request.body()
        if len(body) > BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has {BODY_BYTES} bytes at most")
        try:
            await self._actions.begin(operator, self._actions.asked(request, body, operator))
        except Refused as refused:
            return await self._shown_actions(operator, HTTPStatus.CONFLICT, str(refused))
        except (MigrateError, SQLAlchemyError, OSError) as error:
            told = f"the action is not begun: {error if isinstance(error, OSError) else reason(error)}"
            return await self._shown_actions(operator, HTTPStatus.SERVICE_UNAVAILABLE, told)
        to = {"Location": f"{render.base(self._name)}/act"}  # so that to load it again sends nothing again
        return Response("", HTTPStatus.SEE_OTHER, {**HEADERS, **SAFE, **to})

    async def _live_actions(self, request: Request) -> Response:
        self._refuse_other(request)
        _operator(request)

        async def read() -> Parts:
            return render.parts_of_actions(await self._done())

        return self._stream(request, read)

    async def _shown_actions(self, operator: str, status: HTTPStatus, refused: str = "") -> Response:
        try:
            parts = render.parts_of_actions(await self._done())
        except Unreadable as error:
            return _problem(error)
        return _html(render.actions(self._name, parts, self._actions.mark(operator), refused), status)

    async def _done(self) -> ActionsSeen:
        try:
            return await self._actions.done()
        except SQLAlchemyError as error:
            raise Unreadable(reason(error)) from error

    async def _static(self, request: Request) -> Response:
        name = str(request.path_params["file"])
        if name not in render.STATIC:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(render.static(name), HTTPStatus.OK, {**HEADERS, **SAFE, "Content-Type": render.STATIC[name]})

    def _stream(self, request: Request, read: Callable[[], Coroutine[Any, Any, Parts]]) -> Response:
        found = self.streams.answer(read, {**HEADERS, **SAFE}, parts_it_has(request))
        if found is None:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        return found

    def _refuse_other(self, request: Request) -> None:
        if request.path_params["name"] != self._name:
            raise HTTPException(HTTPStatus.NOT_FOUND)

    async def _now(self, span: Span) -> View:
        """Raises TimeoutError, Unreadable."""
        seen = await self._looks.get(INTERVAL_SECONDS)
        if seen.look is None:
            raise Unreadable(seen.problem)
        try:
            return replace(await self._views.of(seen), span=span)
        except (MigrateError, SQLAlchemyError) as error:
            raise Unreadable(reason(error)) from error

    def _view(self, seen: Seen) -> View:
        """In a thread."""
        if seen.look is None:
            raise Unreadable(seen.problem)
        found = details.read(self._settings, self._state, seen.look)
        return View(seen.look, seen.at, found, self._history.read(), interval=INTERVAL_SECONDS)

    async def _past_of(self, name: str) -> Sequence[PastStatus]:
        """Of another migration, which is in the list. Raises TimeoutError, and what reading it raises."""
        if name not in self._others and len(self._others) >= _OTHERS:
            del self._others[next(iter(self._others))]
        found = self._others.setdefault(name, Latest(lambda: of_migration(self._state, name), "history"))
        return await found.get(INTERVAL_SECONDS)

    async def _every(self) -> list[KnownMigration]:
        try:
            return await self._known.get(INTERVAL_SECONDS)
        except (MigrateError, SQLAlchemyError) as error:
            raise Unreadable(reason(error)) from error

    async def _parts_of_list(self) -> Parts:
        """Raises TimeoutError, Unreadable."""
        known, view, problem = await self._every(), None, ""
        try:
            view = await self._now(Span.DAY)
        except Unreadable as error:
            problem = str(error)
        rows = [_own_row(view) if view and one.name == self._name else _row(one) for one in known]
        return render.parts_of_list(rows, self._name, problem)


def _own_row(view: View) -> MigrationRow:
    now, ended, name = sample(view.look), view.details.ended, view.now.migration
    if ended is not None:
        judged = Verdict.PERSON if ended["next"] else Verdict.FINE
        held = len(ended["holds_back"])
        return MigrationRow(name, now.stage, None, None, held, judged.name.lower(), ended["next"], view.at, True)
    stage, held = now.stage or "of a reverse stream", len(view.look.held)
    return MigrationRow(name, stage, now.lag_seconds, view.rate, held, now.verdict, now.next_command, view.at, True)


def _row(one: KnownMigration) -> MigrationRow:
    """Of another migration: what its own web server noted last."""
    if not one.last or one.is_finished:
        stage = "finished" if one.is_finished else "of a reverse stream" if one.is_reverse else "?"
        return MigrationRow(one.name, stage, None, None, None, "", "", None, False)
    at, last, between = one.last[-1].at, one.last[-1].sample, rates(one.last)
    stage, rate = last.stage or "of a reverse stream", between[-1].value if between else None
    return MigrationRow(
        one.name, stage, last.lag_seconds, rate, last.blockers, last.verdict, last.next_command, at, False
    )


def _for_readers(handler: _Handler) -> _Handler:
    async def checked(request: Request) -> Response:
        """Raises HTTPException."""
        if not _caller(request).reads_page:
            raise HTTPException(HTTPStatus.FORBIDDEN, "this token does not read the page; use one of web.readers")
        return await handler(request)

    return checked


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def _operator(request: Request) -> str:
    """The name of whoever acts. Raises HTTPException."""
    if not _caller(request).acts:
        why = "this token only reads: an operator's acts (web.operators), where web.actions is true"
        raise HTTPException(HTTPStatus.FORBIDDEN, why)
    return _caller(request).name


def _problem(error: TimeoutError | Unreadable) -> Response:
    told = str(error) if isinstance(error, Unreadable) else f"the servers did not answer within {WAIT_SECONDS:g} s"
    return _html(render.problem(told, datetime.now(UTC), INTERVAL_SECONDS), HTTPStatus.SERVICE_UNAVAILABLE)


def _html(body: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(body, status, {**HEADERS, **SAFE, "Content-Type": _HTML})
