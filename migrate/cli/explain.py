"""`migrate explain`, as people read it."""

from __future__ import annotations

from typing import Annotated

import typer

from migrate.cli.options import Json, SourceOfTable, Table, out, print_json
from migrate.commands import explain as explaining
from migrate.commands.told_row import lines_of
from migrate.state import database


def explain(
    context: typer.Context,
    table: Table,
    key: Annotated[
        str, typer.Argument(help="""The row's key. A key of several columns is a JSON list: '["7", "eu"]'.""")
    ],
    source: SourceOfTable = None,
    messages: Annotated[
        int, typer.Option(help="How many of the last messages of the row's partition to read.", min=0)
    ] = 20_000,
    as_json: Json = False,
) -> None:
    """Show all that is known about one row: places, messages, records, decisions, parked and delayed changes."""
    settings = context.obj.load("explain")
    with database.opened(settings.state) as state:
        found = explaining.explain(settings, state, table, key, source, messages)
    if as_json:
        print_json(found.as_dict())
    else:
        for line in lines_of(found):
            out.print(line, markup=False)
