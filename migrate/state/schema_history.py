"""The column list each table had, and from which coordinate on."""

from __future__ import annotations

import json
from dataclasses import asdict

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.table import Column, Kind, Table
from migrate.state.database import metadata

table = sa.Table(
    "schema_history",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("table_schema", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(64), primary_key=True),
    sa.Column("incarnation", sa.Integer, primary_key=True),
    sa.Column("file_no", sa.BigInteger, primary_key=True),
    sa.Column("tx", sa.BigInteger, primary_key=True),
    sa.Column("definition", sa.Text),
)


def add(connection: sa.Connection, migration: str, definition: Table, since: Coordinate) -> None:
    """Note a table's columns and key from a coordinate on."""
    row = {
        "migration": migration,
        "source": definition.source,
        "table_schema": definition.database,
        "table_name": definition.name,
        "incarnation": since.incarnation,
        "file_no": since.file,
        "tx": since.transaction,
        "definition": dumps(definition),
    }
    connection.execute(sa.insert(table).values(row))


def latest(connection: sa.Connection, migration: str) -> dict[tuple[str, str, str], Table]:
    """The newest definition of every table, by (source, database, table)."""
    rows = connection.execute(
        sa.select(table.c.source, table.c.table_schema, table.c.table_name, table.c.definition)
        .where(table.c.migration == migration)
        .order_by(table.c.incarnation, table.c.file_no, table.c.tx)
    )
    return {(source, database, name): loads(source, database, name, text) for source, database, name, text in rows}


def dumps(definition: Table) -> str:
    columns = [{**asdict(column), "kind": column.kind.value} for column in definition.columns]
    return json.dumps({"columns": columns, "key": definition.key, "unique_keys": definition.unique_keys})


def loads(source: str, database: str, name: str, text: str) -> Table:
    raw = json.loads(text)
    columns = tuple(Column(**{**column, "kind": Kind(column["kind"])}) for column in raw["columns"])
    uniques = tuple(tuple(key) for key in raw["unique_keys"])
    return Table(source, database, name, columns, tuple(raw["key"]), uniques)
