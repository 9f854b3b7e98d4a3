"""What a verification speaks for: the tables as they were when it began, at places that can hold their rows, and no
others (invariant certificate-binds)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

import sqlalchemy as sa

from migrate.chunks.retry import Retries
from migrate.model.table import Table, TableId
from migrate.settings import Settings
from migrate.state import compared, phase, schema_history
from migrate.state import migration as migrations
from migrate.state.phase import UNKNOWN, TablePhase
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable
from migrate.target.unlike_places import Unlike, unlike_places
from migrate.verify.resume import read_at
from migrate.verify.verified import TableVerified

_NAMED = 100
"""Places of a table that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class VerificationScope:
    """The tables of a migration at one moment: their copies and rules, their definitions, and where they are read."""

    stages: Mapping[TableId, TablePhase]
    definitions: Mapping[TableId, Table]
    others: Mapping[TableId, Table]  # of the stream the other way: what it reads is what is written here
    servers: Mapping[str, list[Any]]
    forgotten: int  # how often what was known to be equal was

    @classmethod
    def now(
        cls, connection: sa.Connection, settings: Settings, tables: Sequence[PlannedTable], *, lock: bool = False
    ) -> Self:
        """lock: no copy or rule changes until the transaction ends."""
        name = settings.name
        stages = phase.stages(connection, name, lock=lock)
        others = schema_history.latest(connection, migrations.other_way(connection, name))
        servers = read_at(connection, settings, tables)
        forgotten = compared.times_forgotten(connection, name, lock=lock)
        return cls(stages, schema_history.latest(connection, name), others, servers, forgotten)

    def changed(self, now: VerificationScope, id_: TableId) -> str:
        """Why what was compared of a table says nothing of it now; "" when it does."""
        before, after = self.stages.get(id_, UNKNOWN), now.stages.get(id_, UNKNOWN)
        if id_ not in now.definitions:
            return "it was taken out of the migration while it was compared"
        if before.attempt != after.attempt or before.phase is not after.phase:
            return "it was copied again while it was compared"
        if before.rule_hash != after.rule_hash:
            return "its rule changed while it was compared"
        if self.definitions.get(id_) != now.definitions[id_]:
            return "it was altered while it was compared"
        if self.servers.get(id_[0]) != now.servers.get(id_[0]):
            return f"source '{id_[0]}' was read at another server, or was rewound, while it was compared"
        return ""

    def changed_there(self, now: VerificationScope) -> str:
        """As `changed`, of what concerns every table: the other side's definitions."""
        if any(now.others.get(id_, table) != table for id_, table in self.others.items()):
            return "a table of the other side was altered while it was compared"
        return ""

    def forgotten_since(self, now: VerificationScope) -> str:
        """As `changed_there`, of a verification of all tables: what else it cannot have seen."""
        return f"while it was compared {compared.FORGOTTEN}" if self.forgotten != now.forgotten else ""

    def added(self, now: VerificationScope) -> list[str]:
        """Tables that are of the migration since, by their full names."""
        return [now.definitions[id_].full_name for id_ in now.definitions if id_ not in self.definitions]


def unlike_by_now(settings: Settings, tables: Sequence[PlannedTable], definitions: Mapping[TableId, Table]) -> Unlike:
    """As `unlike_places`, with servers that are away waited for. Raises ServerError when they stay so.

    definitions: as they are noted; of a broadcast table that is read its places are held against those of its other
    nodes too, by their names.
    """
    tables = [each for one in tables for each in (one, *_mirrors(one, definitions))]
    with closing(TargetPool(settings)) as pool:
        patience = Retries(settings, "verification: the target tables' definitions", pool.close)
        return patience.call(lambda: unlike_places(settings, pool, tables))


def _mirrors(planned: PlannedTable, definitions: Mapping[TableId, Table]) -> list[PlannedTable]:
    """The other nodes of a broadcast table that is read, with definitions of their own."""
    there = [definitions[id_] for id_ in planned.mirrors if id_ in definitions]
    return [replace(planned, table=table, mirrors=(), mirror_of=planned.table.id) for table in there]


def bound(
    found: Sequence[TableVerified],
    together: Sequence[Sequence[PlannedTable]],
    before: VerificationScope,
    now: VerificationScope,
    unlike: Unlike,
    *,
    every: bool = False,
) -> list[TableVerified]:
    """What was found of tables that are compared together. The reason counts as a difference for one that changed
    meanwhile, and for each place that cannot hold its rows as they are.

    unlike: of `unlike_by_now`; every: they are all tables, so that a cutover may go by it.
    """
    there = before.changed_there(now) or (before.forgotten_since(now) if every else "")
    return [_bound(table, tables, before, now, there, unlike) for table, tables in zip(found, together, strict=True)]


def _bound(
    table: TableVerified,
    tables: Sequence[PlannedTable],
    before: VerificationScope,
    now: VerificationScope,
    there: str,
    unlike: Unlike,
) -> TableVerified:
    every = [each for one in tables for each in (one.table, *one.mirror_tables)]
    reasons = [
        f"{one.full_name}: {why}; `migrate verify` once more"
        for one in every
        if (why := before.changed(now, one.id) or there)
    ]
    places = [told for one in every for told in unlike.get(one.id, ())]
    if not (reasons or places):
        return table
    told = (*table.unaccounted, *reasons, *places[:_NAMED])
    return replace(table, unaccounted=told, differences=table.differences + len(reasons) + len(places))
