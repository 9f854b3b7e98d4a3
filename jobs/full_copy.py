"""The full copy as a Spark job: `run` for `migrate copy`, `main` for spark-submit.

A wave of chunks is one Spark job, a chunk one partition: read → dedup → route → write, without a shuffle.
Two waves are under way at a time, so that no core waits for the last chunk of one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
import structlog
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.frames import (
    Batches,
    Step,
    blocks,
    chained,
    deduplicated,
    map_in_arrow,
    mark_batch,
    routed,
    row_batch,
)
from jobs.report import CopyProgress as CopyProgress
from jobs.report import Progress, Report
from jobs.session import lost, spark_session
from migrate.model.errors import MigrateError, OwnershipLost, ServerError
from migrate.scroll.again import Again, check_again
from migrate.scroll.governor import Governor
from migrate.scroll.marks import Mark
from migrate.scroll.marks import load as load_mark
from migrate.scroll.outcome import End, Problem
from migrate.scroll.sessions import Sessions
from migrate.scroll.table_copy import Attempt, ChunkResult, TableCopy, refuse_before_incremental
from migrate.scroll.tables import chosen_tables
from migrate.scroll.tasks import CopyJob, WriteChunk, read_chunk
from migrate.settings import Settings, load
from migrate.state import database, leading, position
from migrate.state.copy_progress import skew_of
from migrate.state.detail import COUNTS, Counts
from migrate.target.plan import PlannedTable

log = structlog.get_logger("migrate.copy")
_WAVES = 2
_LOOK = 1.0  # seconds to wait for a wave before the load is looked at again
_IDLE = 0.1  # and where nothing is begun
_RESULT = ", ".join(["chunk int", "attempt int", "`end` string", "message string", "hint string", "seconds double"])
_RESULT += "".join(f", {name} long" for name in COUNTS) + ", places string"


@dataclass(frozen=True, slots=True)
class TableCopied:
    table: str
    source: str
    counts: Counts
    chunks: int
    seconds: float
    run_rows: int  # read in this run
    was_copied: bool = False  # before this run
    places: dict[str, int] = field(default_factory=dict)  # rows that went to each, over all runs; of this run's tables

    @property
    def skew(self) -> float | None:
        """Rows of the fullest place, in times of the mean of all."""
        return skew_of(self.places)


@dataclass(frozen=True, slots=True)
class CopyResult:
    tables: list[TableCopied] = field(default_factory=list)
    seconds: float = 0.0  # without Spark's start
    spark_seconds: float = 0.0  # Spark's start

    @property
    def rows_read(self) -> int:
        """In this run."""
        return sum(table.run_rows for table in self.tables)

    @property
    def rows_inserted(self) -> int:
        """Over all runs of these tables' copies."""
        return sum(table.counts.rows_inserted for table in self.tables)

    @property
    def rows_per_second(self) -> float:
        return self.rows_read / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, object]:
        tables = [{**asdict(table), "skew": table.skew} for table in self.tables]
        figures = {"rows_read": self.rows_read, "rows_per_second": round(self.rows_per_second)}
        return {**asdict(self), "tables": tables, **figures}


def run(
    settings: Settings,
    tables: Sequence[str] | None = None,
    progress: Progress | None = None,
    again: Again | None = None,
) -> CopyResult:
    """Copy every table of the config (or those named "database.table") that is not copied yet; again: these, once more.

    Interrupted at any moment, it goes on from its finished chunks when called again.
    Raises: PreflightError before `migrate init` or before the incremental began; ConfigError for an unknown table or
    a changed rule; StopError for a row that cannot be written as it is; OwnershipLost when another copy took over;
    ServerError when a server stays away.
    """
    with (
        database.opened(settings.state) as state,
        closing(Sessions(settings := position.where_read(state, settings))) as sessions,
    ):
        with state.connect() as connection:
            leading.refuse_unless(connection, settings.name, "copy")
            leading.refuse_in_cutover(connection, settings.name)
        chosen = chosen_tables(settings, state, tables)
        check_again(settings, chosen, tables, again)
        with state.connect() as connection:
            for planned in chosen:
                refuse_before_incremental(connection, settings.name, planned.table)
        began = time.monotonic()
        with spark_session(settings, settings.copy_.master) as spark:
            started = time.monotonic()

            def one(planned: PlannedTable, done: int) -> TableCopied:
                copy = TableCopy(settings, planned, state, sessions, once_more=again)
                return _copy(spark, settings, copy, state, done, len(chosen), progress)

            return CopyResult(each(chosen, one), time.monotonic() - started, started - began)


