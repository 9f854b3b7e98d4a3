"""A chunk is bounded by the sources' pages; where the target has far more rows, it is cut by the target's own.

Else a place with millions of rows in a range where the sources have none would be summed up in one statement, which
says nothing until it is through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migrate.chunks.keyrange import condition
from migrate.chunks.planner import Planner, cut
from migrate.model.chunk import Chunk
from migrate.mysql.quoting import quote
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable

_TIMES = 2
"""So many times the sources' rows are no matter of an estimate that is wrong."""
_FEW = 1000
"""Rows that are no matter."""
_COLUMNS = 12
"""Of MySQL's EXPLAIN, where the estimate is the tenth; of MariaDB's, without partitions and filtered, the ninth."""


def parts(
    pool: TargetPool, planned: PlannedTable, chunk: Chunk, rows: int, page_rows: int, page_bytes: int
) -> list[Chunk]:
    """The range; or where a place has far more than the `rows` of the sources, pages of it, by its own keys.

    No place has more rows in a page than `page_rows`, nor many more bytes than `page_bytes`.
    """
    allowed = max(_FEW, _TIMES * rows)
    planners = [
        Planner(
            pool.get(place.database),
            replace(planned.table, database=place.database.database, name=place.table),
            page_rows,
        ).bounded(page_bytes)
        for place, estimate in zip(planned.places, _estimates(pool, planned, chunk), strict=True)
        if estimate > allowed
    ]
    return [Chunk(chunk.number, low, high) for low, high in cut(planners, chunk.low, chunk.high)]


def _estimates(pool: TargetPool, planned: PlannedTable, chunk: Chunk) -> Sequence[int]:
    """Rows of each place in a range, as its server guesses by two dives into the index; one statement a database."""
    where, arguments = condition(planned.table, chunk.low, chunk.high)
    found = [0] * len(planned.places)
    for database in planned.databases:
        places = [index for index, place in enumerate(planned.places) if place.database == database]
        selects = [f"SELECT 1 FROM {quote(planned.places[index].table)} WHERE {where}" for index in places]
        statement = f"EXPLAIN FORMAT=TRADITIONAL {' UNION ALL '.join(selects)}"
        told = pool.get(database).query(statement, arguments * len(places))
        for index, row in zip(places, told, strict=False):  # a union's own row may be behind those of its parts
            found[index] = int(row[9 if len(row) == _COLUMNS else 8] or 0)
    return found
