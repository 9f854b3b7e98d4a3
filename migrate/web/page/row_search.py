"""One row looked for by table and key, for a person at the page: what `migrate explain` prints."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from migrate.commands import explain
from migrate.commands.told_row import lines_of
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.state import leading
from migrate.state import migration as migrations
from migrate.target.stored_plan import stored_plan
from migrate.web.latest import in_thread
from migrate.web.page.render import RowAsked
from migrate.web.status_reader import reason

log = structlog.get_logger("migrate.web")

MESSAGES = 20_000
"""Of the row's partition, the last ones that are read, as the command does."""
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RowFound:
    """lines: what is known; or a problem, with the way out."""

    lines: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""


class RowSearch:
    """One search at a time: each reads sources, targets and Kafka."""

    def __init__(self, settings: Settings, state: sa.Engine) -> None:
        self._settings = settings
        self._state = state
        self._running: asyncio.Future[RowFound] | None = None

    async def find(self, asked: RowAsked) -> RowFound:
        if self._running is not None and not self._running.done():
            return RowFound(problem="another search runs", hint="try again when it has ended")
        self._running = in_thread(lambda: self._find(asked), "explain")
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.shield(self._running)
        except TimeoutError:
            hint = "the command `migrate explain` has no limit of time"
            return RowFound(problem=f"the servers did not answer within {_SECONDS:g} s", hint=hint)

    def tables(self, now: Any) -> list[str]:
        """Names to choose from, of a snapshot."""
        return [name.rpartition("/")[2] for name in now.tables]

    def _find(self, asked: RowAsked) -> RowFound:
        try:
            found = explain.explain(
                self._of_who_leads(), self._state, asked.table, asked.key, asked.source or None, MESSAGES
            )
        except MigrateError as error:
            return RowFound(problem=error.message, hint=error.hint)
        except SQLAlchemyError as error:
            return RowFound(problem=reason(error))
        except Exception:
            log.exception("a search met a defect")
            return RowFound(problem="a defect of this program; its log says where")
        return RowFound(tuple(lines_of(found)))

    def _of_who_leads(self) -> Settings:
        """Of the stream whose source applications write at, which is the side that a row is compared with."""
        with self._state.connect() as connection:
            if leading.leads(connection, self._settings.name) or migrations.reverse_of(connection, self._settings.name):
                return self._settings
        return reversed_settings(self._settings, stored_plan(self._settings, self._state))
