"""The verification as a Spark job: `run` for `migrate verify`, `main` for spark-submit.

A wave of chunks is one Spark job, some chunks one task; what differs is looked at again by the driver.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pyspark.sql import SparkSession

from jobs.session import spark_session
from jobs.verify_together import Progress, VerifyTogether, small_units
from jobs.verify_together import VerifyProgress as VerifyProgress
from jobs.verify_wave import CheckWork, run_wave, tasks_of
from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.sessions import Sessions
from migrate.copy.governor import WAVES
from migrate.model.change import key_json
from migrate.model.errors import DifferenceFound, MigrateError, PreflightError
from migrate.model.words import counted
from migrate.settings import Settings, load
from migrate.state import compared, database, failover, leading, position, reached, replay, verification
from migrate.state.clock import StateClock
from migrate.target.groups import check_groups
from migrate.target.routing import PlannedTable
from migrate.terminal import printable
from migrate.verify import certificate as certificates
from migrate.verify.certificate import SourcePoint
from migrate.verify.chunk_check import Checked, CheckJob
from migrate.verify.recheck import hurrier
from migrate.verify.repair import carried_out, refresher, way_out
from migrate.verify.resume import binlog_ends
from migrate.verify.run import VerificationRun, standing
from migrate.verify.scope import VerificationScope, bound, unlike_by_now
from migrate.verify.stream_wait import StreamWait
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified

_TASK_CHUNKS = 8
"""Chunks of a task, as each task costs Spark some time."""
_WAVE_CHUNKS = 128
"""At most: the driver plans them one after the other."""
_FIRST_CHUNKS = 16
"""Planned while Spark starts."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    verification: int  # number of the run in the state
    tables: list[TableVerified] = field(default_factory=list)
    seconds: float = 0.0  # without Spark's start
    spark_seconds: float = 0.0
    certificate: dict[str, Any] = field(default_factory=dict)
    unmended: MigrateError | None = None  # why a table could not be repaired, the first
    rows_before: int = 0  # of `rows`, what former processes compared

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def total(self) -> int:
        """Differences, named or not."""
        return sum(table.differences for table in self.tables)

    @property
    def in_motion(self) -> int:
        """Keys that kept changing while they were looked at."""
        return sum(table.in_motion for table in self.tables)

    @property
    def clean(self) -> bool:
        return all(table.clean for table in self.tables)

    @property
    def rows_per_second(self) -> float:
        return (self.rows - self.rows_before) / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        figures = {"seconds": round(self.seconds, 2), "rows_per_second": round(self.rows_per_second)}
        return {**self.certificate, **figures, "spark_seconds": round(self.spark_seconds, 1)}

    def summary(self) -> str:
        """The certificate as a page to read."""
        return certificates.page(self.certificate)

    def raise_first(self) -> None:
        """Raise why a table could not be repaired; or DifferenceFound with a table and a key, unless all is equal."""
        if self.unmended is not None:
            raise self.unmended
        if self.clean:
            return
        named = [item for table in self.tables for item in table.named]
        told = [reason for table in self.tables for reason in table.unaccounted]
        first = f"; first: {named[0].table} key {key_json(named[0].key)} {named[0].kind}" if named else ""
        if told:
            first = f"; not accounted for: {told[0]}" + first
        if self.in_motion:
            first += f"; {counted(self.in_motion, 'key')} kept changing while looked at"
        by_hand = [item.by_hand for item in named]
        unnamed = [""] if self.total > len(named) or not named else []
        repair = f"`--repair` repairs {'the others' if any(by_hand) else 'them'}"
        raise DifferenceFound(
            f"{counted(self.total, 'difference')}{first}",
            hint="`migrate verify --show` names them, `migrate explain` shows what is known of a key,"
            f" {way_out([*by_hand, *unnamed], repair)}",
        )


