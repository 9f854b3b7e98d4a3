"""The copy of one table in steps: what each does in the state, and in one target database.

A step is done for one table (`TableCopy`), or for many small ones in the same transactions (`TablesCopy`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa
import structlog

from migrate.chunks.outcome import Problem
from migrate.chunks.retry import Retries
from migrate.chunks.sessions import Sessions
from migrate.copy import conflicts, recopy
from migrate.copy.attempts import Attempt, ChunkResult
from migrate.copy.bounds import log_ends_at, refuse_before_incremental, refuse_before_its_place
from migrate.copy.chunk_queue import ChunkQueue
from migrate.copy.recopy import Recopy
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ConfigError, OwnershipLost
from migrate.mysql.connection import Connection
from migrate.settings import Settings
from migrate.state import chunks, copy_progress, leading, phase, skipped_key
from migrate.state import part as parts
from migrate.state.chunks import ChunkCopy, ChunkState, CopyCounts
from migrate.state.part import Part
from migrate.state.phase import Phase, TablePhase
from migrate.target import chunk_fence, ledger, outdated
from migrate.target.chunk_fence import WHOLE_TABLE, Superseded
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.copy")


class TableSteps:
    """`refuse` and `enter`, `open_fence` in every target database, `go_on`; then for each wave `choose`, `note`,
    `open_chunks`, `hand_out` and `book`; then `compare_fences` in every target database, and where one lost chunks
    `take_back`, and on; then `end`, `close_fence` in every target database, `ended`.

    counts, chunks_done, chunks_planned: so far, with what an earlier run did; estimate: rows of the table as the
    source's statistics say; places: rows that went to each, as `counts`; aside: keys that a person said to set aside
    if they are refused, and why.
    """

    def __init__(
        self,
        settings: Settings,
        planned: PlannedTable,
        state: sa.Engine,
        sessions: Sessions,
        sleep: Callable[[float], None] = time.sleep,
        once_more: Recopy | None = None,
    ) -> None:
        """once_more: of what was copied already."""
        self.planned = planned
        self.counts = CopyCounts()
        self.aside: dict[Key, str] = {}
        self.chunks_done = 0
        self.places = {str(place): 0 for place in planned.places}
        self._settings = settings
        self._state = state
        self._sessions = sessions
        self._again = once_more or Recopy()
        self._part: Part | None = None
        self._run = 0
        self._began = time.monotonic()
        self._known: list[ChunkCopy] = []
        self._left: Collection[tuple[int, int]] = ()  # chunks that count no more and may still be written
        self._reopened = False
        self._queue = ChunkQueue(settings.copy_, planned.table, sessions)
        self._ranges: dict[int, Chunk] = {}  # handed out
        self._finished: dict[int, ChunkCopy] = {}
        self._above: dict[int, int] = {}  # attempts, by chunk, that a target knows and the state does not
        self.opened_again = False  # a target database had lost the opening of the table
        self._end: Coordinate | None = None  # of the source's log when the copy ended, where that is to be known
        self._lost = set[int]()  # of these, and of the whole table, what a target database came back without
        self._retries = Retries(settings, f"copy of {planned.table.full_name}", self._forget, sleep)

    def refuse(self, connection: sa.Connection) -> None:
        """What no table of the source may be copied for; in the transaction of `enter`, before it."""
        leading.refuse_now(connection, self._settings.name, "copy")  # it may be long ago that the run was begun
        refuse_before_incremental(connection, self._settings.name, self.planned.table)

    def enter(self, connection: sa.Connection) -> bool:
        """Start or resume; False when the table is copied already. `open_fence` in every target database is next, then
        `go_on`. Raises: as `TableCopy.begin`."""
        self._began = time.monotonic()
        table, name = self.planned.table, self._settings.name
        refuse_before_its_place(connection, name, table)
        before = phase.lock(connection, name, table)
        self._check_rule(before)
        due, self._part = recopy.choose(connection, name, table, before.phase, self._again)
        if not due:
            return False
        self._queue.part = self.part
        self._run = before.attempt + 1
        phase.put(connection, name, table, TablePhase(Phase.COPYING, self._run, self.planned.rule_hash))
        self.aside = skipped_key.reasons(connection, name, table.id)
        if before.phase is Phase.CREATED and not before.attempt:
            return True  # nothing was ever copied of it
        self._known = chunks.load(connection, name, table, self._number)
        self._queue.begin(chunks.next_number(connection, name, table))
        self._left = chunks.left_open(connection, name, table)
        self._reopened = phase.reopened(connection, name, table)
        if self._part is None:
            self.places |= copy_progress.places(connection, name, table.id)
        return True

    @property
    def seconds(self) -> float:
        """Since it was entered."""
        return time.monotonic() - self._began

    def open_fence(self, session: Connection) -> None:
        """Open the table in one target database, in the caller's transaction.

        Where it was closed, deletes left no ledger row: the source is waited for before the next read. Entries from
        before go, as their rows may be there again, by an application; while another table of its group is open, that
        needs them, and no application can have written since.
        """
        name, table = self._settings.name, self.planned.table
        found = chunk_fence.whole_table(session, name, table)
        closed = found is not None and found[1]
        if closed and (not self.planned.members or chunk_fence.hold_closed(session, name, self.planned.members)):
            while ledger.clean_up(session, name, self.planned.noted_as):
                pass
        self._reopened = self._reopened or closed
        chunk_fence.raise_attempt(session, name, table, Chunk(WHOLE_TABLE, None, None), self._run)
        chunk_fence.retire(session, name, table, self._left)

    def go_on(self) -> None:
        """From the chunks that an earlier run did."""
        table, name = self.planned.table, self._settings.name
        if self._reopened:
            self.go_on_again()
            with self._state.begin() as connection:
                phase.note_reopened(connection, name, table, False)
        self._resume(self._known)

    def choose(self, size: int, most_rows: int | None = None) -> list[Chunk]:
        """Up to `size` chunks to copy next. Raises the driver's error."""
        return self._queue.first(size, most_rows)

    def note(self, connection: sa.Connection, chosen: Sequence[Chunk]) -> list[Attempt]:
        """Note in the state that these are begun; then `open_chunks` in every target database, then `hand_out`."""
        attempts = chunks.begin(
            connection, self._settings.name, self.planned.table, self._run, chosen, self._number, self._above
        )
        return [Attempt(item, attempts[item.number]) for item in chosen]

    def rise_above(self, connection: sa.Connection, error: Superseded) -> None:
        """A target knows a later attempt than the state, whose last run this is: the state was put back to an earlier
        one. What is opened next is later. Raises OwnershipLost when another run began instead."""
        self._refuse_another_run(connection)
        log.warning("the state database knew an older attempt", table=self.planned.table.full_name, chunk=error.chunk)
        if error.chunk == WHOLE_TABLE:
            self._run = error.known + 1
            phase.put(
                connection,
                self._settings.name,
                self.planned.table,
                TablePhase(Phase.COPYING, self._run, self.planned.rule_hash),
            )
        else:
            self._above[error.chunk] = error.known

    def open_chunks(self, session: Connection, attempts: Sequence[Attempt]) -> None:
        """In one target database, in the caller's transaction.

        Where that lost the opening of the table, deletes leave no ledger rows: it is opened again before, and the
        source is to be waited for (`go_on_again`) before a chunk is read.
        """
        if not chunk_fence.is_open(session, self._settings.name, self.planned.table, self._run):
            log.warning("a target lost committed transactions", table=self.planned.table.full_name, target=session.name)
            self.open_fence(session)
            self.opened_again = True
        for one in attempts:
            chunk_fence.raise_attempt(session, self._settings.name, self.planned.table, one.chunk, one.attempt)

    def hand_out(self, attempts: Sequence[Attempt]) -> None:
        """They are open everywhere."""
        for one in attempts:
            self._queue.take()
            self._ranges[one.chunk.number] = one.chunk

    def book(self, connection: sa.Connection, results: Iterable[ChunkResult]) -> tuple[list[Problem], bool]:
        """The state's part of `settle`: what went wrong, and whether any chunk is done."""
        done: dict[int, tuple[int, CopyCounts]] = {}
        routed: dict[int, Mapping[int, int]] = {}
        problems: list[Problem] = []
        left: list[Key] = []
        for result in results:
            chunk = self._ranges.pop(result.chunk)
            if result.problem is None:
                done[result.chunk] = (result.attempt, result.counts)
                self._finished[result.chunk] = ChunkCopy(chunk, ChunkState.DONE, result.attempt, result.counts)
                self.counts += result.counts
                self.chunks_done += 1
                routed[result.chunk] = result.places
                left += result.left_out
                self._queue.note(result)
                continue
            problems.append(result.problem)
            self._queue.put_back(chunk)
            log.info("chunk not done", chunk=result.chunk, attempt=result.attempt, reason=result.problem.message)
        noted = chunks.finish(connection, self._settings.name, self.planned.table, done)
        conflicts.have_refreshed(connection, self._settings.name, self.planned.table, left)
        places: Counter[str] = Counter()
        for index, rows in (item for chunk in noted for item in routed[chunk].items()):
            places[str(self.planned.places[index])] += rows
        if self._part is None:  # the table's rows were counted when it was copied
            copy_progress.add_places(connection, self._settings.name, self.planned.table.id, places)
        for place, rows in places.items():
            self.places[place] += rows
        return problems, bool(done)

    def compare_fences(self, session: Connection) -> bool:
        """Whether a target database has all that was written there, and had been opened (invariant fence-compares)."""
        there = chunk_fence.attempts(session, self._settings.name, self.planned.table)
        lost = {
            number
            for number, one in self._finished.items()
            if (found := there.get(number)) is None or found[0] < one.attempt or not found[1]
        }
        if WHOLE_TABLE not in there or there[WHOLE_TABLE][0] < self._run:
            lost.add(WHOLE_TABLE)
        if lost:
            told = {"table": self.planned.table.full_name, "target": session.name, "database": session.database}
            log.warning("a target lost committed transactions", **told, chunks_copied_again=len(lost - {WHOLE_TABLE}))
        self._lost |= lost
        return not lost

    @property
    def lost(self) -> bool:
        """Whether `compare_fences` found that anything is to be copied again."""
        return bool(self._lost)

    def take_back(self, connection: sa.Connection) -> None:
        """What was lost is not done any more; `open_fence` in every target database is next, then `go_on_again`."""
        self._refuse_another_run(connection)
        lost, self._lost = self._lost - {WHOLE_TABLE}, set()
        chunks.take_back(connection, self._settings.name, self.planned.table, lost)
        for number in sorted(lost):
            one = self._finished.pop(number)
            self._queue.add(one.chunk)
            self.counts -= one.counts
            self.chunks_done -= 1

    def go_on_again(self) -> None:
        """As after a copy was opened again: what the stream applied before it can be read."""
        self._retries.call(lambda: recopy.wait_until_readable(self._state, self._settings, self.planned.table))
        self.opened_again = False

    def look_at_end(self) -> None:
        """Before `end`: of a table with an update-time filter, up to where changes were committed before the copy
        ended: where its source's log ends now. Raises ServerError."""
        if self.planned.update_time is not None:
            source = self.planned.table.source
            self._end = self._retries.call(lambda: log_ends_at(self._state, self._settings, source))

    def end(self, connection: sa.Connection) -> None:
        """The first transaction of `finish`; then `close_fence` in every target database, then `ended`."""
        self._refuse_another_run(connection)
        # So it is to a run after one that ends in between.
        phase.note_reopened(connection, self._settings.name, self.planned.table, True)

    def close_fence(self, session: Connection) -> None:
        """Close the table in one target database, in the caller's transaction. Raises Unopened where it lost chunks."""
        if not self.compare_fences(session):
            raise chunk_fence.Unopened(f"{session.name} lost chunks of {self.planned.table.full_name}")
        chunk_fence.close(session, self._settings.name, self.planned.table, [WHOLE_TABLE], self._run)
        if self._end is not None:
            outdated.put_end(session, self._settings.name, self.planned.table.id, self._end)

    def ended(self, connection: sa.Connection) -> None:
        """The last transaction of `finish`."""
        table, name = self.planned.table, self._settings.name
        self._refuse_another_run(connection)
        phase.put_copied(connection, name, table, self._run, self.planned.rule_hash)
        if self._part is not None:
            parts.end(connection, name, table)

    @property
    def chunks_planned(self) -> int:
        return self._queue.planned

    @property
    def estimate(self) -> int:
        return self._queue.estimate

    @property
    def part(self) -> str:
        """SQL that chooses the rows; "" for the whole table."""
        return self._part.condition if self._part else ""

    @property
    def _number(self) -> int:
        return self._part.number if self._part else chunks.WHOLE

    # -- inside

    def _refuse_another_run(self, connection: sa.Connection) -> None:
        """Raise OwnershipLost when the table has another run by now; none begins until the transaction ends."""
        table = self.planned.table
        if phase.attempt(connection, self._settings.name, table) != self._run:
            raise OwnershipLost(f"copy of {table.full_name}: another run of it began", hint="this one ends")

    def _check_rule(self, before: TablePhase) -> None:
        if before.phase is Phase.CREATED or before.rule_hash == self.planned.rule_hash:
            return
        raise ConfigError(
            f"copy of {self.planned.table.full_name}: columns, key, sharding rule, places or group changed since it"
            " began",
            hint="restore them, or start a new migration under another name",
        )

    def _resume(self, known: list[ChunkCopy]) -> None:
        known = [one for one in known if one.state is not ChunkState.VOID]
        for one in known:
            self._queue.planned_before(one.chunk)
            if one.state is ChunkState.DONE:
                self._finished[one.chunk.number] = one
                self.counts += one.counts
                self.chunks_done += 1
            else:
                self._queue.add(one.chunk)
        self._retries.call(self._queue.look)

    def _forget(self) -> None:
        self._sessions.close()
        self.forget_pages()

    def forget_pages(self) -> None:
        """The sessions that they were planned on are gone."""
        self._queue.forget_pages()
