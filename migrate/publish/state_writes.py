"""The state transactions of a publisher, counted beside its position: a state that was put back has fewer of them.

What a publisher notes (a statement, a row left out, a role) is committed before its position moves. A state that loses
its last commits loses the note, and the publisher, which is behind that change by now, never meets it again. So nothing
counts as equal from there on, and the publisher ends: started again from the state's own position, it notes all again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, cast

import sqlalchemy as sa
import structlog

from migrate.model.errors import ServerError
from migrate.state import compared
from migrate.state import position as positions
from migrate.state.compared import Because
from migrate.state.database import PUT_BACK, in_transaction
from migrate.state.lease import Held, Leases
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")
T = TypeVar("T")


class StateWrites:
    """Of the publisher that holds a lease. For one thread.

    count: of its transactions, as it left it; None before its first position. began: the position that this process
    began with.
    """

    def __init__(
        self, migration: str, source: str, state: sa.Engine, leases: Leases, held: Held, stop: threading.Event
    ) -> None:
        self._migration = migration
        self._source = source
        self._state = state
        self._leases = leases
        self._held = held
        self._stop = stop
        self._put_back = False
        self.count: int | None = None
        self.began: Position | None = None

    def run(self, action: Callable[[sa.Connection], T]) -> T:
        """Run `action` in a state transaction that holds the lease, names the count and raises it.

        Raises: ServerError when the state was put back, and as `in_transaction`; OwnershipLost; what `action` raises.
        """
        self._refuse()

        def counted(connection: sa.Connection) -> tuple[bool, T | None]:
            self._leases.still_ours(connection, self._held)
            if self.count is None:  # the action stores the first position
                result = action(connection)
                if not self._is_counted(connection, 0):
                    raise ServerError(f"source '{self._source}' has a position already", hint="start again")
                return True, result
            if self._is_counted(connection, self.count):
                return True, action(connection)
            self._note_put_back(connection)
            return False, None

        counts, result = in_transaction(self._state, counted, self._stop)
        if not counts:
            self._put_back = True
            self._refuse()
        self.count = (self.count or 0) + 1
        return cast("T", result)

    def look(self, action: Callable[[sa.Connection], T]) -> T:
        """Run `action`, which only reads, and compare the count. Raises as `run`."""
        self._refuse()

        def both(connection: sa.Connection) -> tuple[int | None, T]:
            return positions.writes(connection, self._migration, self._source), action(connection)

        found, result = in_transaction(self._state, both, self._stop)
        if found != self.count:
            self.run(lambda _connection: None)  # once more with the lease: another process may have taken over
        return result

    def forget_lost(self) -> None:
        """The state was put back before this process began: nothing counts as equal."""
        in_transaction(self._state, self._note_put_back, self._stop)

    def _note_put_back(self, connection: sa.Connection) -> None:
        compared.forget(connection, self._migration, Because.STATE)
        log.error("the state database was put back", source=self._source, had=self.count)
        if self.began is not None and positions.writes(connection, self._migration, self._source) is None:
            positions.save(connection, self._migration, self.began)  # else the next one begins where the source is then

    def _is_counted(self, connection: sa.Connection, expected: int) -> bool:
        return positions.count(connection, self._migration, self._source, expected)

    def _refuse(self) -> None:
        if self._put_back:
            raise ServerError(
                f"{PUT_BACK}: what source '{self._source}' noted there since is noted again",
                hint="the publisher starts again from the position that the state has; then `migrate verify`",
            )
