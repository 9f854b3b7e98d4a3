"""`migrate alarms`: the process that sends alarms, a test of its receivers, and what is raised now."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from migrate.alarms.letter import Status, trial
from migrate.alarms.process import watch
from migrate.alarms.receivers import deliver
from migrate.cli.options import Json, out, print_json
from migrate.model.errors import ConfigError, MigrateError, ServerError
from migrate.processes.parent import follow_parent
from migrate.state import alarms as stored
from migrate.state import database

alarms = typer.Typer(
    name="alarms",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Send alarms to the receivers under alarms.to: test them, list what is raised, or run the process.",
)


@alarms.command("run")
def run(context: typer.Context) -> None:
    """Check every few seconds and send alarms, until SIGTERM or Ctrl-C. `migrate run` starts it where needed."""
    follow_parent()
    watch(context.obj.load("alarms"))


@alarms.command("test")
def try_out(
    context: typer.Context,
    to: Annotated[str | None, typer.Option("--to", help="Only this receiver, by its name.")] = None,
) -> None:
    """Send one alarm of the kind `test`, and its end, to each receiver."""
    settings = context.obj.load("alarms")
    receivers = [one for one in settings.alarms.to if to in (None, one.name)]
    if not receivers:
        known = ", ".join(one.name for one in settings.alarms.to) or "none"
        raise ConfigError("there is no such receiver", hint=f"receivers under alarms.to: {known}")
    refused = []
    for receiver in receivers:
        try:
            for status in (Status.RAISED, Status.RESOLVED):
                deliver(receiver, trial(settings.name, status), settings.alarms)
        except MigrateError as error:
            out.print(error.message, markup=False)
            refused.append(receiver.name)
        else:
            out.print(f"receiver '{receiver.name}': taken", markup=False)
    if refused:
        raise ServerError(f"not taken by {', '.join(refused)}", hint="docs/alarms.md shows how receivers are written")


@alarms.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """What is raised now, and since when."""
    settings = context.obj.load("alarms")
    with database.opened(settings.state) as state, state.connect() as connection:
        found = [one for one in stored.every(connection, settings.name).values() if one.raised and not one.resolved]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        out.print("no alarm is raised")
        return
    rows = Table("alarm", "about", "since (UTC)", "what", "next")
    for one in found:
        rows.add_row(one.kind, one.subject, f"{one.since:%Y-%m-%d %H:%M:%S}", one.message, one.remedy)
    out.print(rows)
