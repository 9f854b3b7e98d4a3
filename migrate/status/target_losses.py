"""What target databases should have by the state and have not: they lost transactions that they had committed (rule
"fence compares").

A consumer finds it with its next write, and gives the database again what Kafka has. Here every database is asked, also
those that nobody writes to: by status, before a cutover, and in its freeze.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.state import leading, phase, reached
from migrate.state import migration as migrations
from migrate.state.phase import Phase
from migrate.state.reached import NO_OFFSET, DatabaseName, LostMessages
from migrate.target import chunk_fence, roles
from migrate.target.reached import NOTHING
from migrate.target.reached import every as all_reached
from migrate.target.routing import Plan, TargetDatabase


@dataclass(frozen=True, slots=True)
class Expected:
    """What the state says that the databases have. Read before they are asked: they are never behind it."""

    migration: str
    offsets: Mapping[DatabaseName, Mapping[Partition, int]]
    copies: Mapping[DatabaseName, Mapping[TableId, int]]  # the run of each table's copy that ended
    names: Mapping[str, str]  # of topics, by id
    titles: Mapping[TableId, str]
    frozen: int  # the version of the switch that all of them have

    @classmethod
    def read(cls, connection: sa.Connection, plan: Plan) -> Expected:
        name = plan.settings.name
        stages = phase.stages(connection, name)
        copies: dict[DatabaseName, dict[TableId, int]] = {}
        for id_, planned in plan.tables.items():
            if id_ in stages and stages[id_].phase is Phase.COPIED:
                for used in planned.databases:
                    copies.setdefault((used.target, used.database), {})[id_] = stages[id_].attempt
        titles = {id_: planned.table.full_name for id_, planned in plan.tables.items()}
        names = migrations.get(connection, name).topic_names
        return cls(name, reached.every(connection, name), copies, names, titles, leading.frozen(connection, name))

    def lost(self, connection: Connection, used: TargetDatabase) -> list[LostMessages]:
        """What one database lacks. Raises the driver's error."""
        name = used.target, used.database
        has = all_reached(connection, self.migration)
        found = []
        for partition, end in self.offsets.get(name, {}).items():
            if (offset := max(has.get(partition, NOTHING), 0)) < end and partition.topic_id in self.names:
                where = f"{self.names[partition.topic_id]} [{partition.number}]"
                found.append(LostMessages(name, where, offset, end, offset))
        if copies := self.copies.get(name, {}):
            closed = chunk_fence.closed(connection, self.migration)
            found += [
                LostMessages(name, self.titles[id_], NO_OFFSET, NO_OFFSET, NO_OFFSET)
                for id_, run in copies.items()
                if closed.get(id_, NO_OFFSET) < run
            ]
        if (lacks := roles.lacking(connection, self.migration, name, self.frozen)) is not None:
            found.append(lacks)
        return found
