"""`migrate doctor`: whether every part of a migration is in order."""

from __future__ import annotations

import typer

from migrate.cli.options import Json, print_json
from migrate.cli.told_results import as_rows, tell_results
from migrate.commands.doctor import examine
from migrate.preflight.result import problems


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Show versions, reachability, clocks, disks, state, leases and Kafka, one line each, with remedies.

    Exits with 0 where nothing needs a remedy, else with 3. Changes nothing.
    """
    settings = context.obj.load("doctor")
    results = examine(settings, reverse=context.obj.reverse)
    wrong = problems(results)
    if as_json:
        print_json({"ok": not wrong, "results": as_rows(results)})
    else:
        tell_results(results)
    if wrong:
        raise typer.Exit(3)
