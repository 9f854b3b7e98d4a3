"""The copy of one table as its driver sees it: phase, chunks, attempts. Spark is not known here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from migrate.copy.attempts import Attempt as Attempt
from migrate.copy.attempts import ChunkResult as ChunkResult
from migrate.copy.bounds import refuse_before_incremental as refuse_before_incremental
from migrate.copy.table_steps import TableSteps
from migrate.model.errors import ServerError
from migrate.model.stopping import stop_on_signals
from migrate.state import replay
from migrate.target.chunk_fence import Superseded

log = structlog.get_logger("migrate.copy")
T = TypeVar("T")
_POLL = 1.0


class TableCopy(TableSteps):
    """Plans, hands out and books the chunks of one table. Call `begin`, then `wave` and `settle`, then `finish`.

    While the source is `replaying` no new wave is to be begun (invariant fenced-writer).
    """

    def begin(self) -> bool:
        """Start or resume; False when the table is copied already.

        From here on its chunk fence stands open in every target database. Raises: PreflightError when the
        incremental has not begun (invariant capture-before-copy), when applications are at the targets, and while a
        cutover is under way; ConfigError when the rule changed since the copy began.
        """
        with self._state.begin() as connection:
            self.refuse(connection)
            if not self.enter(connection):
                return False
        self._retries.call(self._open_table)
        self.go_on()
        return True

    def replaying(self) -> str:
        """The place up to which the source is being replayed; "" when it is not."""
        source = self.planned.table.source
        return replay.sources(self._state, self._settings.name, [source]).get(source, "")

    def wait_for_replay(self) -> None:
        """Wait until the source is not being replayed, and say so once. Raises ServerError when asked to stop."""
        if not (until := self.replaying()):
            return
        table, source = self.planned.table.full_name, self.planned.table.source
        log.warning("the copy waits for a replay", table=table, source=source, until=until)
        with stop_on_signals() as stop:
            while self.replaying():
                if stop.wait(_POLL):
                    raise ServerError(
                        f"copy of {table}: stopped while it waited for source '{source}' to be replayed up to {until}",
                        hint="run the copy again once the publisher is there; it continues from its finished chunks",
                    )
        log.info("the replay is over, the copy goes on", table=table, source=source)

    def wave(self, size: int, most_rows: int | None = None) -> list[Attempt]:
        """Up to `size` chunks to copy next, their attempts opened in every target database; none when all are out.

        most_rows: what those that are planned now have at most.
        """
        self._most_rows = most_rows
        return self._retries.call(lambda: self._wave(size))

    def settle(self, results: Iterable[ChunkResult]) -> None:
        """Book what became of handed-out chunks; those to be tried again are handed out again.

        Raises: StopError or OwnershipLost as a task met it; ServerError when nothing succeeded for many rounds.
        """
        with self._state.begin() as connection:
            problems, done = self.book(connection, results)
        self._retries.judge(problems, succeeded=done)

    def finish(self) -> bool:
        """Close the table's chunk fence in every target database; deletes leave no ledger rows from here on.

        False, and it is open: a target database lost chunks that were done, and they are to be copied again. Raises:
        OwnershipLost when another run began meanwhile.
        """
        self._retries.call(self._compare_fences)
        if self.lost:
            with self._state.begin() as connection:
                self.take_back(connection)
            self._retries.call(self._open_table)
            self.go_on_again()
            return False
        self.look_at_end()
        with self._state.begin() as connection:
            self.end(connection)
        self._retries.call(self._close_table)
        with self._state.begin() as connection:
            self.ended(connection)
        return True

    # -- steps

    def _open_table(self) -> None:
        def open_() -> None:
            for database in self.planned.databases:
                session = self._sessions.targets.get(database)
                with session.transaction():
                    self.open_fence(session)

        self._above_all(open_)

    def _above_all(self, step: Callable[[], T]) -> T:
        """Do a step that opens attempts: again, with later ones, where a target knows those."""
        while True:
            try:
                return step()
            except Superseded as error:
                with self._state.begin() as connection:
                    self.rise_above(connection, error)

    def _close_table(self) -> None:
        for database in self.planned.databases:
            session = self._sessions.targets.get(database)
            with session.transaction():
                self.close_fence(session)

    def _compare_fences(self) -> None:
        for database in self.planned.databases:
            self.compare_fences(self._sessions.targets.get(database))

    def _wave(self, size: int) -> list[Attempt]:
        if not (chosen := self.choose(size, self._most_rows)):
            return []

        def open_() -> list[Attempt]:
            with self._state.begin() as connection:
                attempts = self.note(connection, chosen)
            for database in self.planned.databases:
                session = self._sessions.targets.get(database)
                with session.transaction():
                    self.open_chunks(session, attempts)
            return attempts

        attempts = self._above_all(open_)
        if self.opened_again:
            self.go_on_again()
        self.hand_out(attempts)
        return attempts
