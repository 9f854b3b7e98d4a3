"""Reads the status for all that show it: the page and /metrics are made of the same look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError

from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.state import database
from migrate.status import unlike_tables
from migrate.status.look import Look, look

log = structlog.get_logger("migrate.web")


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A look, or why there is none. at: when it ended, UTC, by the state server; without a look, by this machine."""

    look: Look | None
    problem: str
    at: datetime


class StatusReader:
    """Looks again and again."""

    def __init__(self, settings: Settings, state: sa.Engine) -> None:
        self._settings = settings
        self._state = state
        self._unlike = unlike_tables.kept()

    def read(self) -> Seen:
        """Now. Raises nothing: also a defect is an answer to whoever waits."""
        told = ""
        try:
            found = look(self._settings, self._state, self._unlike)
            with self._state.connect() as connection:
                now = connection.execute(sa.select(database.now)).scalar_one()
            return Seen(found, "", now.replace(tzinfo=UTC))
        except (MigrateError, SQLAlchemyError) as error:
            told = reason(error)
            log.warning("the status cannot be read", error=told)
        except Exception:
            told = "a defect of this program; its log says where"
            log.exception("the status met a defect")
        return Seen(None, told, datetime.now(UTC))


def reason(error: MigrateError | SQLAlchemyError) -> str:
    """In a line, without the parameters of a statement."""
    return error.message if isinstance(error, MigrateError) else str(getattr(error, "orig", None) or error)
