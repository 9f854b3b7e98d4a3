"""`migrate explain`, as people read it."""

from __future__ import annotations

from typing import Annotated

import typer

from migrate.cli.options import Json, SourceOfTable, Table, out, print_json
from migrate.commands import explain as explaining
from migrate.commands.explain import Explained
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
        _show(found)


def _show(found: Explained) -> None:
    where = f"topic {found.topic} [{found.partition}], consumed to {found.consumed_to} of {found.topic_end}"
    there = "it has no such row" if found.at_source == "absent" else f"belongs to {found.at_source}"
    lines = [f"{found.table} key {found.key}, {where}", f"source {found.source}: {there}"]
    lines += [f"target {one['place']}: {one['row']}" for one in found.places] or ["target: no place has it"]
    if found.halted:
        lines.append(f"STOPPED its partition: {found.halted}")
    for one in found.messages:
        at = f" at {one['coordinate']}" if one["coordinate"] else ""
        of = f" of {one['table']}" if "table" in one else ""
        words = [f"message {one['topic']} @ {one['offset']}: {one['type']}{of}{at}", one["gtid"]]
        words.append(f"record {one['record']}" if "record" in one else "")
        lines.append(", ".join(word for word in words if word))
    if not found.messages:
        first = ", ".join(f"{topic} @ {offset}" for topic, offset in found.read_from.items())
        lines.append(f"message: none from {first}")
    for one in found.decisions:
        at = f" at {one['coordinate']}" if one["coordinate"] else ""
        lines.append(f"decided {one['place']}: {one['what']}{at}, {one['made']} by its server's clock")
    for one in found.ledger:
        was = "its row was there" if one["row_was_there"] else "no row was there, it comes back later"
        lines.append(f"ledger {one['place']}: deleted at {one['coordinate']}, {was}")
    lines += [
        f"PARKED {one['place']}: at {one['coordinate']}: {one['refusal']}; set aside: {one['reason']}"
        for one in found.parked
    ]
    if found.set_aside:
        lines.append(f"SKIPS what is refused of it: {found.set_aside}")
    lines += [
        f"verification {one['verification']} of {one['started']}: {one['kind']} {one['detail']}".rstrip()
        for one in found.differences
    ]
    for line in lines:
        out.print(line, markup=False)
