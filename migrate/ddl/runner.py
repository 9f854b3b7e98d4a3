"""A run over shard tables: in their order, server beside server, within its limits, until all are new, or all old.

One process has a run at a time, by the lease of cutovers: none begins meanwhile, and an application's side stays.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby

import pymysql
import sqlalchemy as sa

from migrate.ddl import left_behind, load, unreached
from migrate.ddl.levels import Allowance
from migrate.ddl.plan import Plan
from migrate.ddl.problem import named
from migrate.ddl.servers import Servers
from migrate.ddl.statement import LogicalStatement, read
from migrate.ddl.step import Ended, Seen, StepJournal, look, step
from migrate.model.errors import MigrateError, PreflightError, ServerError
from migrate.model.words import counted
from migrate.mysql.errors import LOCK_WAIT, explain, number, passes, text
from migrate.state import cutover, ddl_member, switch_lease
from migrate.state import ddl as journal
from migrate.state.ddl import DdlRun, Goal, ShardRow, Stage
from migrate.state.ddl_member import GroupStatement
from migrate.state.switch import Side
from migrate.state.switch_lease import Busy, SwitchLease

BEGINS = "`migrate ddl run` begins one"
_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE = 30.0
_REACHED = {Goal.NEW: Stage.NEW, Goal.OLD: Stage.OLD}


@dataclass(frozen=True, slots=True)
class Limits:
    """first: shard tables to begin with; wait: seconds behind them before the others, None: the run pauses there.

    per_server: statements at a time at one server. stop_after: failures. lock_wait: seconds for a lock, attempts: how
    often. threads, lag: see `load.wait`; lag None: as the config says.
    """

    first: int = 0
    wait: float | None = None
    per_server: int = 1
    stop_after: int = 1
    lock_wait: int = 3
    attempts: int = 10
    threads: int = 50
    lag: float | None = None


@dataclass(frozen=True)
class RunReport:
    """run and its shard tables as the state has them; paused: it stopped behind its first ones, as it was asked to."""

    run: DdlRun
    rows: Sequence[ShardRow]
    paused: bool = False

    @property
    def reached(self) -> int:
        return sum(row.stage is _REACHED[self.run.goal] for row in self.rows)


Changed = Callable[[ShardRow], None]
"""Is told of each shard table as it changes."""


@contextmanager
def held(servers: Servers, state: sa.Engine) -> Iterator[SwitchLease]:
    """With the lease: no cutover begins meanwhile.

    Raises PreflightError while another process has it, or a cutover that was killed is not ended: nobody could give
    writes back until this were done.
    """
    look = "`migrate ddl status` shows the last run"
    with switch_lease.alone(servers.name, servers.lease_seconds, state, look) as lease:
        with state.connect() as connection:
            last = cutover.latest(connection, servers.name)
        if last is not None and last.open:
            raise Busy(
                "a cutover or rollback is not ended, and applications may be stopped by it",
                hint="`migrate cutover --abort` gives writes back; `migrate status` says where it stands",
            )
        yield lease


def begin(servers: Servers, state: sa.Engine, plan: Plan, of: GroupStatement | None = None) -> int:
    """Write a run and its shard tables down; returns its number. Under the lease. of: the statement of a table of a
    group that it brings to the targets. Raises PreflightError."""
    plan.refuse()
    if not plan.shards:
        raise PreflightError("there is no shard table to alter", hint="`migrate ddl plan` shows which ones are meant")
    with state.begin() as connection:
        refuse_unended(connection, servers.name)
        allowed, loses = str(plan.bound), "; ".join(plan.undo_loses)
        run = journal.create(connection, servers.name, plan.logical.sql, allowed, loses, plan.rows())
        if of is not None:
            ddl_member.note(connection, servers.name, run, of)
        return run


def refuse_unended(connection: sa.Connection, name: str) -> None:
    """Raises PreflightError where the last run is to be ended first."""
    if (last := left_behind.unended(connection, name, journal.latest(connection, name))) is not None:
        way = unreached.way_out(last, journal.of_run(connection, name, last.number))
        raise PreflightError(f"run {last.number} is not finished: {last.statement}", hint=way)


def found(servers: Servers, state: sa.Engine, number: int | None = None) -> RunReport:
    """A run as the state has it, the last one or that of a number. Raises PreflightError where there is none."""
    with state.connect() as connection:
        run = journal.latest(connection, servers.name, number)
        if run is None:
            which = "no run" if number is None else f"no run {number}"
            raise PreflightError(f"there is {which} of '{servers.name}'", hint=BEGINS)
        return RunReport(run, journal.of_run(connection, servers.name, run.number))


def refuse_undo(report: RunReport, *, allow_data_loss: bool) -> None:
    """Raises PreflightError where tables are new, and no statement, or none without a loss, takes that back; and where
    the publisher brought what the source keeps: rows with it come on."""
    place, run = journal.brought_from(report.run.statement), report.run
    if place is not None and run.finished is not None and run.goal is Goal.NEW:
        raise PreflightError(
            f"run {run.number} is the publisher's: it brought a statement of source '{place[0]}' to the targets, and"
            " the source would keep what the statement made",
            hint="take it back at the source first, as any other statement (docs/ddl.md#beside-a-migration)",
        )
    altered = [row for row in report.rows if row.stage not in (Stage.WAITING, Stage.OLD)]
    stuck = [row for row in report.rows if row.stage is Stage.NEW and row.undo is None]
    if stuck:
        raise PreflightError(
            f"run {report.run.number} cannot be undone: no statement takes it back at {named(stuck)}",
            hint="`migrate ddl resume` brings the other tables to the same definition",
        )
    if altered and report.run.undo_loses and not allow_data_loss:
        raise PreflightError(
            f"taking run {report.run.number} back loses {report.run.undo_loses}", hint="--allow-data-loss allows it"
        )


@dataclass
class Runner:
    """Takes a run to its goal. changed: is told of each shard table that changes; say: lines for people."""

    servers: Servers
    state: sa.Engine
    still_ours: Callable[[sa.Connection], None]
    limits: Limits
    changed: Changed
    say: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    _failed: int = 0
    _refused: dict[int, int] = field(default_factory=dict)
    _broken: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go(self, number: int, goal: Goal, bound: Allowance | None = None) -> RunReport:
        """Until each shard table is as the goal says, or something stops it.

        bound: instead of what the run was begun with. Raises: StopError for a table that is neither old nor new, and
        for a TRUNCATE that comes too late; TableRefused where a server refused, ServerError for what may pass; what the
        state raises. Ctrl-C lets statements that run come to their end.
        """
        with self.state.begin() as connection:
            self.still_ours(connection)
            run = journal.latest(connection, self.servers.name, number)
            if goal is Goal.NEW and run is not None:
                left_behind.refuse_late(connection, self.servers.name, run)
            journal.aim(connection, self.servers.name, number, goal, None if bound is None else str(bound))
        report = found(self.servers, self.state, number)
        notes = StepJournal(self.state, self.servers.name, number, self.still_ours)
        work = _Work(read(report.run.statement), goal, Allowance.of(report.run.allowed), notes)
        todo = [row for row in report.rows if row.stage is not _REACHED[goal]]
        todo = todo if goal is Goal.NEW else todo[::-1]
        behind = _behind_drain(report.run, todo) if goal is Goal.OLD else []
        todo = [row for row in todo if row not in behind]
        paused = self._canary(work, todo)
        if not paused:
            for _, rows in groupby(todo[self.limits.first :], key=lambda row: row.side):
                if not self.stop.is_set() and not self._failed:  # the sides have an order
                    self._together(work, list(rows))
        if behind and not paused and not self._failed and not self.stop.is_set():
            self.say("run `migrate drain`, then `migrate ddl resume`: messages may name what the other side loses next")
            paused = True
        return self._settled(work, found(self.servers, self.state, number), paused=paused)

    def _canary(self, work: _Work, todo: Sequence[ShardRow]) -> bool:
        """The first tables, one after the other; whether the run pauses behind them."""
        for row in todo[: self.limits.first]:
            if not self.stop.is_set():
                self._one(work, row)
        if not self.limits.first or len(todo) <= self.limits.first or self.stop.is_set():
            return False
        if self.limits.wait is None:
            return True
        self.say(f"{counted(self.limits.first, 'table')} done; the others follow in {self.limits.wait:g} s")
        self._sleep(self.limits.wait)
        return False

    def _sleep(self, seconds: float) -> None:
        try:
            self.stop.wait(seconds)
        except KeyboardInterrupt:
            self.stop.set()

    def _together(self, work: _Work, rows: Sequence[ShardRow]) -> None:
        """Server beside server; those of one server in their order."""
        queues: dict[str, deque[ShardRow]] = {}
        for row in rows:
            queues.setdefault(row.server, deque()).append(row)
        with ThreadPoolExecutor(len(queues) * self.limits.per_server) as pool:
            workers = [
                pool.submit(self._worker, work, queue)
                for queue in queues.values()
                for _ in range(self.limits.per_server)
            ]
            try:
                for worker in workers:
                    worker.result()
            except KeyboardInterrupt:
                self.say("stopping; statements that run come to their end")
                self.stop.set()

    def _worker(self, work: _Work, queue: deque[ShardRow]) -> None:
        while not self.stop.is_set():
            with self._lock:
                row = queue.popleft() if queue else None
            if row is None:
                return
            self._one(work, row)

    def _one(self, work: _Work, row: ShardRow) -> None:
        """One shard table to its end; nothing is raised: what stops the run is kept for `_settled`."""
        try:
            ended = self._tried(work, row)
        except BaseException as error:  # the others come to their end, too
            with self._lock:
                self._broken.append(error)
            self.stop.set()
            return
        self.changed(replace(row, stage=ended.stage, detail=ended.detail))
        if ended.stage is _REACHED[work.goal] or ended.stage is Stage.WAITING:
            return
        with self._lock:
            self._failed += 1
            if not ended.passes:
                self._refused[row.number] = ended.error
            if ended.stage is Stage.ALTERED or self._failed >= self.limits.stop_after:
                self.stop.set()

    def _tried(self, work: _Work, row: ShardRow) -> Ended:
        """Again with a longer pause while a lock, or the server, is not to be had."""
        pause, why, codes = _PAUSE_SECONDS, "", list[int]()
        for attempt in range(1, self.limits.attempts + 1):
            try:
                return self._stepped(work, row)
            except (pymysql.MySQLError, OSError, ServerError) as error:
                if not isinstance(error, ServerError) and not passes(error):
                    raise explain(error, str(row)) from error
                why = error.message if isinstance(error, ServerError) else text(error)
                codes.append(number(error))
            if attempt == self.limits.attempts or self.stop.is_set():
                break
            self.say(f"{row}: {why}; attempt {attempt + 1} in {pause:g} s")
            self.stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if codes == [LOCK_WAIT] * self.limits.attempts:  # somebody keeps it: waiting longer is no remedy
            return self._given_up(work, row, f"{why}, in each of {counted(len(codes), 'attempt')}", LOCK_WAIT)
        return self._given_up(work, row, why)

    def _stepped(self, work: _Work, row: ShardRow) -> Ended:
        side = Side(row.side)
        lag = self.servers.lag if self.limits.lag is None else self.limits.lag
        with self.servers.session(side, row.server, lock_wait=self.limits.lock_wait) as session:
            if not load.wait(self.servers, session, self.limits.threads, lag, self.stop, self.say):
                return Ended(Stage.WAITING)
            self.changed(replace(row, stage=Stage.BEGUN if work.goal is Goal.NEW else Stage.UNDOING))
            return step(session, work.logical, row, work.goal, work.bound, work.notes)

    @staticmethod
    def _given_up(work: _Work, row: ShardRow, why: str, error: int = 0) -> Ended:
        work.notes.end(row, Stage.FAILED, why)
        return Ended(Stage.FAILED, why, error, passes=not error)

    def _settled(self, work: _Work, report: RunReport, *, paused: bool) -> RunReport:
        for error in self._broken:
            raise error
        if report.reached == len(report.rows) and self._came_back(work, report.rows):
            report = found(self.servers, self.state, report.run.number)
        if report.reached == len(report.rows):
            with self.state.begin() as connection:
                self.still_ours(connection)
                journal.finish(connection, self.servers.name, report.run.number)
            return found(self.servers, self.state, report.run.number)
        if why := unreached.reason(report.run, report.rows, report.reached, self._refused):
            raise why
        return RunReport(report.run, report.rows, paused=paused)

    def _came_back(self, work: _Work, rows: Sequence[ShardRow]) -> bool:
        """Whether a table is as before again, as where a server came back with less: it has to be altered once more. Or
        neither: somebody else altered it since."""
        left, back = Seen.OLD if work.goal is Goal.NEW else Seen.NEW, False
        for (side, server), some in groupby(rows, key=lambda row: (row.side, row.server)):
            with self.servers.session(Side(side), server) as session:
                for row in some:
                    seen, detail = look(session, work.logical, row)
                    if seen is left:
                        work.notes.end(row, Stage.FAILED, "it is as before again; did its server come back with less?")
                    elif seen is Seen.OTHER:
                        work.notes.end(row, Stage.ALTERED, detail)
                    back = back or seen in (left, Seen.OTHER)
        return back


def _behind_drain(run: DdlRun, todo: Sequence[ShardRow]) -> list[ShardRow]:
    """Of an undo that loses values, the tables of the standby side while the active side, the first one, has any left:
    a message that names what is gone would stop its partition there.
    """
    altered = [row.side for row in todo if row.stage is not Stage.WAITING]
    return [row for row in todo if row.side != altered[0]] if run.undo_loses and len({*altered}) > 1 else []


@dataclass(frozen=True)
class _Work:
    """What is done to each shard table of a run."""

    logical: LogicalStatement
    goal: Goal
    bound: Allowance
    notes: StepJournal


def stopped(report: RunReport) -> MigrateError | None:
    """The error of a run that was stopped before its goal, by Ctrl-C for example; None where it came to it, or pauses
    as it was asked to."""
    if report.run.finished is not None or report.paused:
        return None
    return unreached.interrupted(report.run, report.rows, report.reached)
