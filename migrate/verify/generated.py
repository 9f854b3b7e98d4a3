"""Generated columns that are stored: written by nobody but the servers, and compared all the same.

A target computes its own, and may come to another value: from another time zone or mode, or with another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migrate.chunks.sessions import Sessions
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.target.routing import PlannedTable


class WithGenerated:
    """Tables with their stored generated columns, which are asked for once."""

    def __init__(self) -> None:
        self._known: dict[TableId, PlannedTable] = {}

    def of(self, sessions: Sessions, tables: Sequence[PlannedTable]) -> tuple[PlannedTable, ...]:
        """As `with_generated`. Raises: the driver's error, ServerError."""
        for one in tables:
            if one.table.id not in self._known:
                self._known[one.table.id] = with_generated(sessions, one)
        return tuple(self._known[one.table.id] for one in tables)


def with_generated(sessions: Sessions, planned: PlannedTable) -> PlannedTable:
    """The table with its STORED generated columns among those that are compared, where every place has them.

    For reading alone: a row of it cannot be written. Raises: the driver's error, ServerError.
    """
    table = planned.table
    wanted = {column.name for column in table.columns if column.generated}
    if not wanted:
        return planned
    wanted &= {
        name
        for name, extra in _columns(sessions.source(table.source), table.database, table.name)
        if "STORED" in extra or "PERSISTENT" in extra
    }
    for one in planned.mirror_tables if wanted else ():
        wanted &= {name for name, _ in _columns(sessions.source(one.source), one.database, one.name)}
    for place in planned.places if wanted else ():
        there = _columns(sessions.targets.get(place.database), place.database.database, place.table)
        wanted &= {name for name, _ in there}
    columns = tuple(
        replace(column, generated=column.generated and column.name not in wanted) for column in table.columns
    )
    return replace(planned, table=replace(table, columns=columns), first=planned.first or table)


def _columns(connection: Connection, database: str, name: str) -> list[tuple[str, str]]:
    rows = connection.query(
        "SELECT CAST(COLUMN_NAME AS BINARY), CAST(EXTRA AS BINARY) FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, name),
    )
    return [(bytes(column).decode(), bytes(extra).decode().upper()) for column, extra in rows]
