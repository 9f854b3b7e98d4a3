"""The column list each table had, and from which coordinate on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.coordinate import Coordinate
from migrate.model.table import Column, Kind, Table, TableId
from migrate.state import membership
from migrate.state.columns import is_table
from migrate.state.database import metadata
from migrate.state.membership import MemberStage

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


_AT_ONCE = 200
"""Rows in a statement."""
_AT_INIT = Coordinate(0, 0, 0, 0)
"""Stored with what init noted, which holds from the beginning on; publishers begin with incarnation 1."""
SIDE: Name = ("", "_migrate_role")
"""In place of a table: which role the source's side has. It holds from a coordinate on, as columns do, and rewinds and
failovers judge it alike."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a table is from a coordinate on.

    since: that coordinate; None: from the beginning on, as init noted it.
    table: its columns and key; the last known ones where it is gone or unsure, None where they never were known.
    create: the server's own CREATE TABLE, to replay statements on; empty where it is not known.
    holds: the selected table whose rows it has while it bears another name.
    unsure: why its columns are not known.
    gtid: of the statement that made it so; empty where it has none.
    at: when that was, by its header, seconds since 1970; 0: before the log was read.
    renames: whether values may stand under other columns' names than before it.
    role: of SIDE alone: active, standby or frozen.
    unequal: whether values may be others than before without events; emptied: whether all rows went so, at a standby
    side. Neither is stored.
    """

    table: Table | None
    create: str = ""
    gone: bool = False
    holds: Name | None = None
    unsure: str = ""
    since: Coordinate | None = None
    gtid: str = ""
    at: int = 0
    renames: bool = False
    role: str = ""
    unequal: bool = False
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class ByTime:
    """A place in another server's log that was found by time: what was noted of the old log stands behind it when it is
    not older than `wanted` (seconds since 1970), was noted at or behind `confirmed`, the last position in the old log,
    or has one of the times `statements`: those older than `wanted` of statements behind the place nonetheless, as a
    long ALTER has the time of its beginning. since: from when on there is something behind the place.
    """

    wanted: int
    confirmed: Coordinate
    statements: frozenset[int] = frozenset()
    since: int = 0

    def is_behind(self, version: Version) -> bool:
        noted_behind = version.since is not None and version.since >= self.confirmed
        return noted_behind or version.at >= self.wanted or version.at in self.statements


def add(
    connection: sa.Connection, migration: str, definition: Table, since: Coordinate | None, create: str = ""
) -> None:
    """Note a table's columns and key from a coordinate on; None: from the beginning on.

    Raises: the driver's error when they are noted already.
    """
    row = _row(migration, definition.source, (definition.database, definition.name), since)
    row["definition"] = dumps(definition, Version(definition, create))
    connection.execute(sa.insert(table).values(row))


def add_first(connection: sa.Connection, migration: str, found: Iterable[tuple[Table, str]]) -> None:
    """As `add`, of many tables that init finds, each with the statement that makes it."""
    rows = []
    for definition, create in found:
        row = _row(migration, definition.source, (definition.database, definition.name), None)
        rows.append({**row, "definition": dumps(definition, Version(definition, create))})
    for start in range(0, len(rows), _AT_ONCE):
        connection.execute(sa.insert(table), rows[start : start + _AT_ONCE])


def noted(connection: sa.Connection, migration: str) -> set[TableId]:
    """The tables that anything is noted of, removed ones too."""
    wanted = sa.select(table.c.source, table.c.table_schema, table.c.table_name).distinct()
    return {(row[0], row[1], row[2]) for row in connection.execute(wanted.where(table.c.migration == migration))}


def put(connection: sa.Connection, migration: str, source: str, name: Name, version: Version, server: str) -> None:
    """Note a version from `version.since` on; again the same after a crash.

    server: who wrote the log that the coordinate is of.
    """
    values = {"definition": dumps(version.table, version, server)}
    row = {**_row(migration, source, name, version.since), **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """Drop all that is noted of a table, as before its first init."""
    connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))


def _row(migration: str, source: str, name: Name, since: Coordinate | None) -> dict[str, object]:
    since = since or _AT_INIT
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
    judged = _judged(connection, migration, source, at, server, executed, None)
    return {name: version for name, version, holds in judged if holds}


def carry_over(
    connection: sa.Connection,
    migration: str,
    source: str,
    at: Coordinate,
    server: str,
    executed: Callable[[str], bool] = lambda _gtid: True,
    by_time: ByTime | None = None,
) -> list[tuple[Name, Version]]:
    """An incarnation begins at a coordinate: note what holds there as its own, so that neither its publisher nor a
    consumer takes what earlier ones noted further on. Returns that: what stands behind the place.

    Args: as `in_force` has them; how the place was found, if by time.
    """
    names: set[Name] = set()
    holding: dict[Name, Version] = {}
    behind = []
    for name, version, holds in _judged(connection, migration, source, at, server, executed, by_time):
        names.add(name)
        if holds:
            holding[name] = version
        else:
            behind.append((name, version))
    since = Coordinate(at.incarnation, at.file, at.transaction - 1, 0)
    for name in names:
        version = holding.get(name, Version(None, gone=True))
        put(connection, migration, source, name, replace(version, since=since), server)
    return behind


def roles(connection: sa.Connection, migration: str, source: str) -> list[tuple[str, Coordinate, str]]:
    """Which roles a side had, from where on, and in which server's log, oldest first."""
    of_side = (table.c.source == source, table.c.table_schema == SIDE[0], table.c.table_name == SIDE[1])
    found = []
    for row in connection.execute(versions_of(migration).where(*of_side)):
        raw = json.loads(row.definition)
        since = Coordinate(row.incarnation, row.file_no, row.tx, 0)
        found.append((raw.get("role", ""), since, raw.get("server", "")))
    return found


