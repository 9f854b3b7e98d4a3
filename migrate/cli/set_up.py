"""`migrate preflight` and `migrate init`."""

from __future__ import annotations

import typer

from migrate.cli.options import Json, out, print_json
from migrate.cli.told_results import as_rows, tell_results
from migrate.commands import init as initialising
from migrate.model.words import counted
from migrate.preflight import run as preflights


def preflight(context: typer.Context, as_json: Json = False) -> None:
    """Check sources, tables, targets, state and Kafka; show what must be fixed, and how. Leaves nothing behind."""
    settings = context.obj.load()
    report = preflights.run(settings, services=True, reverse=bool(context.obj.reverse_of))
    if as_json:
        print_json({"ok": not report.problems, "results": as_rows(report.results)})
    else:
        tell_results(report.results)
    if report.problems:
        raise typer.Exit(3)


def init(context: typer.Context) -> None:
    """Create the state database, the topics and the target tables. A second run changes nothing that exists."""
    settings = context.obj.load()
    done = initialising.initialise(settings, context.obj.text, out.print, reverse_of=context.obj.reverse_of)
    following = "`migrate --reverse run`" if context.obj.reverse else "`migrate run`, then `migrate copy`"
    out.print(f"migration {settings.name} is ready; next: {following}")
    tables, topics = counted(done.tables_created, "target table"), counted(done.topics_created, "topic")
    out.print(f"{tables} and {topics} created")
