"""Which tables are so small that Spark's part would cost more than their rows."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.chunks.sessions import Sessions
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.target.routing import PlannedTable

ROWS = 5_000
BYTES = 4 * 1024 * 1024
LEAST = 4
"""Small tables below which sharing brings nothing."""
Unit = Sequence[PlannedTable]
"""A table, or all of a group."""


def small_ones(sessions: Sessions, units: Sequence[Unit]) -> list[list[Unit]]:
    """The small ones by the first table's source, as its statistics say, where it has enough of them to share work.

    Raises: ServerError, the driver's error.
    """
    small = {one.table.id for unit in units for one in unit}
    for name in dict.fromkeys(one.table.source for unit in units for one in unit):
        ids = {one.table.id for unit in units for one in unit if one.table.source == name}
        small -= _large(sessions.source(name), ids)
    found: dict[str, list[Unit]] = {}
    for unit in units:
        if all(one.table.id in small for one in unit):
            found.setdefault(unit[0].table.source, []).append(unit)
    return [small_here for small_here in found.values() if len(small_here) >= LEAST]


def _large(connection: Connection, ids: set[TableId]) -> set[TableId]:
    """Those with more rows or bytes; one statement for all."""
    schemas = sorted({database for _, database, _ in ids})
    marks = ", ".join(["%s"] * len(schemas))
    rows = connection.query(
        "SELECT CAST(TABLE_SCHEMA AS BINARY), CAST(TABLE_NAME AS BINARY) FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA IN ({marks}) AND (TABLE_ROWS > {ROWS} OR DATA_LENGTH > {BYTES})",
        schemas,
    )
    large = {(bytes(database).decode(), bytes(name).decode()) for database, name in rows}
    return {id_ for id_ in ids if id_[1:] in large}
