"""Statements on source tables of a group, which have their target tables in common: which run of `migrate.state.ddl`
brought each of them there. The first table's statement is run, the others' bring the same (docs/decisions/0056)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.table import TableId
from migrate.state.columns import of_table, table_row
from migrate.state.database import metadata
from migrate.state.ddl import Goal, runs

table = sa.Table(
    "ddl_member",
    metadata,
    *of_table(key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("incarnation", sa.Integer),
    sa.Column("file_no", sa.BigInteger),
    sa.Column("tx", sa.BigInteger),
    sa.Column("brings", sa.Text),
)


@dataclass(frozen=True, slots=True)
class GroupStatement:
    """A statement on one of the source tables. since: where it stands in its source's log. brings: which columns are
    new or wider by it, as `migrate.publish.schema.group_columns` writes them."""

    id: TableId
    since: Coordinate
    brings: str


def note(connection: sa.Connection, migration: str, run: int, statement: GroupStatement) -> None:
    """The target tables have what a statement brings once the run is finished."""
    since = statement.since
    values = {"run": run, "incarnation": since.incarnation, "file_no": since.file, "tx": since.transaction}
    row = {**table_row(migration, statement.id), **values, "brings": statement.brings}
    connection.execute(sa.insert(table).values(row))


def join(connection: sa.Connection, migration: str, statement: GroupStatement, group: Collection[TableId]) -> int:
    """The first finished run that brought the same for another table of the group, and nothing for this one yet, which
    is noted; 0 where there is none.

    So a column that is dropped and added again is no older one: each table has each run once.
    """
    found: dict[int, set[TableId]] = {}
    rows = connection.execute(
        sa.select(table.c.run, table.c.source, table.c.table_schema, table.c.table_name, table.c.brings)
        .where(table.c.migration == migration, *_finished(Goal.NEW))
        .order_by(table.c.run)
    )
    for run, source, schema, name, brings in rows:
        if brings == statement.brings:
            found.setdefault(int(run), set()).add((source, schema, name))
    for run, had in found.items():
        if statement.id not in had and not had.isdisjoint(group):
            note(connection, migration, run, statement)
            return run
    return 0


def places(connection: sa.Connection, migration: str, source: str) -> frozenset[Coordinate]:
    """Where the statements of a source's log stand that finished runs brought to the targets."""
    found = sa.select(table.c.incarnation, table.c.file_no, table.c.tx).where(
        table.c.migration == migration, table.c.source == source, *_finished(Goal.NEW)
    )
    return frozenset(Coordinate(int(row[0]), int(row[1]), int(row[2]), 0) for row in connection.execute(found))


def taken_back(connection: sa.Connection, migration: str, statement: GroupStatement) -> int:
    """The run that brought a statement to the targets and was taken back; 0 for none."""
    since = statement.since
    here = {"incarnation": since.incarnation, "file_no": since.file, "tx": since.transaction}
    wanted = {**table_row(migration, statement.id), **here}
    found = sa.select(table.c.run).where(*_of_run(Goal.OLD), *(table.c[name] == one for name, one in wanted.items()))
    return int(connection.execute(found.limit(1)).scalar() or 0)


def of_run(connection: sa.Connection, migration: str, run: int) -> list[TableId]:
    """The source tables whose statement a run brought, or is to bring."""
    found = sa.select(table.c.source, table.c.table_schema, table.c.table_name).where(
        table.c.migration == migration, table.c.run == run
    )
    return sorted((str(row[0]), str(row[1]), str(row[2])) for row in connection.execute(found))


def _of_run(goal: Goal) -> list[sa.ColumnElement[bool]]:
    return [runs.c.migration == table.c.migration, runs.c.run == table.c.run, runs.c.goal == goal.value]


def _finished(goal: Goal) -> list[sa.ColumnElement[bool]]:
    return [*_of_run(goal), runs.c.finished.is_not(None)]
