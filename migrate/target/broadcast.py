"""Copies of broadcast tables' rows that no stream writes: where they are, and what that means for a rollback."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from migrate.target.home import named
from migrate.target.routing import Plan, PlannedTable


class OldCopies(NamedTuple):
    """Of a broadcast table: the source that the reverse stream writes it at, and others, which may have it too."""

    planned: PlannedTable
    written: str
    others: list[str]


def old_copies(plan: Plan) -> Iterator[OldCopies]:
    """Of each broadcast table of a stream, in either direction, where there are sources that may have a copy of it."""
    for planned in plan.tables.values():
        if planned.broadcast:
            written, every = planned.table.source, {source for source, _, _ in plan.tables}
        elif planned.mirrors:
            written = planned.places[0].database.target
            every = {place.database.target for one in plan.tables.values() for place in one.places}
        else:
            continue
        if others := sorted(every - {written}):
            yield OldCopies(planned, written, others)


def notes_of_rollback(plan: Plan) -> Iterator[str]:
    """plan: of the reverse stream."""
    for planned, _, others in old_copies(plan):
        yield (
            f"the reverse stream wrote {planned.places[0]} alone: what {', '.join(others)} may have of this broadcast"
            " table is as it was at the cutover"
        )


def notes_of_lost(plan: Plan, lost: Collection[str]) -> Iterator[str]:
    """Where a server with the first node of a broadcast table is lost: the other nodes have what was not sent.

    plan: of the reverse stream; lost: servers by their names.
    """
    for planned in plan.tables.values():
        left = [named(id_) for id_ in planned.mirrors if id_[0] not in lost]
        if planned.table.source in lost and left:
            yield (
                f"{planned.table.full_name}: what '{planned.table.source}' had not sent of this broadcast table is at"
                f" {', '.join(left)}: run `migrate verify` before any `--repair`; a row there that it names as extra or"
                " different is newer than the source's"
            )
