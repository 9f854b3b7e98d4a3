"""How much there is to move, by the servers' statistics, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.model.table import Table
from migrate.mysql.connection import Connection

ROWS_PER_SECOND = 20_000
"""A careful rate for one machine, far below what `docs/benchmarks.md` measured."""

BYTES_PER_SECOND = 16_000_000
"""What was measured there of rows of 130 bytes, 129,300 a second; of larger rows more bytes go in a second."""


@dataclass(frozen=True, slots=True)
class Volume:
    """rows and bytes (with indexes): estimates, as InnoDB's statistics are."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.rows + other.rows, self.bytes + other.bytes)

    @property
    def copy_seconds(self) -> float:
        """What a full copy may take: of many small rows by their number, of large ones by their size."""
        return max(self.rows / ROWS_PER_SECOND, self.bytes / BYTES_PER_SECOND)


def of(connection: Connection, table: Table) -> Volume:
    """Of a table of the source that the connection is to."""
    row = connection.one(
        "SELECT TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    return Volume(int(row[0] or 0), int(row[1] or 0)) if row is not None else Volume()
