"""The chunks of one table that are to be copied next, planned from the source a few ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from migrate.chunks.planner import Planner
from migrate.chunks.sessions import Sessions
from migrate.chunks.sizing import ChunkSize
from migrate.copy.attempts import ChunkResult
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.table import Table
from migrate.settings import Copy


class ChunkQueue:
    """`begin` and `planned_before` for what an earlier run planned, `look`, then `first`, `take` and what comes back.

    planned: chunks so far, with those of an earlier run; estimate: rows of the table as the source's statistics say;
    part: SQL that chooses the rows, "" for the whole table, to be set before.
    """

    def __init__(self, settings: Copy, table: Table, sessions: Sessions) -> None:
        self.planned = self.estimate = 0
        self.part = ""
        self._settings = settings
        self._table = table
        self._sessions = sessions
        self._waiting: deque[Chunk] = deque()
        self._until: Key | None = None
        self._next: tuple[int, Key | None] = (0, None)
        self._size = ChunkSize(settings, 0)
        self._paging: tuple[Planner, Iterator[Chunk]] | None = None

    def begin(self, number: int) -> None:
        """With this chunk number, at the start of the table."""
        self._next = (number, None)

    def planned_before(self, chunk: Chunk) -> None:
        """By an earlier run: what is planned next is behind it."""
        self._next = (self._next[0], chunk.high)
        self.planned += 1

    def look(self) -> None:
        """Ask the source where the table ends and how large it is. Raises the driver's error."""
        planner = self._planner()
        self._until, self.estimate = planner.last_key(), 0 if self.part else planner.estimate()
        self._size = ChunkSize(self._settings, planner.row_bytes())

    def first(self, count: int, most_rows: int | None) -> list[Chunk]:
        """Up to so many chunks, of `most_rows` at most where they are planned now. Raises the driver's error."""
        self._plan(count - len(self._waiting), most_rows)
        return list(self._waiting)[:count]

    def take(self) -> None:
        """The first one is handed out."""
        self._waiting.popleft()

    def put_back(self, chunk: Chunk) -> None:
        """It was handed out, and is to be copied before all others."""
        self._waiting.appendleft(chunk)

    def add(self, chunk: Chunk) -> None:
        """It is to be copied after those that wait."""
        self._waiting.append(chunk)

    def note(self, done: ChunkResult) -> None:
        """What a chunk had, and how long it took."""
        self._size.note(done.counts.rows_read, done.counts.bytes_read, done.seconds)

    def forget_pages(self) -> None:
        """The session that they were planned on is gone."""
        self._paging = None

    def _planner(self) -> Planner:
        return Planner(self._sessions.source(self._table.source), self._table, self._size.rows, self.part)

    def _plan(self, pages: int, most_rows: int | None) -> None:
        if self._paging is None:
            planner = self._planner()
            self._paging = planner, planner.copied(*self._next, self._until)
        for _ in range(pages):
            self._paging[0].rows = min(self._size.rows, most_rows or self._size.rows)
            page = next(self._paging[1], None)
            if page is None:
                return
            self._waiting.append(page)
            self._next = (page.number + 1, page.high)
            self.planned += 1
