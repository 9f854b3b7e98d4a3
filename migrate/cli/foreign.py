"""The commands under `migrate foreign`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import sqlalchemy as sa
import typer

from migrate.cli.options import Json, Timeout, out, print_json
from migrate.commands import foreign as foreign_writes
from migrate.model.change import key_json
from migrate.model.errors import ConfigError, DifferenceFound
from migrate.model.words import counted
from migrate.settings import Settings
from migrate.state import database
from migrate.state.foreign import ForeignWrite, count_both

foreign = typer.Typer(
    name="foreign",
    no_args_is_help=True,
    help="Foreign writes: writes at a standby side that no stream carries. List, compare, carry or discard them.",
)
_NAMED = 1000
Table = Annotated[
    str | None, typer.Argument(help="Only writes to this table, as `migrate foreign list` names it: database.table.")
]
Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY...",
        help="""Only the rows with these keys. A key of several columns is a JSON list: '["7", "eu"]'.""",
    ),
]
Server = Annotated[
    str | None, typer.Option("--server", help="Which server; needed when several servers of a side have the table.")
]
All = Annotated[bool, typer.Option("--all", help="All listed rows, instead of a table.")]
Settle = Callable[[Settings, sa.Engine, Sequence[tuple[foreign_writes.Stream, ForeignWrite]], float], int]
"""Settles listed rows within so many seconds, and returns how many keys still differ."""


@foreign.command("list")
def foreign_list(context: typer.Context, as_json: Json = False) -> None:
    """List writes that others made at a standby side, and changes that came after the switch.

    No stream carries them. A cutover and a rollback are refused until those rows are equal at both sides.
    """
    settings = _settings(context)
    with database.opened(settings.state) as state:
        found = foreign_writes.listed(settings, state, _NAMED)
        with state.connect() as connection:
            total = count_both(connection, settings.name)
    if as_json:
        print_json({"count": total, "listed": found})
        return
    for one in found:
        key = "every key" if one["key"] is None else f"key {key_json(one['key'])}"  # type: ignore[arg-type]
        where = f"{one['side']} '{one['server']}' {one['table']} {key}"
        out.print(f"{where}: {foreign_writes.KINDS[str(one['kind'])]}, at {one['coordinate']}", markup=False)
    if total > len(found):
        out.print(f"and {total - len(found):,} more")
    if found:
        out.print("`migrate foreign compare` removes the rows from the list that are equal at both sides", markup=False)
    else:
        out.print("nothing is listed")


@foreign.command("compare")
def foreign_compare(context: typer.Context) -> None:
    """Compare the listed rows at both sides, and remove equal ones from the list. Exit code 1 if some differ."""
    settings = _settings(context)
    with database.opened(settings.state) as state:
        _tell(foreign_writes.compare(settings, state))


def _decision(name: str, settle: Settle, told: str) -> None:
    """Add a command that decides what becomes of listed rows. told: its help."""

    def command(
        context: typer.Context,
        table: Table = None,
        keys: Keys = None,
        server: Server = None,
        all_: All = False,
        timeout: Timeout = 60.0,
    ) -> None:
        settings = _settings(context)
        with database.opened(settings.state) as state:
            wanted = foreign_writes.chosen(settings, state, *_asked(table, keys, server, all_))
            _done(settle(settings, state, wanted, timeout), foreign_writes.left(state, wanted), wanted)

    foreign.command(name, help=told)(command)


_decision(
    "discard",
    foreign_writes.discard,
    "Overwrite these rows at the standby side with the active side's rows. The stream to the standby side must run."
    "\n\nExit code 1 if a row still differs.",
)
_decision(
    "carry",
    foreign_writes.carry,
    "Write these rows at the active side as the standby side has them, as an application would."
    "\n\nThe stream to the standby side must run: the command first waits until it has delivered the active side's"
    " changes of these rows, and does not write a row that changes meanwhile. Exit code 1 if a row still differs.",
)


def _settings(context: typer.Context) -> Settings:
    if context.obj.reverse:
        raise ConfigError("`migrate foreign` covers both sides, and takes no --reverse", hint="leave out --reverse")
    settings: Settings = context.obj.load("foreign")
    return settings


def _asked(
    table: str | None, keys: Sequence[str] | None, server: str | None, every: bool
) -> tuple[str | None, Sequence[str], str | None]:
    if every == (table is not None):
        raise ConfigError(
            "no rows are chosen", hint="name a table as `migrate foreign list` does, with keys or without; or use --all"
        )
    return table, keys or [], server


def _done(listed: int, left: Sequence[object], wanted: Sequence[object]) -> None:
    """listed: rows in all; left: those of the wanted ones that differ still."""
    if left:
        _tell(listed)
    more = f"; {counted(listed, 'other row')} listed, `migrate foreign list`" if listed else ""
    out.print(f"{counted(len(wanted), 'row')} equal at both sides now{more}")


def _tell(left: int) -> None:
    if left:
        raise DifferenceFound(
            f"{counted(left, 'row')} listed and not equal at both sides",
            hint="`migrate foreign list` names them; `migrate foreign discard` gives the standby side the active side's"
            " rows, `migrate foreign carry` the active side the standby side's; a clean verification of all tables"
            " settles rows that keep changing, and whole tables",
        )
    out.print("both sides are equal in every row that was listed")
