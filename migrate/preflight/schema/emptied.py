"""Tables that are emptied at the targets too (`ddl: {truncate: apply}`): what else would go, what is no TRUNCATE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.preflight.check import AT_SOURCE_PLANNED, AT_TARGET_PLANNED, At, Group, Subjects, Visit, declare_each
from migrate.preflight.result import Result, Verdict
from migrate.target import filled
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

CHECK = "truncate"
_PARTITIONED = (
    "SELECT 1 FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " AND PARTITION_NAME IS NOT NULL LIMIT 1"
)


def check_shared(connection: Connection, plan: Plan, used: TargetDatabase, migration: str) -> list[Result]:
    """A problem for each table of a target database that a TRUNCATE would empty of rows of another migration."""
    found = filled.shared(connection, migration, used, plan.tables.values())
    return [Result(CHECK, one.place, Verdict.PROBLEM, one.told, one.mend) for one in found]


def check_partitioned(connection: Connection, table: Table) -> list[Result]:
    """A note where a source table has partitions: nothing that empties some of them is brought to the targets."""
    if connection.one(_PARTITIONED, [table.database, table.name]) is None:
        return []
    told = (
        f"{table.full_name} has partitions: `ALTER TABLE … TRUNCATE PARTITION` and `DROP PARTITION` stop the publisher"
        " whatever `ddl` says; so does a TRUNCATE of the whole table where target tables have partitions, as"
        " `migrate init` makes them"
    )
    mend = "create its target tables by hand, without partitions, for `truncate: apply`; empty partitions by DELETE"
    return [Result(CHECK, table.full_name, Verdict.NOTE, told, mend)]


def _databases(visit: Visit) -> Sequence[TargetDatabase]:
    return [used for used in visit.plan.used_databases if used.target == visit.name]


def _planned(visit: Visit) -> Sequence[PlannedTable]:
    return [planned for id_, planned in visit.plan.tables.items() if id_[0] == visit.name]


def _shared(visit: Visit, used: TargetDatabase) -> Iterable[Result]:
    return check_shared(visit.connection, visit.plan, used, visit.known.settings.name)


def _partitioned(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    applied = filled.empties(visit.known.settings.name, planned)
    return check_partitioned(visit.connection, planned.table) if applied else []


_DATABASES = Subjects(_databases, lambda used: used.database)
_PLANNED = Subjects(_planned, lambda planned: planned.table.full_name)

SHARED = declare_each(CHECK, Group.SCHEMA, At.TARGET, _DATABASES, _shared, AT_TARGET_PLANNED)
PARTITIONED = declare_each(CHECK, Group.SCHEMA, At.SOURCE, _PLANNED, _partitioned, AT_SOURCE_PLANNED)
