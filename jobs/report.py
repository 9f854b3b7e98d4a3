"""How far a copy is: told to whoever started it, and noted in the state for `migrate status` elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.copy.governor import Governor
from migrate.copy.table_copy import TableCopy
from migrate.model.words import counted, duration
from migrate.settings import Settings
from migrate.state import chunks, copy_progress
from migrate.state.chunks import CopyCounts

log = structlog.get_logger("migrate.copy")
_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Where the copy stands: after each wave of chunks, and about once a second in between."""

    table: str
    tables_done: int
    tables: int
    rows_read: int  # of this table, with what an earlier run read
    rows_estimate: int  # of this table, from the source's statistics
    bytes_read: int
    chunks_done: int
    chunks_planned: int  # so far
    rows_per_second: float  # during the last minute
    seconds_left: float | None  # None where it cannot be told
    skew: float | None  # rows of the fullest place, in times of the mean; not of a table of a group
    pace: str
    chunks: int  # begun together
    reason: str  # why not at full pace

    def told(self) -> str:
        """In one line, without the table's name."""
        of = f" of about {self.rows_estimate:,}" if self.rows_estimate else ""
        return f"{self.rows_read:,} rows{of}{self.more()}"

    def more(self) -> str:
        """What stands behind the rows."""
        told = f", {self.bytes_read / 1e6:,.0f} MB, {self.rows_per_second:,.0f} rows/s"
        if self.seconds_left is not None:
            told += f", {duration(self.seconds_left)} left"
        if self.skew is not None:
            told += f", skew {self.skew:.2f}"
        if self.reason:
            told += f", {self.pace} ({counted(self.chunks, 'chunk')} at a time): {self.reason}"
        return told


Progress = Callable[[CopyProgress], None]


class Report:
    """Tells and notes how far the copy of one table is.

    Args: of: how many tables are done, and how many there are; progress: who is told, if anybody.
    """

    def __init__(
        self,
        settings: Settings,
        copy: TableCopy,
        governor: Governor,
        state: sa.Engine,
        of: tuple[int, int],
        progress: Progress | None,
    ) -> None:
        self._migration = settings.name
        self._copy = copy
        self._governor = governor
        self._state = state
        self._of = of
        self._progress = progress
        self._told = self._noted = 0.0

    def now(self) -> None:
        """After a wave."""
        self._told = time.monotonic()
        if self._progress is not None:
            self._progress(self._made())

    def now_and_then(self) -> None:
        """Tell and note, each unless that was less than a second ago."""
        if time.monotonic() >= self._noted + _EVERY:
            self._noted = time.monotonic()
            self._note(self._governor.pace)
        if time.monotonic() >= self._told + _EVERY:
            self.now()

    def copied(self) -> None:
        """The table is done."""
        self._note(copy_progress.COPIED)

    def put(self, connection: sa.Connection, *, copied: bool = False) -> None:
        """Note how far it is, in the caller's transaction. copied: the table is done."""
        self._put(connection, copy_progress.COPIED if copied else self._governor.pace)

    def _standing(self, pace: str, counts: CopyCounts, estimate: int) -> copy_progress.Progress:
        governor = self._governor
        done = pace == copy_progress.COPIED
        return copy_progress.Progress(
            counts.rows_read,
            counts.bytes_read,
            estimate,
            governor.rate(),
            pace,
            0 if done else governor.decision.chunks,
            "" if done else governor.reason,
            governor.measured(),
        )

    def _made(self) -> CopyProgress:
        copy = self._copy
        now = self._standing(self._governor.pace, copy.counts, copy.estimate)
        return CopyProgress(
            copy.planned.table.full_name,
            *self._of,
            now.rows_read,
            now.rows_estimate,
            now.bytes_read,
            copy.chunks_done,
            copy.chunks_planned,
            now.rows_per_second,
            now.seconds_left,
            copy_progress.skew_of(copy.places, copy.planned.group),
            now.pace,
            now.chunks,
            now.reason,
        )

    def _note(self, pace: str) -> None:
        try:
            with self._state.begin() as connection:
                self._put(connection, pace)
        except DBAPIError as error:  # it is met again where the copy needs the state
            log.warning("progress not noted", error=str(error.orig))

    def _put(self, connection: sa.Connection, pace: str) -> None:
        copy, table = self._copy, self._copy.planned.table
        counts, estimate = copy.counts, copy.estimate
        if copy.part and pace == copy_progress.COPIED:  # from here on the figures are the whole table's again
            _, _, counts = chunks.totals(connection, self._migration, table)
            estimate = counts.rows_read
        copy_progress.put(connection, self._migration, table.id, self._standing(pace, counts, estimate))
