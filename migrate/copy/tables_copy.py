"""The copies of many small tables of one source in step, so that each costs no transaction and no job of its own.

Every step is done for all of them together: one transaction of the state, one in each target database. What is fenced
and in which order is as for one table (`TableSteps`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from migrate.chunks.outcome import AttemptEnd, Problem, tell_not_copied
from migrate.chunks.retry import Retries
from migrate.chunks.sessions import Sessions
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy
from migrate.model.chunk import Chunk
from migrate.model.errors import OwnershipLost, ServerError
from migrate.mysql.connection import Connection
from migrate.settings import Settings
from migrate.target.chunk_fence import Superseded
from migrate.target.routing import TargetDatabase

_MOST_CHUNKS = 3
"""Of a table that is small by old statistics: with more it is left, to be copied like any other."""
Handed = tuple[TableCopy, Attempt]
"""A chunk to be copied now, and of which table."""


class TablesCopy:
    """Call `begin`, then `wave` and `settle`, then `finish` for those that `ended` gives.

    active: those that are being copied. failed: those that cannot be, each with its error; they are left out from then
    on. So is one that is not small after all, which `TableCopy` goes on with.
    """

    def __init__(
        self,
        settings: Settings,
        copies: Sequence[TableCopy],
        state: sa.Engine,
        sessions: Sessions,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.failed: dict[TableCopy, Exception] = {}
        self._state = state
        self._sessions = sessions
        self.active = sorted(copies, key=lambda copy: copy.planned.table.id)  # rows are locked in one order
        self._waiting = list[TableCopy]()  # with chunks to begin, perhaps
        self._out: dict[TableCopy, int] = {}  # chunks that are being copied
        what = f"copy of {len(copies)} tables from {self.active[0].planned.table.full_name} on"
        self._retries = Retries(settings, what, self._forget, sleep)

    def begin(self) -> list[TableCopy]:
        """Start or resume; returns those that are copied already.

        Raises: as `TableCopy.begin` what concerns all of them; of one table it is in `failed`.
        """
        done: list[TableCopy] = []

        def enter(connection: sa.Connection, copy: TableCopy) -> None:
            if not copy.enter(connection):
                done.append(copy)

        with self._state.begin() as connection:
            self.active[0].refuse(connection)
            for copy in list(self.active):
                with self._alone(copy), connection.begin_nested():
                    enter(connection, copy)
        self.active = [copy for copy in self.active if copy not in done]
        self._above_all(lambda: self._open_tables(self.active))
        for copy in list(self.active):
            with self._alone(copy):
                copy.go_on()
        self._waiting = list(self.active)
        return done

    @property
    def goes_on(self) -> bool:
        """Whether a table may have chunks to begin."""
        return bool(self._waiting)

    def wait_for_replay(self) -> None:
        """Until the source is not being replayed."""
        if self.active:
            self.active[0].wait_for_replay()

    def replaying(self) -> str:
        """As `TableCopy.replaying`."""
        return self.active[0].replaying() if self.active else ""

    def wave(self, chunks: int, most_rows: int | None = None) -> list[Handed]:
        """Up to so many chunks to copy next, one of a table, their attempts opened in every target database."""
        chosen: dict[TableCopy, list[Chunk]] = {}
        while self._waiting and len(chosen) < chunks:
            copy = self._waiting.pop(0)
            with self._alone(copy):
                if ranges := self._retries.call(lambda copy=copy: copy.choose(1, most_rows)):  # type: ignore[misc]
                    chosen[copy] = ranges
        attempts: dict[TableCopy, list[Attempt]] = {}

        def note(connection: sa.Connection, copy: TableCopy) -> None:
            attempts[copy] = copy.note(connection, chosen[copy])

        def open_() -> None:
            self._in_state(sorted(chosen, key=lambda copy: copy.planned.table.id), note)
            self._at_targets(list(attempts), lambda session, copy: copy.open_chunks(session, attempts[copy]))

        self._above_all(open_)
        for copy in attempts:
            if copy.opened_again:
                copy.go_on_again()
        for copy, some in attempts.items():
            copy.hand_out(some)
            self._out[copy] = len(some)
        return [(copy, one) for copy, some in attempts.items() for one in some]

    def settle(self, results: Sequence[tuple[TableCopy, ChunkResult]]) -> None:
        """Book what became of handed-out chunks. Raises: OwnershipLost; ServerError when nothing succeeded for long."""
        problems: list[Problem] = []
        succeeded = False
        of: dict[TableCopy, list[ChunkResult]] = {}
        for copy, result in results:
            of.setdefault(copy, []).append(result)

        def book(connection: sa.Connection, copy: TableCopy) -> None:
            nonlocal succeeded
            met, done = copy.book(connection, of[copy])
            succeeded = succeeded or done
            if refused := next((one for one in met if one.end is AttemptEnd.FAILED), None):
                self._fail(copy, refused.error())
            else:
                problems.extend(met)

        for copy, some in of.items():
            self._out[copy] -= len(some)
        self._in_state(sorted(of, key=lambda copy: copy.planned.table.id), book)
        self._waiting += [copy for copy in of if copy in self.active and copy not in self._waiting]
        for copy in [one for one in self._waiting if one.chunks_planned > _MOST_CHUNKS and not self._out.get(one)]:
            self._waiting.remove(copy)
            self.active.remove(copy)
        self._retries.judge(problems, succeeded=succeeded)

    def ended(self) -> list[TableCopy]:
        """Those whose chunks are all done, each told once; to be called when `wave` gave none, or fewer than asked."""
        return [copy for copy in self.active if copy not in self._waiting and not self._out.get(copy)]

    def finish(
        self, copies: Sequence[TableCopy], also: Callable[[sa.Connection, TableCopy], None]
    ) -> Sequence[TableCopy]:
        """Close the chunk fences of these; returns those that are done: of others a target database lost chunks, which
        `wave` gives again. also: done in the last transaction. Raises OwnershipLost."""
        self._at_targets(copies, lambda session, copy: copy.compare_fences(session))
        if lost := [copy for copy in copies if copy.lost]:
            self._in_state(lost, lambda connection, copy: copy.take_back(connection))
            self._above_all(lambda: self._open_tables(lost))
            for copy in lost:
                copy.go_on_again()
            self._waiting += lost
            copies = [copy for copy in copies if copy not in lost]
        for copy in copies:
            copy.look_at_end()
        self._in_state(copies, lambda connection, copy: copy.end(connection))
        self._at_targets(copies, lambda session, copy: copy.close_fence(session))

        def end(connection: sa.Connection, copy: TableCopy) -> None:
            copy.ended(connection)
            also(connection, copy)

        self._in_state(copies, end)
        self.active = [copy for copy in self.active if copy not in copies]
        return copies

    # -- inside

    def _open_tables(self, copies: Sequence[TableCopy]) -> None:
        self._at_targets(copies, lambda session, copy: copy.open_fence(session))

    def _above_all(self, step: Callable[[], None]) -> None:
        """Do a step that opens attempts: again, with later ones, where a target knows those."""
        while True:
            try:
                return step()
            except Superseded as error:
                (copy,) = [one for one in self.active if one.planned.table.id == error.id]
                with self._state.begin() as connection:
                    copy.rise_above(connection, error)

    def _in_state(self, copies: Sequence[TableCopy], step: Callable[[sa.Connection, TableCopy], None]) -> None:
        """A step of each, in one transaction."""
        if copies:
            with self._state.begin() as connection:
                for copy in copies:
                    step(connection, copy)

    def _at_targets(self, copies: Sequence[TableCopy], step: Callable[[Connection, TableCopy], object]) -> None:
        """A step of each, in one transaction a database; the state's locks are let go of before."""
        here: dict[TargetDatabase, list[TableCopy]] = {}
        for copy in copies:
            if copy in self.active:
                for database in copy.planned.databases:
                    here.setdefault(database, []).append(copy)
        for database in sorted(here):
            self._retries.call(lambda database=database: self._at_target(database, here, step))  # type: ignore[misc]

    def _at_target(
        self,
        database: TargetDatabase,
        here: Mapping[TargetDatabase, Sequence[TableCopy]],
        step: Callable[[Connection, TableCopy], object],
    ) -> None:
        session = self._sessions.targets.get(database)
        with session.transaction():
            for copy in here[database]:
                step(session, copy)

    @contextmanager
    def _alone(self, copy: TableCopy) -> Iterator[None]:
        """What only this table meets is no reason to leave the others."""
        try:
            yield
        except (ServerError, OwnershipLost, DBAPIError):
            raise
        except Exception as error:
            self._fail(copy, error)

    def _fail(self, copy: TableCopy, error: Exception) -> None:
        tell_not_copied(copy.planned.table.full_name, error)
        self.failed[copy] = error
        self.active = [one for one in self.active if one is not copy]

    def _forget(self) -> None:
        self._sessions.close()
        for copy in self.active:
            copy.forget_pages()
