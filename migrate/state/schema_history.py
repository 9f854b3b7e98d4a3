"""The column list each table had, and from which coordinate on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

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


Name = tuple[str, str]
"""(database, table)"""


BEGINNING = Coordinate(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Version:
    """What a table is from a coordinate on.

    table: its columns and key; the last known ones where it is gone or unsure, None where they never were known.
    create: the server's own CREATE TABLE, to replay statements on; empty where it is not known.
    holds: the selected table whose rows it has while it bears another name.
    unsure: why its columns are not known.
    gtid: of the statement that made it so; empty where it has none.
    """

    table: Table | None
    create: str = ""
    gone: bool = False
    holds: Name | None = None
    unsure: str = ""
    since: Coordinate = BEGINNING
    gtid: str = ""


def add(connection: sa.Connection, migration: str, definition: Table, since: Coordinate, create: str = "") -> None:
    """Note a table's columns and key from a coordinate on. Raises the driver's error when they are noted already."""
    row = _row(migration, definition.source, (definition.database, definition.name), since)
    row["definition"] = dumps(definition, Version(definition, create))
    connection.execute(sa.insert(table).values(row))


def put(connection: sa.Connection, migration: str, source: str, name: Name, version: Version, server: str) -> None:
    """Note a version from `version.since` on; again the same after a crash.

    server: who wrote the log that the coordinate is of.
    """
    values = {"definition": dumps(version.table, version, server)}
    row = {**_row(migration, source, name, version.since), **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def _row(migration: str, source: str, name: Name, since: Coordinate) -> dict[str, object]:
    return {
        "migration": migration,
        "source": source,
        "table_schema": name[0],
        "table_name": name[1],
        "incarnation": since.incarnation,
        "file_no": since.file,
        "tx": since.transaction,
    }


def in_force(
    connection: sa.Connection,
    migration: str,
    source: str,
    at: Coordinate,
    server: str,
    executed: Callable[[str], bool] = lambda _gtid: True,
) -> dict[Name, Version]:
    """What holds for a transaction that starts at a coordinate or behind it, by (database, table).

    What an earlier incarnation noted holds too, unless we have gone back before it: it stands behind the coordinate in
    the same server's log, or has a GTID that is not among those before the place in another's (`executed`).
    """
    found: dict[Name, Version] = {}
    for row in connection.execute(_versions(migration).where(table.c.source == source)):
        raw = json.loads(row.definition)
        since = Coordinate(row.incarnation, row.file_no, row.tx, 0)
        same_log = since.incarnation == at.incarnation or raw.get("server") == server
        if since.incarnation > at.incarnation or (same_log and since[1:3] >= at[1:3]):
            continue
        if not same_log and raw.get("gtid") and not executed(raw["gtid"]):
            continue
        name = (row.table_schema, row.table_name)
        found[name] = _version(source, name, raw, since)
    return found


def _versions(migration: str) -> sa.Select[Any]:
    return (
        sa.select(table)
        .where(table.c.migration == migration)
        .order_by(table.c.incarnation, table.c.file_no, table.c.tx)
    )


def _version(source: str, name: Name, raw: dict[str, Any], since: Coordinate) -> Version:
    holds = raw.get("holds")
    return Version(
        _table(source, *name, raw),
        raw.get("create", ""),
        raw.get("gone", False),
        (holds[0], holds[1]) if holds else None,
        raw.get("unsure", ""),
        since,
        raw.get("gtid", ""),
    )


def latest(connection: sa.Connection, migration: str) -> dict[tuple[str, str, str], Table]:
    """The newest definition of every table that init noted, by (source, database, table)."""
    found: dict[tuple[str, str, str], Table] = {}
    noted = set()
    for row in connection.execute(_versions(migration)):
        key = (row.source, row.table_schema, row.table_name)
        definition = loads(*key, row.definition)
        if row.incarnation == BEGINNING.incarnation:
            noted.add(key)
        if definition is not None:
            found[key] = definition
    return {key: definition for key, definition in found.items() if key in noted}


def first(connection: sa.Connection, migration: str) -> dict[tuple[str, str, str], Table]:
    """The definitions that init noted, by (source, database, table)."""
    found: dict[tuple[str, str, str], Table] = {}
    for row in connection.execute(_versions(migration).where(table.c.incarnation == BEGINNING.incarnation)):
        key = (row.source, row.table_schema, row.table_name)
        if (definition := loads(*key, row.definition)) is not None:
            found[key] = definition
    return found


class Reading:
    """Every known definition of the tables, for who needs those of other places in the log too."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any], migration: str) -> None:
        """run: runs an action in a transaction of the state database."""
        self._run = run
        self._migration = migration

    def mark(self) -> object:
        """Another value once anything was noted."""
        sums = sa.select(sa.func.count(), sa.func.sum(sa.func.crc32(table.c.definition))).where(
            table.c.migration == self._migration
        )
        return tuple(self._run(lambda connection: connection.execute(sums).one()))

    def versions(self) -> dict[tuple[str, str, str], list[tuple[Coordinate, Table]]]:
        """By (source, database, table), each from a coordinate on, oldest first."""
        rows = self._run(lambda connection: list(connection.execute(_versions(self._migration))))
        found: dict[tuple[str, str, str], list[tuple[Coordinate, Table]]] = {}
        for row in rows:
            name = (row.table_schema, row.table_name)
            version = _version(row.source, name, json.loads(row.definition), BEGINNING)
            if version.table is not None and not version.gone and not version.unsure:
                since = Coordinate(row.incarnation, row.file_no, row.tx, 0)
                found.setdefault((row.source, *name), []).append((since, version.table))
        return found


def dumps(definition: Table | None, version: Version | None = None, server: str = "") -> str:
    raw: dict[str, object] = {}
    if definition is not None:
        raw["columns"] = [{**asdict(column), "kind": column.kind.value} for column in definition.columns]
        raw |= {"key": definition.key, "unique_keys": definition.unique_keys}
    if version is not None:
        more = {name: getattr(version, name) for name in ("create", "gone", "holds", "unsure", "gtid")}
        raw |= {name: value for name, value in {**more, "server": server}.items() if value}
    return json.dumps(raw)


def loads(source: str, database: str, name: str, text: str) -> Table | None:
    """The columns and key; None where the row has none."""
    return _table(source, database, name, json.loads(text))


def _table(source: str, database: str, name: str, raw: dict[str, Any]) -> Table | None:
    if "columns" not in raw:
        return None
    columns = tuple(Column(**{**column, "kind": Kind(column["kind"])}) for column in raw["columns"])
    uniques = tuple(tuple(key) for key in raw["unique_keys"])
    return Table(source, database, name, columns, tuple(raw["key"]), uniques)
