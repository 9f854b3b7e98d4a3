"""Broadcast tables: which nodes have every row, the columns that each node's server would fill, and copies of the table
that no stream writes."""

from __future__ import annotations

from collections.abc import Iterator

from migrate.mysql import column_defaults, definition
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.target.broadcast import OldCopies, old_copies
from migrate.target.home import named
from migrate.target.routing import Plan, PlannedTable

CHECK = "broadcast"


def check(plan: Plan) -> Iterator[Result]:
    """Of each stream: a note of the nodes of each broadcast table, and one where other sources may have it too.

    plan: of the forward stream or of the reverse one, where the table is read at its nodes.
    """
    yield from (_nodes(planned) for planned in plan.tables.values() if planned.nodes)
    yield from map(_other_sources, old_copies(plan))


def _nodes(planned: PlannedTable) -> Result:
    if planned.broadcast:
        nodes = [str(place) for place in planned.places]
        does, mend = "will read", "where the application has it in other databases, name the nodes under `broadcast`"
    else:
        nodes = [named(id_) for id_ in (planned.table.id, *planned.mirrors)]
        does, mend = "reads", ""
    told = f"{planned.table.full_name} has every row at each of {len(nodes)} nodes: {', '.join(nodes)}"
    told += f"; the reverse stream {does} the first, {nodes[0]}, and a verification holds the others against it"
    return Result(CHECK, planned.table.full_name, Verdict.NOTE, told, mend)


def _other_sources(copies: OldCopies) -> Result:
    planned, written, others = copies
    name = planned.table.full_name
    told = f"the reverse stream writes {name} at source '{written}' alone"
    if planned.broadcast:
        told = f"after a cutover {name} is written at source '{written}' alone"
    told += f": what {', '.join(others)} may have of it stays as it was at the cutover"
    mend = "where other sources have this broadcast table too, give it the same rows there before a rollback"
    return Result(CHECK, name, Verdict.NOTE, told, mend)


def check_filled(connection: Connection, planned: PlannedTable) -> Iterator[Result]:
    """A note of the columns that the server of each node fills by itself, each with another value.

    Of a table that is read at its nodes AUTO_INCREMENT too; before, the check of counters tells of it.
    """
    if not planned.nodes or planned.mirror_of is not None:
        return
    table = planned.table
    written = column_defaults.columns(definition.show_create(connection, table.database, table.name))
    found = [(name, what) for name, text in written.items() if (what := column_defaults.filled_by_server(text))]
    if told := [f"{name} {what}" for name, what in found if not (planned.broadcast and what == "AUTO_INCREMENT")]:
        yield Result(
            CHECK,
            table.full_name,
            Verdict.NOTE,
            f"{table.full_name}: after the switch each of {planned.nodes} nodes fills in a value of its own for the"
            f" same row: {', '.join(told)}; nodes that differ prevent a rollback",
            "have the application give these columns' values in its statements, or change them before the cutover so"
            " that no server does (no DEFAULT, or a constant; no ON UPDATE)",
        )
