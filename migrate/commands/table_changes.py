"""Which tables belong to a migration changes with the config, at `migrate init`: some are added, some removed.

A removed table that comes back is an added one: what changed meanwhile was not published, so its target tables must be
empty, and it is copied anew. Messages of it from before are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Self

import sqlalchemy as sa

from migrate.commands import row_filter_changes
from migrate.model import process_names
from migrate.model.table import Table, TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.processes import exclusive
from migrate.settings import Settings
from migrate.state import (
    chunks,
    exit_reason,
    failover,
    foreign,
    membership,
    pending_markers,
    phase,
    position,
    schema_history,
    skipped_key,
    stop_reason,
)
from migrate.state import migration as migrations
from migrate.state.membership import Member, MemberStage
from migrate.target import chunk_fence, ledger, outdated, parked
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan

_STOP = "stop `migrate run`, wait until the lease has run out, and run this command again"


@dataclass
class TableChanges:
    """What an init changes.

    known: the members until now, with their newest definitions; new: those that are added, of which `back` were
    removed before; waiting: those that an earlier init added and no publisher has begun with; conditions: those whose
    row conditions are others; gone: no more chosen; joining: of those that are added, those into a group that is there;
    behind: those that a statement changed which their publisher has not come to: it judges that when it does.
    """

    known: dict[TableId, Table] = field(default_factory=dict)
    new: set[TableId] = field(default_factory=set)
    back: set[TableId] = field(default_factory=set)
    waiting: set[TableId] = field(default_factory=set)
    conditions: set[TableId] = field(default_factory=set)
    gone: set[TableId] = field(default_factory=set)
    joining: set[TableId] = field(default_factory=set)
    behind: set[TableId] = field(default_factory=set)

    @classmethod
    def find(cls, connection: sa.Connection, plan: Plan) -> Self:
        """As the config, with the tables that the sources have now, differs from the state."""
        name = plan.settings.name
        known = schema_history.latest(connection, name)
        stages = {id_: member.stage for id_, member in membership.every(connection, name).items()}
        new = plan.tables.keys() - known.keys()
        begun = {source for source, _, _ in known if position.load(connection, name, source) is not None}
        changed = {id_ for id_ in known.keys() & plan.tables.keys() if plan.tables[id_].table != known[id_]}
        return cls(
            known,
            new,
            {id_ for id_ in new if stages.get(id_) is MemberStage.REMOVED},
            waiting := {id_ for id_ in known if stages.get(id_) is MemberStage.WAITING},
            row_filter_changes.changed(connection, plan) - waiting,
            known.keys() - chosen(plan.settings, known),
            {id_ for id_ in new if any(one.table.id in known for one in plan.members(plan.tables[id_]))},
            {id_ for id_ in changed - waiting if id_[0] in begun},
        )

    def stand_in(self, settings: Settings, state: sa.Engine, until: ExitStack) -> None:
        """Nothing may run while tables go, come back or join others, or conditions change: it would go on with those of
        before."""
        if self.gone or self.back or self.joining or self.conditions:
            with state.connect() as connection:
                known = migrations.get(connection, settings.name)
            until.enter_context(
                exclusive.for_everyone(settings, state, known, _STOP, [source for source, _, _ in self.gone])
            )

    def clear_targets(self, plan: Plan) -> None:
        """What the ledger, the parked changes and the chunk fences have of tables that go or come back, and what the
        ledger has of groups that tables join or that an earlier one of that name left. In a database that no table
        used when one of its tables went, that stayed until now."""
        tables = [self.known[id_] for id_ in self.gone] + [plan.tables[id_].table for id_ in self.back]
        noted = [self.known[id_] for id_ in self.gone] + [plan.tables[id_].noted_as for id_ in self.new]
        groups = {planned.group for planned in plan.tables.values() if planned.group}
        mine = plan.tables.keys() | (self.known.keys() - self.gone)
        if self.known:
            with closing(TargetPool(plan.settings)) as pool:
                for used in plan.used_databases:
                    with explained(f"target '{used.target}', database {used.database}"):
                        _clear(pool.get(used), plan.settings.name, tables, noted, groups, mine)

    def note(self, connection: sa.Connection, plan: Plan, say: Callable[[str], None]) -> None:
        """Write down who came and who went."""
        name = plan.settings.name
        for id_ in sorted(self.gone):
            phase.reset(connection, name, self.known[id_])
            chunks.void(connection, name, self.known[id_])
            membership.put(connection, name, id_, Member(MemberStage.REMOVED))
            foreign.forget(connection, name, id_)
            pending_markers.forget(connection, name, id_)
            say(f"{self.known[id_].full_name}: removed; its target tables stay as they are, and nothing writes them")
        self._settle_removed(connection, plan)
        read, noted = set(position.sources(connection, name)), schema_history.noted(connection, name)
        members = membership.every(connection, name)
        for id_ in sorted(self.new):
            if id_ in noted:
                schema_history.forget(connection, name, id_)
            if id_[0] not in read:
                if id_ in members:
                    membership.forget(connection, name, id_)
            else:
                membership.put(connection, name, id_, Member(MemberStage.WAITING))
                say(f"{plan.tables[id_].table.full_name}: added; start `migrate run`, then `migrate copy`")

    def _settle_removed(self, connection: sa.Connection, plan: Plan) -> None:
        """What was noted of removed tables, also by an earlier init, keeps nothing from a cutover: nobody else ends it.

        1. skips of tables; 2. of sources without a table, how their publishers stopped, and doubts.
        """
        name = plan.settings.name
        removed = {
            id_ for id_, member in membership.every(connection, name).items() if member.stage is MemberStage.REMOVED
        }
        for id_ in removed:
            skipped_key.forget(connection, name, id_)
        left = {id_[0] for id_ in (self.known.keys() - self.gone) | plan.tables.keys()}
        for source in {id_[0] for id_ in removed} - left:
            stop_reason.clear(connection, name, process_names.publisher(source))
            exit_reason.clear(connection, name, process_names.publisher(source))
            failover.settle_removed(connection, name, source)


def chosen(settings: Settings, known: Collection[TableId]) -> set[TableId]:
    """Those that the config has or that a pattern of it takes, whether or not the source has them now."""
    found: set[TableId] = set()
    for source in settings.sources:
        there = [id_[1:] for id_ in known if id_[0] == source.name]
        found |= {(source.name, one.database, one.table) for one in settings.choose(source.name, there)}
    return found


def _clear(
    connection: Connection,
    migration: str,
    tables: Collection[Table],
    noted: Collection[Table],
    groups: set[str],
    mine: Collection[TableId],
) -> None:
    if ledger.any_of(connection, migration):
        for id_ in {table.id for table in noted} | (ledger.tables(connection, migration) - {*mine}):
            ledger.forget(connection, migration, id_)
        ledger.forget_groups_but(connection, migration, groups)
    for id_ in {table.id for table in tables} | (parked.tables(connection, migration) - {*mine}):
        parked.forget(connection, migration, id_)
    for id_ in {table.id for table in tables} | (outdated.of_tables(connection, migration) - {*mine}):
        outdated.forget(connection, migration, id_)
    for table in tables:
        chunk_fence.forget(connection, migration, table)
