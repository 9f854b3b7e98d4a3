"""Groups of columns that several state tables share, under the same names and types."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.model.errors import MigrateError
from migrate.model.table import TableId


def of_table(*, key: bool) -> list[sa.Column[str]]:
    """Migration, source, database and table; with `key`, as parts of the primary key."""
    lengths = {"migration": 48, "source": 48, "table_schema": 64, "table_name": 64}
    return [sa.Column(name, sa.String(length), primary_key=key) for name, length in lengths.items()]


def is_table(table: sa.Table, migration: str, id_: TableId) -> list[sa.ColumnElement[bool]]:
    """Rows of one (source, database, table), in a state table that has `of_table`."""
    return [table.c[name] == value for name, value in table_row(migration, id_).items()]


def how_many(connection: sa.Connection, table: sa.Table, where: Sequence[sa.ColumnElement[bool]]) -> int:
    """How many rows there are."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar() or 0)


def table_row(migration: str, id_: TableId) -> dict[str, str]:
    """The values of `of_table` for one (source, database, table)."""
    return dict(zip(("migration", "source", "table_schema", "table_name"), (migration, *id_), strict=True))


_LONGEST = 15_000  # characters, which are up to 60,000 bytes of a TEXT; what is longer came from a message


def told(error: MigrateError) -> dict[str, str]:
    """Why, and the way out, as `reason` and `hint` of a table have them."""
    return {"reason": error.message[:_LONGEST], "hint": error.hint[:_LONGEST]}


def of_partition() -> list[sa.Column[str] | sa.Column[int]]:
    """Migration, topic id and partition; the last two are parts of the primary key."""
    return [
        sa.Column("migration", sa.String(48)),
        sa.Column("topic_id", sa.String(36), primary_key=True),
        sa.Column("partition_no", sa.Integer, primary_key=True),
    ]


def of_coordinate(*, key: bool = False) -> list[sa.Column[int]]:
    """Incarnation, file number, start of the transaction, ordinal (`migrate.model.coordinate`)."""
    types = {"incarnation": sa.Integer, "file_no": sa.BigInteger, "tx": sa.BigInteger, "ordinal": sa.BigInteger}
    return [sa.Column(name, type_, primary_key=key) for name, type_ in types.items()]
