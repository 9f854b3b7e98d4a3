"""What the scheduled check compares next: the copied chunks, and the keys above them, longest unchecked first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from migrate.chunks.planner import Planner
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.table import TableId
from migrate.settings import Settings
from migrate.state import check, chunks, membership, phase, replay
from migrate.state.phase import Phase
from migrate.target.routing import Plan, PlannedTable

_NEVER = datetime(1, 1, 1)  # noqa: DTZ001 - as the state's times, which are UTC without saying so
Page = Callable[[Sequence[PlannedTable], Key | None], Chunk | None]
"""Plans the first page of tables that share their places above a bound; None: nothing more of them."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A chunk to be compared, of a table, or of the tables of a group. copied: it is one of the copy's chunks, which
    notes it; else it was planned for the comparison alone."""

    tables: tuple[PlannedTable, ...]
    chunk: Chunk
    copied: bool

    def mark(self, connection: sa.Connection, migration: str, rows: int) -> None:
        """Note that it was compared, and how many rows the source had."""
        table = self.tables[0].table
        if self.copied:
            chunks.mark_checked(connection, migration, table, self.chunk.number, rows)
        else:
            check.note_rest(connection, migration, table.id, self.chunk.high)


@dataclass(frozen=True, slots=True)
class _Due:
    checked: datetime
    tables: tuple[PlannedTable, ...]
    chunk: Chunk | None = None  # None: what is above the chunks
    low: Key | None = None


def together(plan: Plan) -> list[tuple[PlannedTable, ...]]:
    """Each table, or all of a group, once."""
    found = [tuple(plan.members(planned)) for planned in plan.tables.values()]
    return list({tables[0].table.id: tables for tables in found}.values())


def begun(connection: sa.Connection, plan: Plan) -> list[tuple[PlannedTable, ...]]:
    """Those that have rows to be compared: a table whose copy has begun, a group of which every copy is done and whose
    tables have the same columns."""
    phases = phase.every(connection, plan.settings.name)
    members = membership.every(connection, plan.settings.name)
    found = []
    for tables in together(plan):
        stages = {phases.get(one.table.id, Phase.CREATED) for one in tables}
        waits = any((member := members.get(one.table.id)) is not None and not member.begun for one in tables)
        unlike = any(one.table.columns != tables[0].table.columns for one in tables)  # until all have a statement
        ready = stages == {Phase.COPIED} or (stages == {Phase.COPYING} and not tables[0].group)
        if ready and not waits and not unlike:
            found.append(tables)
    return found


def copied(connection: sa.Connection, plan: Plan) -> set[TableId]:
    """Those whose copy is done, and that of every other table of their group."""
    phases = phase.every(connection, plan.settings.name)
    ids = {one.table.id for tables in begun(connection, plan) for one in tables}
    return {id_ for id_ in ids if phases.get(id_) is Phase.COPIED}


def due(state: sa.Engine, plan: Plan, page: Page) -> Iterator[Unit]:
    """Units without end of a round; the caller takes as many as a run may have.

    A table whose source is being replayed has none: its rows go back.
    """
    settings = plan.settings
    replayed = replay.sources(state, settings.name, [source.name for source in settings.sources])
    with state.connect() as connection:
        found = [
            one
            for tables in begun(connection, plan)
            if not any(one.table.source in replayed for one in tables)
            for one in _due(connection, settings, tables)
        ]
    for one in sorted(found, key=lambda one: one.checked):
        if one.chunk is not None:
            yield Unit(one.tables, one.chunk, copied=True)
            continue
        low = one.low
        while (rest := page(one.tables, low)) is not None:
            yield Unit(one.tables, rest, copied=False)
            if rest.high is None:
                break
            low = rest.high


def _due(connection: sa.Connection, settings: Settings, tables: tuple[PlannedTable, ...]) -> Iterator[_Due]:
    """Of a group everything is compared page by page: chunks of one of its tables do not bound the others' rows."""
    table, name = tables[0].table, settings.name
    low: Key | None = None
    if not tables[0].group:
        for chunk, checked in chunks.due(connection, name, table, settings.check.chunks):
            yield _Due(checked or _NEVER, tables, chunk)
        low = chunks.last_bound(connection, name, table)
    if phase.get(connection, name, table).phase is Phase.COPIED:
        rest = check.get_rest(connection, name, table.id)
        yield _Due(rest.checked or _NEVER, tables, low=rest.low or low)


def first_page(planners: Sequence[Planner], low: Key | None) -> Chunk:
    """The first page above a bound, without an end where it is the last."""
    first, *others = planners
    return next(first.covering(0, low, others))
