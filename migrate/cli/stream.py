"""`migrate drain`, `migrate refresh` and `migrate repartition`."""

from __future__ import annotations

from typing import Annotated

import typer

from migrate.cli.options import Json, SourceOfTable, Table, Timeout, out, print_json
from migrate.cli.progress import WaitNotice
from migrate.commands import drain as draining
from migrate.commands import refresh as refreshing
from migrate.commands import repartition as repartitioning
from migrate.model.words import counted
from migrate.state import database


def drain(
    context: typer.Context,
    timeout: Timeout = 600.0,
    as_json: Json = False,
) -> None:
    """Wait until everything the sources have logged up to now is at the target."""
    settings = context.obj.load("drain")
    waiting = WaitNotice()
    with database.opened(settings.state) as state:
        now = draining.drain(settings, state, timeout, lambda now: waiting.say(draining.left(now)))
    if as_json:
        print_json({**now.as_dict(), "drained": True})
    else:
        out.print(
            f"drained: {counted(now.rows_applied, 'row change')} applied, "
            + ("none waiting" if now.drained else f"since then {draining.left(now)}")
        )


def refresh(
    context: typer.Context,
    table: Table,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="""The rows' keys. A key of several columns is a JSON list: '["7", "eu"]'."""
        ),
    ],
    source: SourceOfTable = None,
    timeout: Timeout = 60.0,
) -> None:
    """Read single rows at the source again, and write or delete them at every place of the target."""
    settings = context.obj.load("refresh")
    with database.opened(settings.state) as state:
        count = refreshing.refresh(settings, state, table, keys, source, timeout)
    out.print(f"{count} {'row' if count == 1 else 'rows'} of {table} refreshed")


def repartition(
    context: typer.Context,
    partitions: Annotated[int, typer.Argument(help="The new number of partitions, above the present one.")],
    topic: Annotated[str | None, typer.Option(help="Which topic; needed when there are several.")] = None,
) -> None:
    """Give a topic more partitions. Only while nothing runs and everything published is at the target."""
    settings = context.obj.load("repartition")
    with database.opened(settings.state) as state:
        now = repartitioning.repartition(settings, state, partitions, topic)
    out.print(f"topic {now.name} has {counted(now.partitions, 'partition')}; next: `migrate run`")