def run(
    settings: Settings,
    tables: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    repair: bool = False,
    anew: bool = False,
) -> VerifyResult:
    """Compare every table of the config (or those named "database.table") with its places, row for row; the tables of a
    group together, whichever of them is named. An unfinished verification of the same is gone on with, unless `anew`.

    repair: rows that differ are refreshed by the owners of their partitions, which must run, and looked at again.
    Differences are a result, not an error; they and the certificate are stored in the state.
    Raises: PreflightError before `migrate init`, while a source is being replayed, and while another process is at the
    same; ConfigError for an unknown table; StopError for a row that cannot be compared; ServerError when a server stays
    away; OwnershipLost when another process went on with it.
    """
    asked = settings
    with database.opened(settings.state) as state:
        sessions = Sessions(settings := position.where_read(state, settings))
        with state.connect() as connection:
            leading.refuse_unless(connection, settings.name, "verify")
        every = chosen_tables(settings, state, None)
        check_groups(every)
        together = _together(every, chosen_tables(settings, state, tables))
        chosen = [planned for one in together for planned in one]
        _refuse_replays(settings, state, chosen)
        with state.connect() as connection:
            begun = VerificationScope.now(connection, settings, every)
        began = time.monotonic()
        with standing(settings, state, together, repair=repair, anew=anew) as stood:
            refresh, hurry = carried_out(refresher(asked, state)) if repair else None, hurrier(settings, state)
            follow = StreamWait(asked, state, hurry)
            left = [one for one in together if one[0].table.id not in stood.done]
            small = small_units(sessions, left)
            some = {one[0].table.id for units in small for one in units}
            left = [one for one in left if one[0].table.id not in some]

            def made(one: list[PlannedTable]) -> TableCheck:
                return stood.resume(TableCheck(settings, one, sessions, refresh=refresh, hurry=hurry, follow=follow))

            ahead = [made(one) for one in left[:1]]
            plans = [partial(check.plan, _FIRST_CHUNKS) for check in ahead]
            # Not closed where Spark does not start: a plan that is not waited for would have to end first.
            with spark_session(settings, settings.verify.master, plans) as spark, closing(sessions):
                started = time.monotonic()
                unmended: list[MigrateError] = []
                for units in small:
                    compared_together = VerifyTogether(spark, settings, stood, len(together), progress)
                    compared_together.check(units, made)
                    unmended += compared_together.unmended
                for one in left:
                    check = ahead.pop() if ahead else made(one)
                    stood.book([(check, _check(spark, settings, check, stood, len(together), progress))])
                    if check.unmended is not None:
                        unmended.append(check.unmended)
                _refuse_replays(settings, state, chosen)
                found = [stood.done[one[0].table.id] for one in together]
                flavours, after = set(map(sessions.flavours, together)), binlog_ends(settings, chosen)
                unlike = unlike_by_now(settings, chosen, begun.definitions)
                with state.begin() as connection:
                    now = VerificationScope.now(connection, settings, every, lock=True)
                    _refuse_lost(connection, settings, stood.number)
                    found = bound(found, together, begun, now, unlike, every=tables is None)
                    paper = _paper(settings, stood, after, found, flavours)
                    paper["added"] = begun.added(now)
                    paper["all_tables"] = tables is None and not paper["added"]
                    stood.finish(connection, paper)
                    for one, table in zip(together, found, strict=True):
                        rows = [(item.key, item.kind.value, item.detail) for item in table.named]
                        verification.add_difference(connection, settings.name, stood.number, one[0].table.id, rows)
                    if paper["all_tables"] and paper["clean"]:
                        failover.settle(connection, settings.name, stood.number, list(stood.before))
                        written = {target.name: target.address for target in settings.targets}
                        failover.settle_other(connection, settings.name, stood.number, written)
                        began_at = verification.consumed(connection, settings.name, stood.number)
                        compared.note_verified(connection, settings.name, began_at)
                seconds, start = time.monotonic() - started, started - began
                reason = next(iter(unmended), None)
                return VerifyResult(stood.number, found, seconds, start, paper, reason, stood.rows_before)


def _paper(
    settings: Settings,
    stood: VerificationRun,
    after: Mapping[str, str],
    found: Sequence[TableVerified],
    flavours: Collection[frozenset[str]],
) -> dict[str, Any]:
    """The certificate. after: where each source's log ends now."""
    points = [SourcePoint(name, before, after[name]) for name, before in stood.before.items()]
    return certificates.make(
        settings.name,
        stood.number,
        stood.started,
        datetime.fromtimestamp(StateClock(stood.state).now(), UTC),
        points,
        found,
        flavours=flavours,
        json_types=settings.verify.json_types,
        resumed=stood.resumed,
    )


def _together(every: Sequence[PlannedTable], chosen: Sequence[PlannedTable]) -> list[list[PlannedTable]]:
    """The chosen tables, each with all others of its group."""
    found: list[list[PlannedTable]] = []
    for planned in chosen:
        if not planned.group:
            found.append([planned])
        elif not any(one[0].group == planned.group for one in found):
            found.append([one for one in every if one.group == planned.group])
    return found


def _refuse_replays(settings: Settings, state: sa.Engine, tables: Sequence[PlannedTable]) -> None:
    """While a source is being replayed, rows at the target go back: nothing can be said of them until then."""
    for source, until in replay.sources(state, settings.name, [planned.table.source for planned in tables]).items():
        raise PreflightError(
            f"nothing is certified: source '{source}' is being replayed up to {until}, and rows go back until then",
            hint="`migrate drain`, then `migrate verify` again",
        )


def _refuse_lost(connection: sa.Connection, settings: Settings, verification: int) -> None:
    """What a target lost while it was compared may have been compared before (invariant fence-compares)."""
    if found := reached.lost_since(connection, settings.name, verification):
        raise PreflightError(
            f"nothing is certified: meanwhile {found[0]}", hint="`migrate drain`, then `migrate verify` again"
        )


def _check(
    spark: SparkSession,
    settings: Settings,
    check: TableCheck,
    stood: VerificationRun,
    tables: int,
    progress: Progress | None,
) -> TableVerified:
    check.begin()
    job, tasks = CheckJob(settings, check.tables), tasks_of(spark, settings)
    waves: deque[Future[list[Checked]]] = deque()
    with ThreadPoolExecutor(WAVES, thread_name_prefix="wave") as threads:
        while True:
            size = min(_WAVE_CHUNKS, _TASK_CHUNKS * tasks)
            while len(waves) < WAVES and (wave := check.wave(size)):
                waves.append(threads.submit(run_wave, spark, [CheckWork(job, one) for one in wave], tasks))
            if not waves:
                break
            check.settle(waves.popleft().result())
            stood.save(check)
            if progress is not None:
                progress(VerifyProgress.of(check, len(stood.done), tables))
    keep = partial(stood.save, check, at_once=True)
    keep()
    return check.finish(keep)


def main(arguments: Sequence[str] | None = None) -> int:
    """`spark-submit jobs/verify.py --config FILE [--table DATABASE.TABLE …] [--repair]`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="verify", description="Compare source and sharded target, row for row.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--repair", action="store_true", help="have rows that differ refreshed, and look again")
    parser.add_argument("--anew", action="store_true", help="do not resume a verification that was not finished")
    parser.add_argument("--table", action="append", help="database.table; may be given several times")
    options = parser.parse_args(arguments)
    try:
        result = run(load(options.config), options.table, repair=options.repair, anew=options.anew)
        sys.stdout.write(result.summary())
        result.raise_first()
    except MigrateError as error:
        sys.stderr.write(printable(f"error: {error}\n"))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
