"""`migrate ddl`: a statement over all shard tables of a logical table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer

from migrate.cli.options import Json, print_json
from migrate.cli.told_ddl import Progress, plan_json, run_json, summary, tell_plan, tell_run
from migrate.ddl import live_tables, runner, shards
from migrate.ddl.levels import Algorithm, Allowance, Lock
from migrate.ddl.plan import Plan, planned
from migrate.ddl.runner import Limits, Runner, RunReport
from migrate.ddl.servers import Servers, load_servers, of_settings
from migrate.ddl.shards import Wanted, WhichSide
from migrate.ddl.statement import LogicalStatement, read
from migrate.model.errors import ConfigError, PreflightError, ServerError, StopError
from migrate.processes import logs
from migrate.settings.shards import is_of_migration
from migrate.state import database
from migrate.state.ddl import Goal

ddl = typer.Typer(
    name="ddl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run one statement over all shard tables of a logical table: plan, run, resume, undo.",
)

Statement = Annotated[str, typer.Argument(help="ALTER TABLE, CREATE INDEX, DROP INDEX, TRUNCATE or DROP TABLE.")]
Nodes = Annotated[
    str | None,
    typer.Option(
        "--nodes", metavar="EXPR", help="Shard tables that belong to no migration, as ds_${0..1}.orders_${0..3}."
    ),
]
Rule = Annotated[Path | None, typer.Option("--rule", metavar="FILE", help="The same, from a ShardingSphere rule file.")]
Side = Annotated[WhichSide, typer.Option("--side", help="Of a migration: alter both sides, or one.")]
Loss = Annotated[bool, typer.Option("--allow-data-loss", help="Allow a statement that loses values or rows.")]
MostAlgorithm = Annotated[Algorithm, typer.Option("--algorithm", help="The heaviest algorithm that is allowed.")]
MostLock = Annotated[Lock, typer.Option("--lock", help="The heaviest lock that is allowed while it works.")]
OtherAlgorithm = Annotated[
    Algorithm | None, typer.Option("--algorithm", help="The heaviest algorithm from now on; default: as before.")
]
OtherLock = Annotated[Lock | None, typer.Option("--lock", help="The heaviest lock from now on; default: as before.")]
First = Annotated[int, typer.Option("--first", min=0, help="Alter this many tables first, then pause.")]
Wait = Annotated[
    float | None, typer.Option("--wait", min=0, help="With --first: seconds, then the others follow by themselves.")
]
PerServer = Annotated[int, typer.Option("--per-server", min=1, help="Statements at a time at one server.")]
StopAfter = Annotated[int, typer.Option("--stop-after", min=1, help="Stop after so many tables that failed.")]
LockWait = Annotated[int, typer.Option("--lock-wait", min=1, help="Seconds that a statement waits for a lock.")]
Attempts = Annotated[int, typer.Option("--attempts", min=1, help="How often a table is tried while it is locked.")]
Threads = Annotated[
    int, typer.Option("--max-threads-running", min=0, help="Wait while a server has more threads running. 0: never.")
]
Lag = Annotated[
    float | None,
    typer.Option("--max-replica-lag-seconds", min=0, help="Wait while a replica in the config is later. 0: never."),
]
Number = Annotated[int | None, typer.Option("--run", help="The number of the run; default: the last one.")]


@ddl.command("plan")
def plan(
    context: typer.Context,
    statement: Statement,
    nodes: Nodes = None,
    rule: Rule = None,
    side: Side = WhichSide.BOTH,
    allow_data_loss: Loss = False,
    algorithm: MostAlgorithm = Algorithm.INPLACE,
    lock: MostLock = Lock.NONE,
    as_json: Json = False,
) -> None:
    """Try a statement on scratch tables, and show what it takes of each shard table. Changes nothing."""
    logical = read(statement)
    servers = _servers(context, nodes, rule)
    with database.opened(servers.state) as state:
        wanted = _wanted(context, servers, state, logical, (nodes, rule), side)
    found = planned(servers, logical, wanted, Allowance(algorithm, lock), allow_data_loss=allow_data_loss)
    if as_json:
        print_json(plan_json(found))
    else:
        tell_plan(found)
    if found.problems:
        raise PreflightError(f"the statement would not be run: {found.problems[0].what}", hint=found.problems[0].hint)


@ddl.command("run")
def run(
    context: typer.Context,
    statement: Statement,
    nodes: Nodes = None,
    rule: Rule = None,
    side: Side = WhichSide.BOTH,
    allow_data_loss: Loss = False,
    algorithm: MostAlgorithm = Algorithm.INPLACE,
    lock: MostLock = Lock.NONE,
    first: First = 0,
    wait: Wait = None,
    per_server: PerServer = 1,
    stop_after: StopAfter = 1,
    lock_wait: LockWait = 3,
    attempts: Attempts = 10,
    max_threads_running: Threads = 50,
    max_replica_lag_seconds: Lag = None,
    as_json: Json = False,
) -> None:
    """Plan a statement, and run it at every shard table."""
    _refuse_wait_alone(first, wait)
    logical = read(statement)
    servers = _servers(context, nodes, rule)
    if servers.settings is None:
        database.create(servers.state)
    limits = Limits(
        first, wait, per_server, stop_after, lock_wait, attempts, max_threads_running, max_replica_lag_seconds
    )
    with database.opened(servers.state) as state, runner.held(servers, state) as lease:
        with state.connect() as connection:
            runner.refuse_unended(connection, servers.name)
        wanted = _wanted(context, servers, state, logical, (nodes, rule), side)
        found: Plan = planned(servers, logical, wanted, Allowance(algorithm, lock), allow_data_loss=allow_data_loss)
        number = runner.begin(servers, state, found)
        work = partial(Runner, servers, state, lease.still_ours, limits)
        _go(work, number, Goal.NEW, as_json=as_json)


@ddl.command("resume")
def resume(
    context: typer.Context,
    algorithm: OtherAlgorithm = None,
    lock: OtherLock = None,
    first: First = 0,
    wait: Wait = None,
    per_server: PerServer = 1,
    stop_after: StopAfter = 1,
    lock_wait: LockWait = 3,
    attempts: Attempts = 10,
    max_threads_running: Threads = 50,
    max_replica_lag_seconds: Lag = None,
    as_json: Json = False,
) -> None:
    """Continue the last run, in the direction that it had: a run, or an undo."""
    _refuse_wait_alone(first, wait)
    limits = Limits(
        first, wait, per_server, stop_after, lock_wait, attempts, max_threads_running, max_replica_lag_seconds
    )
    servers = _servers(context)
    with _runs(servers) as state, runner.held(servers, state) as lease:
        last = runner.found(servers, state)
        bound = _bound(last, algorithm, lock)
        work = partial(Runner, servers, state, lease.still_ours, limits)
        _go(work, last.run.number, last.run.goal, bound, as_json=as_json)


@ddl.command("undo")
def undo(
    context: typer.Context,
    allow_data_loss: Loss = False,
    algorithm: OtherAlgorithm = None,
    lock: OtherLock = None,
    per_server: PerServer = 1,
    stop_after: StopAfter = 1,
    lock_wait: LockWait = 3,
    attempts: Attempts = 10,
    max_threads_running: Threads = 50,
    max_replica_lag_seconds: Lag = None,
    as_json: Json = False,
) -> None:
    """Take the last run back: every shard table gets its definition from before."""
    limits = Limits(0, None, per_server, stop_after, lock_wait, attempts, max_threads_running, max_replica_lag_seconds)
    servers = _servers(context)
    with _runs(servers) as state, runner.held(servers, state) as lease:
        last = runner.found(servers, state)
        runner.refuse_undo(last, allow_data_loss=allow_data_loss)
        bound = _bound(last, algorithm, lock)
        work = partial(Runner, servers, state, lease.still_ours, limits)
        _go(work, last.run.number, Goal.OLD, bound, as_json=as_json)


@ddl.command("status")
def status(context: typer.Context, number: Number = None, as_json: Json = False) -> None:
    """Show a run, and what each of its shard tables is."""
    servers = _servers(context)
    with _runs(servers) as state:
        found = runner.found(servers, state, number)
        group = None if servers.settings is None else shards.progress_of(servers.settings, state, found.run.number)
    if as_json:
        print_json(run_json(found) | {"group": None if group is None else asdict(group)})
    else:
        tell_run(found, group)


@contextmanager
def _runs(servers: Servers) -> Iterator[sa.Engine]:
    """The state, with its runs. Raises PreflightError where no run can be in it, as nothing made its tables."""
    try:
        with database.opened(servers.state) as state:
            yield state
    except database.NotSetUp as error:
        if servers.settings is not None:
            raise
        raise PreflightError(f"there is no run of '{servers.name}'", hint=runner.BEGINS) from error


def _refuse_wait_alone(first: int, wait: float | None) -> None:
    if wait is not None and not first:
        raise ConfigError(
            "--wait goes with --first only",
            hint="--first says how many tables come before the wait; without it the run does not pause",
        )


def _servers(context: typer.Context, nodes: str | None = None, rule: Path | None = None) -> Servers:
    """Those of the migration in the config file; where shard tables are named, no migration has to be in it."""
    if context.obj.reverse:
        raise ConfigError("`migrate ddl` takes no --reverse", hint="--side says which side is altered")
    if nodes is not None and rule is not None:
        raise ConfigError(
            "--nodes and --rule exclude each other",
            hint="leave one of the two out: --rule takes the shard tables from a rule file, --nodes as they are typed",
        )
    if nodes is None and rule is None and is_of_migration(context.obj.path):
        return of_settings(context.obj.load("ddl"))
    servers, logging = load_servers(context.obj.path)
    logs.configure(logging, "ddl")
    return servers


def _wanted(
    context: typer.Context,
    servers: Servers,
    state: sa.Engine,
    logical: LogicalStatement,
    named: tuple[str | None, Path | None],
    side: WhichSide,
) -> Wanted:
    nodes, rule = named
    if nodes is None and rule is None:
        if servers.settings is None:
            raise ConfigError("the config names no tables", hint="--nodes or --rule say which shard tables are meant")
        return shards.of_migration(servers.settings, state, logical, side)
    option = "--rule" if nodes is None else "--nodes"
    if side is not WhichSide.BOTH:
        raise ConfigError(
            f"--side is for tables of a migration, and {option} names target tables alone",
            hint=f"leave {option} out for the tables of the migration in the config file; or --side, for those that"
            f" {option} names",
        )
    if nodes is not None:
        wanted = shards.of_nodes(servers, nodes)
    else:
        wanted = shards.of_rule_file(servers, logical, Path(str(rule)))
    load = partial(context.obj.load, "ddl") if is_of_migration(context.obj.path) else None
    return replace(wanted, refused=live_tables.problems(servers, state, wanted.shards, option, load))


def _bound(last: RunReport, algorithm: Algorithm | None, lock: Lock | None) -> Allowance:
    before = Allowance.of(last.run.allowed)
    return Allowance(algorithm or before.algorithm, lock or before.lock)


def _go(made: partial[Runner], number: int, goal: Goal, bound: Allowance | None = None, *, as_json: bool) -> None:
    """Take a run to its goal, and show it. made: the Runner, but for whom it tells of its progress. Raises as
    `Runner.go`; JSON then has how far the run came."""
    with Progress(silent=as_json) as progress:
        work = made(progress.changed, progress.say)
        try:
            done = work.go(number, goal, bound)
        except (ServerError, StopError):
            if as_json:
                print_json(run_json(runner.found(work.servers, work.state, number)))
            raise
    _tell(done, as_json=as_json)


def _tell(report: RunReport, *, as_json: bool) -> None:
    if as_json:
        print_json(run_json(report))
    else:
        typer.echo(summary(report))
    if error := runner.stopped(report):
        raise error
