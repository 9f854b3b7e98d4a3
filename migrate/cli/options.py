"""What several commands take, and how they answer."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from migrate.terminal import console, printable

out = console(highlight=False, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Table = Annotated[str, typer.Argument(help="The table at the source, as database.table.")]
Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table (database.table). Repeatable.")]
SourceOfTable = Annotated[
    str | None, typer.Option("--source", help="Which source; needed when several sources have the table.")
]
Timeout = Annotated[float, typer.Option(help="Maximum time to wait, in seconds.")]


def print_json(value: Any) -> None:
    sys.stdout.write(printable(json.dumps(value, indent=2, default=str, ensure_ascii=False)) + "\n")
