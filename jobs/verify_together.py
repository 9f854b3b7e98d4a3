"""Small tables are compared together: many of them share a wave, as a Spark job costs more than their rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

from pyspark.sql import SparkSession

from jobs.verify_wave import CheckWork, run_wave, tasks_of
from migrate.chunks.sessions import Sessions
from migrate.chunks.small_tables import small_ones
from migrate.chunks.task_settings import for_tasks
from migrate.copy.governor import WAVES
from migrate.model.chunk import Chunk
from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.target.routing import PlannedTable
from migrate.verify.chunk_check import Checked, CheckJob
from migrate.verify.run import VerificationRun
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified

_TASK_CHUNKS = 32
_AT_ONCE = 4
"""Chunks of one table in a wave."""


@dataclass(frozen=True, slots=True)
class VerifyProgress:
    """Where the verification stands, after each wave of chunks."""

    table: str
    tables_done: int
    tables: int
    rows: int  # of this table, read at the source
    rows_estimate: int  # of this table, from the source's statistics
    chunks_done: int
    suspects: int  # keys to be looked at again
    seconds: float  # since this table began

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @classmethod
    def of(cls, check: TableCheck, done: int, tables: int) -> Self:
        return cls(
            check.planned.table.full_name,
            done,
            tables,
            check.rows,
            check.estimate,
            check.chunks_done,
            len(check.suspects),
            check.seconds,
        )


Progress = Callable[[VerifyProgress], None]
Tables = list[PlannedTable]
"""One, or all of a group."""
Handed = list[tuple[TableCheck, Chunk]]


def small_units(sessions: Sessions, left: Sequence[Tables]) -> list[list[Tables]]:
    """Those that are compared together, by source. Raises ServerError, the driver's error."""
    return [[list(unit) for unit in units] for units in small_ones(sessions, left)]


class VerifyTogether:
    """Compares small tables; what is found of each is booked as for one alone."""

    def __init__(
        self, spark: SparkSession, settings: Settings, stood: VerificationRun, tables: int, progress: Progress | None
    ) -> None:
        self._spark = spark
        self._settings = for_tasks(settings)
        self._stood = stood
        self._count = tables
        self._progress = progress
        self._tasks = tasks_of(spark, settings)
        self._jobs: dict[TableCheck, CheckJob] = {}
        self._compared: list[TableCheck] = []  # of which a former process compared all chunks
        self.unmended: list[MigrateError] = []  # why tables could not be repaired

    def check(self, units: Sequence[Tables], made: Callable[[Tables], TableCheck]) -> None:
        """Compare them. Raises: as `TableCheck.wave`, `settle` and `finish`."""
        waiting, begun = deque(units), deque[tuple[TableCheck, list[Chunk]]]()
        waves: deque[tuple[Handed, Future[list[Checked]]]] = deque()
        with ThreadPoolExecutor(WAVES, thread_name_prefix="wave") as threads:
            while waiting or begun or waves:
                while len(waves) < WAVES and (wave := self._wave(waiting, begun, made)):
                    works = [CheckWork(self._jobs[check], one) for check, one in wave]
                    waves.append((wave, threads.submit(run_wave, self._spark, works, self._tasks)))
                compared, self._compared = self._compared, []
                self._finish(compared)
                if not waves:
                    continue
                wave, results = waves.popleft()
                self._settle(wave, results.result(), begun)

    def _wave(
        self,
        waiting: deque[Tables],
        begun: deque[tuple[TableCheck, list[Chunk]]],
        made: Callable[[Tables], TableCheck],
    ) -> Handed:
        wave: Handed = []
        while (begun or waiting) and len(wave) < self._tasks * _TASK_CHUNKS:
            if begun:
                check, ranges = begun.popleft()
            else:
                check = made(waiting.popleft())
                check.begin()
                self._jobs[check] = CheckJob(self._settings, check.tables)
                ranges = check.wave(_AT_ONCE)
                if not ranges:
                    self._compared.append(check)
            wave += [(check, one) for one in ranges]
        return wave

    def _settle(self, wave: Handed, results: Sequence[Checked], begun: deque[tuple[TableCheck, list[Chunk]]]) -> None:
        of: dict[TableCheck, list[Checked]] = {}
        for (check, _), checked in zip(wave, results, strict=True):
            of.setdefault(check, []).append(checked)
        ended: list[TableCheck] = []
        for check, some in of.items():
            check.settle(some)
            if ranges := check.wave(_AT_ONCE):
                begun.append((check, ranges))
            else:
                ended.append(check)
        self._finish(ended)

    def _finish(self, ended: Sequence[TableCheck]) -> None:
        """Those first that nothing differed in: the others are looked at again, which takes long."""
        differ = [check for check in ended if check.differs]
        agreed: list[tuple[TableCheck, TableVerified]] = [
            (check, check.finish()) for check in ended if not check.differs
        ]
        self._stood.book(agreed)
        for check in differ:
            keep = partial(self._stood.save, check, at_once=True)
            keep()
            self._stood.book([(check, check.finish(keep))])
            if check.unmended is not None:
                self.unmended.append(check.unmended)
        for check in ended:
            del self._jobs[check]
            if self._progress is not None:
                self._progress(VerifyProgress.of(check, len(self._stood.done), self._count))