def each(chosen: Sequence[PlannedTable], copy: Callable[[PlannedTable, int], TableCopied]) -> list[TableCopied]:
    """Copy every table, also those behind one that cannot be copied.

    Raises: at once what concerns all of them, a server or a session that is away and another copy; else, when the
    others are copied, the first error.
    """
    copied: list[TableCopied] = []
    failed: dict[str, Exception] = {}
    for planned in chosen:
        name = planned.table.full_name
        try:
            copied.append(copy(planned, len(copied) + len(failed)))
        except (ServerError, OwnershipLost, PySparkException, Py4JError):
            raise
        except Exception as error:  # a defect that one table meets is no reason to leave the others
            defect = None if isinstance(error, MigrateError) else error
            log.error("a table is not copied", table=name, reason=str(error) if defect is None else "", exc_info=defect)
            failed[name] = error
    if failed:
        (table, first), others = next(iter(failed.items())), ", ".join(list(failed)[1:])
        told = f"{len(copied)} other tables are copied" + (f"; neither are {others}" if others else "")
        if not isinstance(first, MigrateError):
            first.add_note(f"while {table} was copied; {told}")
            raise first
        if len(chosen) > 1:
            raise type(first)(f"{first.message} ({table}; {told})", hint=first.hint) from first
        raise first
    return copied


def _copy(
    spark: SparkSession,
    settings: Settings,
    copy: TableCopy,
    state: sa.Engine,
    tables_done: int,
    tables: int,
    progress: Progress | None,
) -> TableCopied:
    began = time.monotonic()
    table = copy.planned.table
    if not copy.begin():
        return TableCopied(table.full_name, table.source, Counts(), 0, 0.0, 0, was_copied=True)
    before = copy.counts.rows_read
    job = CopyJob(settings, copy.planned, copy.aside, copy.part)
    waves: deque[Future[list[ChunkResult]]] = deque()
    with (
        closing(Governor(settings, copy.planned, state, before)) as governor,
        ThreadPoolExecutor(_WAVES, thread_name_prefix="wave") as threads,
    ):
        report = Report(settings, copy, governor, state, (tables_done, tables), progress)
        while _begin(copy, governor, waves, lambda wave: threads.submit(run_wave, spark, job, wave)) or waves:
            if not waves:
                time.sleep(_IDLE)
            elif wait([waves[0]], _LOOK).done:
                copy.settle(waves.popleft().result())
                governor.note(copy.counts.rows_read)
                report.now()
            governor.look()
            report.now_and_then()
        copy.finish()
        report.copied()
    seconds, rows = time.monotonic() - began, copy.counts.rows_read - before
    return TableCopied(
        table.full_name, table.source, copy.counts, copy.chunks_done, seconds, rows, places=dict(copy.places)
    )


def _begin(
    copy: TableCopy,
    governor: Governor,
    waves: deque[Future[list[ChunkResult]]],
    submit: Callable[[Sequence[Attempt]], Future[list[ChunkResult]]],
) -> bool:
    """Begin as many waves as may be; False when there is no chunk to begin."""
    while len(waves) < (1 if governor.one_wave else _WAVES) and not (waves and copy.replaying()):
        copy.wait_for_replay()
        if not (chunks := governor.next_wave()) or (waves and governor.one_wave):
            return True
        if not (wave := copy.wave(chunks, governor.most_rows)):
            return False
        waves.append(submit(wave))
    return True


# -- one wave


def run_wave(spark: SparkSession, job: CopyJob, wave: Sequence[Attempt]) -> list[ChunkResult]:
    """Copy chunks whose attempts are open; a result for each.

    When Spark loses a worker or an executor, every chunk of the wave gets a new attempt.
    """
    attempts = list(wave)
    steps = (_read(job, attempts), deduplicated(job.planned), routed(job.planned), _write(job, attempts))
    frame = map_in_arrow(spark.range(0, len(attempts), 1, len(attempts)), chained(*steps), _RESULT)
    try:
        return [_result(row.asDict()) for row in frame.collect()]
    except (PySparkException, Py4JError) as error:
        if (reason := lost(error)) is None:
            raise
        again = Problem(End.AGAIN, reason)
        return [ChunkResult(attempt.range.number, attempt.attempt, Counts(), again) for attempt in wave]


