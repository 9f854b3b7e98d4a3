"""The full copy as a Spark job: `run` for `migrate copy`, `main` for spark-submit.

A wave of chunks is one Spark job, a chunk one partition: read → dedup → route → write, without a shuffle.
Two waves are under way at a time, so that no core waits for the last chunk of one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.copy_together import CopyTogether, small_tables
from jobs.copy_together import TableCopied as TableCopied
from jobs.copy_wave import CopyWork, run_wave
from jobs.report import CopyProgress as CopyProgress
from jobs.report import Progress, Report
from jobs.session import spark_session
from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.outcome import tell_not_copied
from migrate.chunks.sessions import Sessions
from migrate.copy.governor import WAVES, Governor
from migrate.copy.recopy import Recopy, check_again
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy, refuse_before_incremental
from migrate.copy.tasks import CopyJob
from migrate.model.errors import MigrateError, OwnershipLost, ServerError
from migrate.model.table import Table, TableId
from migrate.settings import Settings, load
from migrate.state import database, leading, position
from migrate.state.chunks import CopyCounts
from migrate.target.routing import PlannedTable
from migrate.terminal import printable

_LOOK = 1.0  # seconds to wait for a wave before the load is looked at again
_IDLE = 0.1  # and where nothing is begun


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
    again: Recopy | None = None,
    starting: Callable[[], None] | None = None,
) -> CopyResult:
    """Copy every table of the config (or those named "database.table") that is not copied yet; again: these, once more.
    starting: told once there is something to copy with, before Spark starts.

    Interrupted at any moment, it goes on from its finished chunks when called again.
    Raises: PreflightError before `migrate init` or before the incremental began; ConfigError for an unknown table or
    a changed rule; StopError for a row that cannot be written as it is; OwnershipLost when another copy took over;
    ServerError when a server stays away.
    """
    with (
        database.opened(settings.state) as state,
        closing(Sessions(settings, partial(position.where_read, state, settings))) as sessions,
    ):
        with state.connect() as connection:
            leading.refuse_unless(connection, settings.name, "copy")
            leading.refuse_in_cutover(connection, settings.name)
        chosen = chosen_tables(settings, state, tables)
        check_again(position.where_read(state, settings), chosen, tables, again)
        with state.connect() as connection:
            firsts: dict[str, Table] = {}
            for planned in chosen:
                firsts.setdefault(planned.table.source, planned.table)
            for table in firsts.values():
                refuse_before_incremental(connection, settings.name, table)
        began = time.monotonic()
        if starting is not None:
            starting()
        with spark_session(settings, settings.copy_.master) as spark:
            started = time.monotonic()

            def one(planned: PlannedTable, done: int) -> TableCopied:
                copy = TableCopy(settings, planned, state, sessions, once_more=again)
                return _copy(spark, settings, copy, state, done, len(chosen), progress)

            small = CopyTogether(spark, settings, state, sessions, len(chosen), progress)
            if not again:
                for some in small_tables(sessions, chosen):
                    small.copy(some)
            return CopyResult(each(chosen, one, small), time.monotonic() - started, started - began)


def each(
    chosen: Sequence[PlannedTable],
    copy: Callable[[PlannedTable, int], TableCopied],
    before: CopyTogether | None = None,
) -> list[TableCopied]:
    """Copy every table, also those behind one that cannot be copied. before: those that were copied together.

    Raises: at once what concerns all of them, a server or a session that is away and another copy; else, when the
    others are copied, the first error.
    """
    copied: list[TableCopied] = list(before.copied.values()) if before else []
    failed: dict[str, Exception] = {one.full_name: error for one, error in before.failed.items()} if before else {}
    done = {*before.copied, *(one.id for one in before.failed)} if before else set[TableId]()
    for planned in (one for one in chosen if one.table.id not in done):
        name = planned.table.full_name
        try:
            copied.append(copy(planned, len(copied) + len(failed)))
        except (ServerError, OwnershipLost, PySparkException, Py4JError):
            raise
        except Exception as error:  # a defect that one table meets is no reason to leave the others
            tell_not_copied(name, error)
            failed[name] = error
    if failed:
        (table, first), others = next(iter(failed.items())), ", ".join(list(failed)[1:])
        told = f"{len(copied)} other tables are copied" + (f"; neither are {others}" if others else "")
        if not isinstance(first, MigrateError):
            first.add_note(f"while {table} was copied; {told}")
            raise first
        if len(chosen) > 1:
            raise type(first)(f"{first.message} ({table}; {told})", hint=first.given) from first
        raise first
    order = {(one.table.full_name, one.table.source): number for number, one in enumerate(chosen)}
    return sorted(copied, key=lambda one: order[one.table, one.source])


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
        return TableCopied(table.full_name, table.source, CopyCounts(), 0, 0.0, 0, was_copied=True)
    before = copy.counts.rows_read
    waves: deque[Future[list[ChunkResult]]] = deque()
    with (
        closing(Governor(position.where_read(state, settings), copy.planned, state, before)) as governor,
        ThreadPoolExecutor(WAVES, thread_name_prefix="wave") as threads,
    ):

        def submit(wave: Sequence[Attempt]) -> Future[list[ChunkResult]]:
            now = position.where_read(state, settings)  # once the attempts are open
            job = CopyJob(now, copy.planned, copy.aside, copy.part)
            return threads.submit(run_wave, spark, [CopyWork(job, attempt) for attempt in wave], len(wave))

        report = Report(settings, copy, governor, state, (tables_done, tables), progress)
        done = False
        while not done:
            while _begin(copy, governor, waves, submit) or waves:
                if not waves:
                    time.sleep(_IDLE)
                elif wait([waves[0]], _LOOK).done:
                    copy.settle(waves.popleft().result())
                    governor.note(copy.counts.rows_read)
                    report.now()
                governor.look()
                report.now_and_then()
            done = copy.finish()
        report.copied()
    seconds, rows = time.monotonic() - began, copy.counts.rows_read - before
    return TableCopied(
        table.full_name,
        table.source,
        copy.counts,
        copy.chunks_done,
        seconds,
        rows,
        places=dict(copy.places),
        group=copy.planned.group,
    )


def _begin(
    copy: TableCopy,
    governor: Governor,
    waves: deque[Future[list[ChunkResult]]],
    submit: Callable[[Sequence[Attempt]], Future[list[ChunkResult]]],
) -> bool:
    """Begin as many waves as may be; False when there is no chunk to begin."""
    while len(waves) < (1 if governor.one_wave else WAVES) and not (waves and copy.replaying()):
        copy.wait_for_replay()
        if not (chunks := governor.next_wave()) or (waves and governor.one_wave):
            return True
        if not (wave := copy.wave(chunks, governor.most_rows)):
            return False
        waves.append(submit(wave))
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """`spark-submit jobs/full_copy.py --config FILE [--table DATABASE.TABLE …]`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="full_copy", description="Copy the source's rows to the sharded target.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--table", action="append", help="database.table; may be given several times")
    parser.add_argument("--restart", action="store_true", help="with --table: from the first chunk again")
    parser.add_argument("--where", help="with --table: copy these rows again, SQL over the source's columns")
    options = parser.parse_args(arguments)
    try:
        result = run(load(options.config), options.table, _say, Recopy(options.restart, options.where))
    except MigrateError as error:
        sys.stderr.write(printable(f"error: {error}\n"))
        return error.exit_code
    sys.stdout.write(f"{result.rows_read} rows read in {result.seconds:.1f} s, {result.rows_per_second:.0f} rows/s\n")
    return 0


def _say(progress: CopyProgress) -> None:
    sys.stderr.write(printable(f"{progress.table}: {progress.told()}\n"))


if __name__ == "__main__":
    sys.exit(main())
