"""Unix time by the state server, for what processes on several machines must agree on: their clocks may be wrong."""

from __future__ import annotations

import time
from datetime import UTC

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.model.errors import ServerError
from migrate.mysql.errors import text
from migrate.state.database import now

log = structlog.get_logger("migrate.state")
_EVERY = 60.0
_AGAIN = 5.0


class StateClock:
    """The state server's time, asked now and then, and carried on by our monotonic clock in between.

    A state server whose clock is set while delayed deletes wait loses none. Set forward, they come back early by as
    much; set back, late by as much, and a drain waits so long. Early does no harm: the ledger and the chunk fence judge
    a delete that is back, and while its copy is open it waits again. One process notices up to `every` seconds after
    another. For one thread at a time.
    """

    def __init__(self, state: sa.Engine, every: float = _EVERY) -> None:
        """Args: every: seconds for which an answer of the server is carried on."""
        self._state = state
        self._every = every
        self._ahead: float | None = None  # seconds by which Unix time is ahead of our monotonic clock
        self._ask_at = 0.0

    def now(self) -> float:
        """Seconds since 1970. A server that is away is asked again after 5 s; its last answer counts until then.

        Raises: ServerError when it never answered.
        """
        if self._ahead is None or time.monotonic() >= self._ask_at:
            self._ahead = self._ask()
        return time.monotonic() + self._ahead

    def _ask(self) -> float:
        try:
            with self._state.connect() as connection:
                told = connection.execute(sa.select(now)).scalar_one()
        except DBAPIError as error:
            reason = text(error.orig or error)
            if self._ahead is None:
                raise ServerError(f"state database: its clock is not known: {reason}", hint="tried again") from error
            log.warning("the state's clock did not answer, going on by its last answer", error=reason)
            self._ask_at = time.monotonic() + min(_AGAIN, self._every)
            return self._ahead
        here = time.monotonic()
        self._ask_at = here + self._every
        return float(told.replace(tzinfo=UTC).timestamp()) - here
