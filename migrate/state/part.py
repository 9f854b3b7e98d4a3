"""Parts of copied tables that are copied again, one of a table at a time."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.table import Table, TableId
from migrate.state.columns import is_table, of_table, table_row
from migrate.state.database import metadata, now

table = sa.Table(
    "copy_part",
    metadata,
    *of_table(key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("condition_text", sa.Text),
    sa.Column("begun", sa.DateTime),
    sa.Column("ended", sa.DateTime),
)


@dataclass(frozen=True, slots=True)
class Part:
    """number: that its chunks have; condition: SQL over the columns of the source."""

    number: int
    condition: str


def current(connection: sa.Connection, migration: str, definition: Table) -> Part | None:
    """The part of a table that is being copied, or was when its copy ended halfway."""
    wanted = sa.select(table.c.part, table.c.condition_text)
    row = connection.execute(wanted.where(*_of(migration, definition), table.c.ended.is_(None))).one_or_none()
    return Part(int(row[0]), str(row[1])) if row else None


def every(connection: sa.Connection, migration: str) -> dict[TableId, Part]:
    """The parts that are being copied, or were when their copies ended halfway, by (source, database, table)."""
    wanted = [table.c[name] for name in ("source", "table_schema", "table_name", "part", "condition_text")]
    rows = connection.execute(sa.select(*wanted).where(table.c.migration == migration, table.c.ended.is_(None)))
    return {(row[0], row[1], row[2]): Part(int(row[3]), str(row[4])) for row in rows}


def begin(connection: sa.Connection, migration: str, definition: Table, condition: str) -> Part:
    """Note that these rows are copied again. The caller has the table's phase locked."""
    last = connection.execute(sa.select(sa.func.max(table.c.part)).where(*_of(migration, definition))).scalar()
    part = Part(int(last or 0) + 1, condition)
    row = {**table_row(migration, definition.id), "part": part.number, "condition_text": condition}
    connection.execute(sa.insert(table).values(row))
    return part


def end(connection: sa.Connection, migration: str, definition: Table) -> None:
    """The part that is being copied, if any, is copied, or counts no more."""
    connection.execute(sa.update(table).where(*_of(migration, definition), table.c.ended.is_(None)).values(ended=now))


def _of(migration: str, definition: Table) -> list[sa.ColumnElement[bool]]:
    return [*is_table(table, migration, definition.id)]