def _read(job: CopyJob, attempts: Sequence[Attempt]) -> Step:
    """From a partition with a chunk's index to its rows as the source's own text, with its mark at the end."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        planned = job.planned
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            attempt = attempts[number]
            chunk = attempt.range.number
            if (again := _ran_before(job, chunk)) is not None:
                yield mark_batch(planned, chunk, again)
                continue
            for item in read_chunk(job, attempt):
                yield mark_batch(planned, chunk, item) if isinstance(item, Mark) else row_batch(planned, chunk, *item)

    return read


def _ran_before(job: CopyJob, chunk: int) -> Mark | None:
    """A task that Spark runs again shares its attempt with a run that may still be writing (rule 10)."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return None
    return Mark(problem=Problem(End.AGAIN, f"{job.name_of(chunk)}: Spark ran the task again"))


def _write(job: CopyJob, wave: Sequence[Attempt]) -> Step:
    """Write routed rows; what it gives has one row a chunk, what became of it."""
    attempts = {attempt.range.number: attempt for attempt in wave}

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        writers: dict[int, WriteChunk] = {}
        for batch in batches:
            for part in _by_chunk_and_mark(batch):
                number = part.column("chunk")[0].as_py()
                if number not in writers:
                    writers[number] = WriteChunk(job, attempts[number])
                if (mark := part.column("mark")[0].as_py()) is not None:
                    writers[number].mark(load_mark(mark))
                else:
                    for place, block in blocks(part):
                        writers[number].rows(place, block)
        for writer in writers.values():
            yield _result_batch(writer.result())

    return write


def _by_chunk_and_mark(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of a batch whose rows are of one chunk, each mark alone."""
    chunks, marks = batch.column("chunk").to_pylist(), batch.column("mark").to_pylist()
    start = 0
    for index in range(1, len(chunks) + 1):
        if index == len(chunks) or chunks[index] != chunks[start] or marks[index] or marks[start]:
            yield batch.slice(start, index - start)
            start = index


def _result_batch(result: ChunkResult) -> pa.RecordBatch:
    problem = result.problem
    told = (None, None, None) if problem is None else (problem.end.value, problem.message, problem.hint)
    counts = [getattr(result.counts, name) for name in COUNTS]
    values = [result.chunk, result.attempt, *told, result.seconds, *counts, json.dumps(result.places)]
    types = [pa.int32(), pa.int32(), *[pa.string()] * 3, pa.float64(), *[pa.int64()] * len(COUNTS), pa.string()]
    arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    names = ["chunk", "attempt", "end", "message", "hint", "seconds", *COUNTS, "places"]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _result(row: dict[str, object]) -> ChunkResult:
    problem = None
    if row["end"] is not None:
        problem = Problem(End(str(row["end"])), str(row["message"]), str(row["hint"]))
    counts = Counts(*(int(str(row[name])) for name in COUNTS))
    seconds = float(str(row["seconds"]))
    places = {int(place): int(rows) for place, rows in json.loads(str(row["places"])).items()}
    return ChunkResult(int(str(row["chunk"])), int(str(row["attempt"])), counts, problem, seconds, places)


def main(arguments: Sequence[str] | None = None) -> int:
    """`spark-submit jobs/full_copy.py --config FILE [--table DATABASE.TABLE …]`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="full_copy", description="Copy the source's rows to the sharded target.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--table", action="append", help="database.table; may be given several times")
    parser.add_argument("--restart", action="store_true", help="with --table: from the first chunk again")
    parser.add_argument("--where", help="with --table: copy these rows again, SQL over the source's columns")
    options = parser.parse_args(arguments)
    try:
        result = run(load(options.config), options.table, _say, Again(options.restart, options.where))
    except MigrateError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{result.rows_read} rows read in {result.seconds:.1f} s, {result.rows_per_second:.0f} rows/s\n")
    return 0


def _say(progress: CopyProgress) -> None:
    sys.stderr.write(f"{progress.table}: {progress.told()}\n")


if __name__ == "__main__":
    sys.exit(main())
