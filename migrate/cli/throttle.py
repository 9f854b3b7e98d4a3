"""`migrate throttle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from migrate.cli.options import Json, out, print_json
from migrate.copy import operator_limits
from migrate.model.errors import ConfigError
from migrate.model.words import counted
from migrate.state import database
from migrate.status.told_copy import told_copy, told_skew
from migrate.target.stored_plan import stored_plan

if TYPE_CHECKING:
    from jobs.full_copy import TableCopied


def throttle(
    context: typer.Context,
    chunks: Annotated[int | None, typer.Option(help="Maximum number of chunks started together.")] = None,
    min_chunks: Annotated[
        int | None, typer.Option(help="Minimum number of chunks started together while a limit is exceeded.")
    ] = None,
    rows_per_second: Annotated[
        int | None, typer.Option(help="Limit: rows read per second. 0 means no limit, here and below.")
    ] = None,
    max_threads_running: Annotated[
        int | None, typer.Option(help="Limit: Threads_running of a source or target.")
    ] = None,
    max_history_length: Annotated[
        int | None, typer.Option(help="Limit: InnoDB history list length of a source or target.")
    ] = None,
    max_replica_lag_seconds: Annotated[float | None, typer.Option(help="Limit: lag of a replica, in seconds.")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Start no new chunks until the copy is resumed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Start chunks again after a pause.")] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Use the values of the config again, and end a pause.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Change the limits of running and later copies. Without options: show the limits and the running copies."""
    settings = context.obj.load("throttle")
    if pause + resume + reset > 1:
        raise ConfigError("--pause, --resume and --reset exclude each other", hint="use one of them")
    given = {
        "chunks": chunks,
        "min_chunks": min_chunks,
        "rows_per_second": rows_per_second,
        "max_threads_running": max_threads_running,
        "max_history_length": max_history_length,
        "max_replica_lag_seconds": max_replica_lag_seconds,
        "paused": True if pause else False if resume else None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    with database.opened(settings.state) as state:
        plan = stored_plan(settings, state)
        if changes or reset:
            operator_limits.change(settings, state, changes, reset=reset)
        now = operator_limits.read(settings, state, plan)
    if as_json:
        print_json(now.as_dict())
        return
    _show(now)


def _show(now: operator_limits.Throttle) -> None:
    told = now.as_dict()
    for name, value in told["limits"].items():
        if name == "paused":
            continue
        whence = "as asked" if name in told["asked"] else "as configured"
        none = value == 0 and "chunks" not in name
        out.print(f"{name}: {'no limit' if none else f'{value:,g}'} ({whence})")
    if now.limits.paused:
        out.print("PAUSED; `migrate throttle --resume` ends the pause")
    if not now.copies:
        out.print("no copy runs")
    for table, one in told["copies"].items():
        out.print(f"copy of {table}{told_copy(one, 'copying')}", markup=False)
        for reading in one["measured"]:
            value = reading["note"] if reading["value"] is None else f"{reading['value']:,.0f} {reading['signal']}"
            out.print(f"  {reading['server']}: {value}", markup=False)


def told_copied(table: TableCopied) -> str:
    """What `migrate copy` did for a table."""
    before = " (before this run)" if table.was_copied else ""
    told = f"{table.table}: {counted(table.counts.rows_inserted, 'row')} inserted"
    return f"{told}, {table.counts.rows_present} were there already{before}{told_skew(table.skew)}"