def _judged(
    connection: sa.Connection,
    migration: str,
    source: str,
    at: Coordinate,
    server: str,
    executed: Callable[[str], bool],
    by_time: ByTime | None,
) -> Iterator[tuple[Name, Version, bool]]:
    """Every version up to this incarnation, oldest first, and whether it stands before the place."""
    for row in connection.execute(versions_of(migration).where(table.c.source == source)):
        if row.incarnation > at.incarnation:
            continue
        raw = json.loads(row.definition)
        name = (row.table_schema, row.table_name)
        version = version_of(source, name, raw, since_of(row))
        if row.incarnation == at.incarnation or raw.get("server") == server:
            holds = version.since is None or version.since[1:3] < at[1:3]
        elif by_time is not None:
            holds = not by_time.is_behind(version)
        else:
            holds = not version.gtid or executed(version.gtid)
        yield name, version, holds


def versions_of(migration: str) -> sa.Select[Any]:
    """Every row, oldest first."""
    return (
        sa.select(table)
        .where(table.c.migration == migration)
        .order_by(table.c.incarnation, table.c.file_no, table.c.tx)
    )


def since_of(row: sa.Row[Any]) -> Coordinate | None:
    """From where on a row holds; None: from the beginning on."""
    at = Coordinate(row.incarnation, row.file_no, row.tx, 0)
    return None if at == _AT_INIT else at


def version_of(source: str, name: Name, raw: dict[str, Any], since: Coordinate | None) -> Version:
    """raw: a row's definition."""
    holds = raw.get("holds")
    return Version(
        _table(source, *name, raw),
        raw.get("create", ""),
        raw.get("gone", False),
        (holds[0], holds[1]) if holds else None,
        raw.get("unsure", ""),
        since,
        raw.get("gtid", ""),
        raw.get("at", 0),
        raw.get("renames", False),
        raw.get("role", ""),
    )


def latest(connection: sa.Connection, migration: str) -> dict[TableId, Table]:
    """The newest definition of every table that init noted and did not remove."""
    found: dict[TableId, Table] = {}
    noted = set()
    for row in connection.execute(versions_of(migration)):
        key = (row.source, row.table_schema, row.table_name)
        definition = loads(*key, row.definition)
        if row.incarnation == _AT_INIT.incarnation:
            noted.add(key)
        if definition is not None:
            found[key] = definition
    return _members(connection, migration, {key: one for key, one in found.items() if key in noted})


def first(connection: sa.Connection, migration: str) -> dict[TableId, Table]:
    """The definitions that init noted, of the tables that it did not remove."""
    found: dict[TableId, Table] = {}
    for row in connection.execute(versions_of(migration).where(table.c.incarnation == _AT_INIT.incarnation)):
        key = (row.source, row.table_schema, row.table_name)
        if (definition := loads(*key, row.definition)) is not None:
            found[key] = definition
    return _members(connection, migration, found)


def first_created(connection: sa.Connection, migration: str, id_: TableId) -> str:
    """The CREATE TABLE statement that init noted of a table, by which the target tables were made; "" for none."""
    wanted = sa.select(table.c.definition).where(
        *is_table(table, migration, id_), table.c.incarnation == _AT_INIT.incarnation
    )
    found = connection.execute(wanted).scalar()
    return str(json.loads(found).get("create", "")) if found else ""


def _members(connection: sa.Connection, migration: str, found: dict[TableId, Table]) -> dict[TableId, Table]:
    removed = {id_ for id_, one in membership.every(connection, migration).items() if one.stage is MemberStage.REMOVED}
    return {id_: definition for id_, definition in found.items() if id_ not in removed}


def dumps(definition: Table | None, version: Version | None = None, server: str = "") -> str:
    raw: dict[str, object] = {}
    if definition is not None:
        raw["columns"] = [{**asdict(column), "kind": column.kind.value} for column in definition.columns]
        raw |= {"key": definition.key, "unique_keys": definition.unique_keys}
    if version is not None:
        names = ("create", "gone", "holds", "unsure", "gtid", "at", "renames", "role")
        more = {name: getattr(version, name) for name in names}
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
