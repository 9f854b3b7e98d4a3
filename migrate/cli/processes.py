"""`migrate run`, and each process that it starts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from migrate.cli.options import out
from migrate.commands import rewind as rewinding
from migrate.model.errors import ConfigError
from migrate.model.words import counted
from migrate.processes import entry, supervisor
from migrate.processes.parent import follow_parent
from migrate.state import database
from migrate.state.position import Position


def run(context: typer.Context) -> None:
    """Run every process of the migration under one supervisor, until SIGTERM or Ctrl-C."""
    settings = context.obj.load("run")
    names = ", ".join(supervisor.process_names(settings, reverse=context.obj.reverse))
    out.print(f"supervising {names}; logs in {settings.run_dir / 'logs'}")
    sys.stdout.flush()
    supervisor.run(settings, context.obj.path, reverse=context.obj.reverse)


def publish(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Which source; needed when there are several.")] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Publish again from an earlier place: binlog.000012:4711, a GTID set, or 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --from: do not ask for confirmation.")] = False,
    clear_batches: Annotated[
        bool,
        typer.Option(
            "--clear-batches", help="Only clear the list of batches that a killed publisher left in `status`."
        ),
    ] = False,
) -> None:
    """Publish one source's binlog to the topic."""
    settings = context.obj.load()
    if source is None and len(settings.sources) > 1:
        names = ", ".join(item.name for item in settings.sources)
        raise ConfigError("there are several sources", hint=f"choose one with --source: {names}")
    name = settings.source(source or settings.sources[0].name).name
    settings = context.obj.load(f"publish:{name}")
    if clear_batches:
        with database.opened(settings.state) as state:
            forgotten = rewinding.clear_batches(settings, state, name)
        out.print(f"{counted(forgotten, 'batch', 'batches')} forgotten")
        return
    if place is not None:
        with database.opened(settings.state) as state:
            rewinding.rewind(settings, state, name, place, lambda *positions: yes or _confirm_rewind(*positions))
    follow_parent()
    entry.publish(settings, name)


def _confirm_rewind(before: Position, after: Position) -> bool:
    out.print(
        f"source {before.source} is published to {before.file}:{before.pos}. Everything from"
        f" {after.file}:{after.pos} on would be published again: rows at the target go back, and forward again."
    )
    return sys.stdin.isatty() and typer.confirm("Go back?")


def consume(context: typer.Context) -> None:
    """Read the topic, record every message, merge and write to the target."""
    follow_parent()
    entry.consume(context.obj.load("consume"))


def commit(context: typer.Context) -> None:
    """Commit the offsets of consumed messages, and clean up old records."""
    follow_parent()
    entry.commit(context.obj.load("commit"))


def requeue(context: typer.Context) -> None:
    """Bring delayed deletes and foreign key markers back when they are due."""
    follow_parent()
    entry.requeue(context.obj.load("requeue"))
