"""Small tables are copied together: many of them share a wave, as a Spark job costs more than their rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field

import sqlalchemy as sa
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlalchemy.exc import DBAPIError

from jobs.copy_wave import CopyWork, run_wave
from jobs.report import Progress, Report
from migrate.chunks.sessions import Sessions
from migrate.chunks.small_tables import ROWS as SMALL_ROWS
from migrate.chunks.small_tables import small_ones
from migrate.chunks.task_settings import for_tasks
from migrate.copy.governor import LOOK_SECONDS, WAVES, Governor
from migrate.copy.table_copy import ChunkResult, TableCopy
from migrate.copy.tables_copy import Handed, TablesCopy
from migrate.copy.tasks import CopyJob
from migrate.model.errors import MigrateError
from migrate.model.table import Table, TableId
from migrate.settings import Settings
from migrate.state import position
from migrate.state.chunks import CopyCounts
from migrate.state.copy_progress import skew_of
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.copy")
_TABLES = 128
"""Begun in one transaction, for whose time no cutover begins."""
_TASK_CHUNKS = 32
_IDLE = 0.1


@dataclass(frozen=True, slots=True)
class TableCopied:
    table: str
    source: str
    counts: CopyCounts
    chunks: int
    seconds: float
    run_rows: int  # read in this run
    was_copied: bool = False  # before this run
    places: dict[str, int] = field(default_factory=dict)  # rows that went to each, over all runs; of this run's tables
    group: str = ""

    @property
    def skew(self) -> float | None:
        """As `migrate.state.copy_progress.skew_of`."""
        return skew_of(self.places, self.group)


def small_tables(sessions: Sessions, chosen: Sequence[PlannedTable]) -> Iterator[list[PlannedTable]]:
    """Those that are copied together: of one source, small by its statistics."""
    for tables in small_ones(sessions, [[one] for one in chosen]):
        for start in range(0, len(tables), _TABLES):
            yield [one for (one,) in tables[start : start + _TABLES]]


class CopyTogether:
    """Copies small tables. copied, failed: what became of each; one that is in neither is left to be copied alone."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        state: sa.Engine,
        sessions: Sessions,
        tables: int,
        progress: Progress | None,
    ) -> None:
        """tables: how many are copied in all, for the progress."""
        self.copied: dict[TableId, TableCopied] = {}
        self.failed: dict[Table, Exception] = {}
        self._spark = spark
        self._settings = settings
        self._state = state
        self._sessions = sessions
        self._count = tables
        self._progress = progress

    def copy(self, tables: Sequence[PlannedTable]) -> None:
        """Copy tables of one source. Raises what concerns all of them, as `full_copy.each`.

        Where one meets a defect, those that are not done are left to be copied alone.
        """
        try:
            self._copy(tables)
        except (MigrateError, PySparkException, Py4JError, DBAPIError):
            raise
        except Exception as error:
            left = len([one for one in tables if one.table.id not in self.copied])
            log.error("small tables are copied one by one", tables=left, exc_info=error)

    def _copy(self, tables: Sequence[PlannedTable]) -> None:
        copies = [TableCopy(self._settings, one, self._state, self._sessions) for one in tables]
        together = TablesCopy(self._settings, copies, self._state, self._sessions)
        for copy in together.begin():
            table = copy.planned.table
            was = TableCopied(table.full_name, table.source, CopyCounts(), 0, 0.0, 0, was_copied=True)
            self.copied[table.id] = was
        left = [copy for copy in copies if copy.planned.table.id not in self.copied]
        try:
            if left:
                self._run(together, left)
        finally:
            self.failed |= {copy.planned.table: error for copy, error in together.failed.items()}

    def _run(self, together: TablesCopy, copies: Sequence[TableCopy]) -> None:
        first, *others = [copy.planned for copy in copies]
        before = {copy: copy.counts.rows_read for copy in copies}
        waves: deque[tuple[list[Handed], Future[list[ChunkResult]]]] = deque()
        noted = time.monotonic()
        now = position.where_read(self._state, self._settings)
        with (
            closing(Governor(now, first, self._state, sum(before.values()), others=others)) as governor,
            ThreadPoolExecutor(WAVES, thread_name_prefix="wave") as threads,
        ):
            while True:
                if not self._begin(together, governor, waves, threads) and not waves:
                    self._finish(together, governor, before)
                    if not together.goes_on:
                        break
                elif not waves:
                    time.sleep(_IDLE)
                elif wait([waves[0][1]], LOOK_SECONDS).done:
                    wave, results = waves.popleft()
                    copied = [copy for copy, _ in wave]
                    together.settle(list(zip(copied, results.result(), strict=True)))
                    governor.note(sum(copy.counts.rows_read for copy in copies))
                    self._finish(together, governor, before)
                governor.look()
                if time.monotonic() > noted + LOOK_SECONDS:
                    noted = time.monotonic()
                    self._note(governor, [copy for wave, _ in waves for copy, _ in wave] or together.active[:1])

    def _begin(
        self,
        together: TablesCopy,
        governor: Governor,
        waves: deque[tuple[list[Handed], Future[list[ChunkResult]]]],
        threads: ThreadPoolExecutor,
    ) -> bool:
        """Begin as many waves as may be; False when there is no chunk to begin."""
        while len(waves) < (1 if governor.one_wave else WAVES) and not (waves and together.replaying()):
            together.wait_for_replay()
            if not (tasks := governor.next_wave()) or (waves and governor.one_wave):
                return True
            most_rows = governor.most_rows
            chunks = tasks * (_TASK_CHUNKS if most_rows is None else 1)
            # a table that is not small in fact is noticed, and left, after a few chunks that are
            if not (wave := together.wave(chunks, min(most_rows or SMALL_ROWS, SMALL_ROWS))):
                return False
            settings = for_tasks(position.where_read(self._state, self._settings))  # once the attempts are open
            works = [
                CopyWork(CopyJob(settings, copy.planned, copy.aside, copy.part), attempt) for copy, attempt in wave
            ]
            waves.append((wave, threads.submit(run_wave, self._spark, works, tasks)))
        return True

    def _finish(self, together: TablesCopy, governor: Governor, before: dict[TableCopy, int]) -> None:
        """Close those whose chunks are all done."""
        if not (ended := together.ended()):
            return
        done = len(self.copied) + len(self.failed)

        def note(connection: sa.Connection, copy: TableCopy) -> None:
            self._report(copy, governor, done).put(connection, copied=True)

        for copy in together.finish(ended, note):
            table, rows = copy.planned.table, copy.counts.rows_read - before[copy]
            self._report(copy, governor, len(self.copied) + len(self.failed)).now()
            self.copied[table.id] = TableCopied(
                table.full_name,
                table.source,
                copy.counts,
                copy.chunks_done,
                copy.seconds,
                rows,
                places=dict(copy.places),
                group=copy.planned.group,
            )

    def _note(self, governor: Governor, copies: Sequence[TableCopy]) -> None:
        done = len(self.copied) + len(self.failed)
        with self._state.begin() as connection:
            for copy in dict.fromkeys(copies):
                self._report(copy, governor, done).put(connection)
        for copy in copies[:1]:
            self._report(copy, governor, done).now()

    def _report(self, copy: TableCopy, governor: Governor, done: int) -> Report:
        return Report(self._settings, copy, governor, self._state, (done, self._count), self._progress)
