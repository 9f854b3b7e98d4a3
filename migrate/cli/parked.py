"""The commands under `migrate parked`."""

from __future__ import annotations

from typing import Annotated

import typer

from migrate.cli.options import Json, SourceOfTable, Timeout, out, print_json
from migrate.commands import parked as parking
from migrate.model.change import key_json
from migrate.model.errors import ConfigError
from migrate.model.partition import offset_name
from migrate.model.words import counted
from migrate.state import database

parked = typer.Typer(
    name="parked", no_args_is_help=True, help="Changes and messages that cannot be applied: list, retry, skip, drop."
)


@parked.command("list")
def parked_list(context: typer.Context, as_json: Json = False) -> None:
    """List blocked partitions, parked changes, keys that are skipped, and skipped messages."""
    settings = context.obj.load("parked")
    with database.opened(settings.state) as state:
        found = parking.listed(settings, state)
    if as_json:
        print_json(found.as_dict())
        return
    for stopped in found.stopped:
        told = (
            f"STOPPED {stopped['process']} since {stopped['since']}: {stopped['reason']}\n        →"
            f" {context.obj.meant(stopped['hint'])}"
        )
        out.print(told, markup=False)
    for one in found.parked:
        at = f" at {one['coordinate']}" if one["coordinate"] else ""
        told = f"PARKED {one['place']}: {one['change']} of {one['table']} key {one['key']}{at}"
        out.print(f"{told}: {one['refusal']}; set aside: {one['reason']}", markup=False)
    if found.drop:
        out.print(f"applications write to the other side: `{found.drop} TABLE KEY` drops a change", markup=False)
    for skip in found.skips:
        out.print(f"SKIPS what is refused of {skip['table']} key {skip['key']}: {skip['reason']}", markup=False)
    for one in found.left_out:
        told = f"LEFT OUT message {one['topic']} [{one['partition']}] @ {one['offset']}, {one['bytes']} bytes"
        out.print(f"{told}: {one['refusal']}; left out: {one['reason']}", markup=False)
    if not (found.stopped or found.parked or found.skips or found.left_out):
        out.print("nothing is refused")


@parked.command("skip")
def parked_skip(
    context: typer.Context,
    reason: Annotated[str, typer.Option(help="Why it is skipped; stored and shown.")],
    table: Annotated[str | None, typer.Argument(help="The table at the source, as database.table.")] = None,
    key: Annotated[
        str | None, typer.Argument(help="""The row's key. A key of several columns is a JSON list: '["7", "eu"]'.""")
    ] = None,
    source: SourceOfTable = None,
    topic: Annotated[str | None, typer.Option(help="Instead of a row: the topic of the message to skip.")] = None,
    partition: Annotated[int | None, typer.Option(help="The partition of the message.")] = None,
    offset: Annotated[
        int | None, typer.Option(help="The offset of the message, at which its partition is blocked.")
    ] = None,
) -> None:
    """Park the refused changes of a row, or skip a message that cannot be applied, so that its partition continues.

    `migrate verify` names the rows that differ afterwards.
    """
    settings = context.obj.load("parked")
    row, message = (table, key), (topic, partition, offset)
    if (None in row) == (None in message) or any(one is not None for one in (row if None in row else message)):
        raise ConfigError(
            "nothing is named to set aside", hint="name a table and a key; or --topic, --partition and --offset"
        )
    with database.opened(settings.state) as state:
        if topic is not None and partition is not None and offset is not None:
            parking.leave_out(settings, state, topic, partition, offset, reason)
            out.print(
                f"message {offset_name(topic, partition, offset)} is left out, and kept in the state", markup=False
            )
        elif table is not None and key is not None:
            parking.set_aside(settings, state, table, key, source, reason)
            told = f"refused changes of {table} key {key} are parked until `migrate parked retry {table} '{key}'`"
            out.print(told, markup=False)


@parked.command("retry")
def parked_retry(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Only rows of this table, as database.table.")] = None,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="Only the rows with these keys.")] = None,
    source: SourceOfTable = None,
    timeout: Timeout = 60.0,
) -> None:
    """Retry blocked partitions at once, and apply parked rows again, as the source has them now."""
    settings = context.obj.load("parked")
    with database.opened(settings.state) as state:
        count = parking.retry(settings, state, table, keys or [], source, timeout)
    out.print(f"{counted(count, 'row')} applied again; blocked partitions are tried now")


@parked.command("drop")
def parked_drop(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table, as database.table.")],
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="Only the rows with these keys.")] = None,
    source: SourceOfTable = None,
) -> None:
    """Drop parked changes of a stream that does not write: the forward stream after the switch, else the reverse one.

    The rows at its target belong to applications and stay as they are. `migrate verify` names the rows that differ.
    """
    settings = context.obj.load("parked")
    with database.opened(settings.state) as state:
        dropped = parking.drop(settings, state, table, keys or [], source)
    for id_, key in dropped:
        out.print(f"dropped what was parked of {id_[1]}.{id_[2]} key {key_json(key)}", markup=False)
