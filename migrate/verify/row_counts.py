"""Whether what a verification compared is every row there is, told by another way than it compared them.

Its pages and look-ups go by conditions on the key. Where a server takes such a condition for something else, both sides
lack the same rows and agree. So each table is counted as a whole, its first and last row are taken by their order
alone, and the ranges that were compared are put together.

Rows in motion are no fault: where the numbers differ, both are taken again in one snapshot of that server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from migrate.chunks.keyrange import condition
from migrate.chunks.planner import Planner
from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.rowfilter import RowFilter
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.keys import Condition, above, among, order, up_to
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import compared, from_server
from migrate.target.routing import PlannedTable
from migrate.verify.chunk_check import MAX_BYTES


class ComparedRanges:
    """The key ranges that were compared, neighbours put together; in whatever order they come."""

    def __init__(self, parts: Iterable[tuple[Key | None, Key | None]] = ()) -> None:
        self._highs: dict[Key | None, Key | None] = {}  # by the low bound; None is the open end
        self._lows: dict[Key | None, Key | None] = {}
        self._twice = False
        for low, high in parts:
            self.add(low, high)

    def add(self, low: Key | None, high: Key | None) -> None:
        """A range `(low, high]` was compared."""
        if low in self._highs or high in self._lows:
            self._twice = True
            return
        if low is not None and low in self._lows:
            low = self._lows.pop(low)
            del self._highs[low]
        if high is not None and high in self._highs:
            high = self._highs.pop(high)
            del self._lows[high]
        self._highs[low] = high
        self._lows[high] = low

    def parts(self) -> list[tuple[Key | None, Key | None]]:
        """The ranges, as few as there can be."""
        return list(self._highs.items())

    @property
    def fault(self) -> str:
        """Why these are not all keys, each once; "" when they are."""
        if self._twice:
            return "ranges of the key were compared twice"
        if self._highs != {None: None}:
            return "the ranges of the key that were compared do not meet"
        return ""


@dataclass(frozen=True, slots=True)
class _Physical:
    """A table on a server: a source's, or a place."""

    connection: Connection
    table: Table
    name: str  # for messages
    rows: RowFilter | None = None

    def one(self, what: str, narrowed: Condition = ("1 = 1", []), tail: str = "") -> tuple[Any, ...] | None:
        where, arguments = narrowed
        sql = f"SELECT {what} FROM {full_name(self.table.database, self.table.name)} WHERE {where}{tail}"
        return self.connection.one(sql, arguments)

    def count(self, narrowed: Condition = ("1 = 1", [])) -> int:
        """Rows of the migration that a condition holds for."""
        row = self.one("COUNT(*)", and_rows(*narrowed, self.rows))
        return int(row[0]) if row else 0

    def end(self, *, descending: bool) -> Key | None:
        """The first or last key, by the table's order and no condition."""
        columns = self.table.key_columns
        tail = f" ORDER BY {order(self.table, descending=descending)} LIMIT 1"
        row = self.one(", ".join(map(compared, columns)), tail=tail)
        if row is None:
            return None
        return tuple(str(from_server(column)(value)) for column, value in zip(columns, row, strict=True))


def unaccounted(
    sessions: Sessions, tables: Sequence[PlannedTable], rows: int, target_rows: int, page_rows: int
) -> list[str]:
    """Why the rows that were compared may not be all there are, a sentence each; nothing when they are.

    Args: tables: all that share their places; rows, target_rows: of the chunks that were compared, on either side;
    page_rows: of a page, where rows are counted by pages. Raises: the driver's error, ServerError.
    """
    sources, places = _sources(sessions, tables), _places(sessions, tables[0])
    found: list[str] = []
    mirrors = [([one], rows) for one in _mirrors(sessions, tables[0])]
    for side, compared_rows in ((sources, rows), (places, target_rows), *mirrors):
        moved = sum(one.count() for one in side) != compared_rows
        for one in side:
            with one.connection.snapshot():
                found += _of_the_ends(one)
                if moved:
                    found += _of_the_pages(one, page_rows)
    return found


def _sources(sessions: Sessions, tables: Sequence[PlannedTable]) -> list[_Physical]:
    return [
        _Physical(
            sessions.source(one.table.source),
            one.table,
            f"source '{one.table.source}': {one.table.full_name}",
            one.rows,
        )
        for one in tables
    ]


def _mirrors(sessions: Sessions, planned: PlannedTable) -> list[_Physical]:
    """The other nodes of a broadcast table that is read, each with as many rows as the first."""
    return [
        _Physical(sessions.source(one.source), one, f"source '{one.source}': {one.full_name}")
        for one in planned.mirror_tables
    ]


def _places(sessions: Sessions, planned: PlannedTable) -> list[_Physical]:
    return [
        _Physical(
            sessions.targets.get(place.database),
            replace(planned.table, database=place.database.database, name=place.table),
            str(place),
        )
        for place in planned.places
    ]


def _of_the_ends(one: _Physical) -> Iterator[str]:
    """The first and the last row, looked for by their keys: each way finds them, and nothing lies beyond."""
    whole, table = replace(one, rows=None), one.table
    first, last = whole.end(descending=False), whole.end(descending=True)
    if first is None or last is None:
        return
    if (whole.count(among(table, [first])), whole.count(up_to(table, first))) != (1, 1):
        yield f"{one.name}: the first row is not found by its key"
    if (whole.count(among(table, [last])), whole.count(above(table, last))) != (1, 0):
        yield f"{one.name}: the last row is not found by its key"


def _of_the_pages(one: _Physical, page_rows: int) -> Iterator[str]:
    """Its rows by pages of the key, against all of them."""
    pages = Planner(one.connection, one.table, page_rows).bounded(MAX_BYTES).covering()
    by_pages = sum(one.count(_range(one.table, page)) for page in pages)
    if (rows := one.count()) != by_pages:
        yield f"{one.name} has {rows:,} rows, and {by_pages:,} by ranges of its key"


def _range(table: Table, page: Chunk) -> Condition:
    return condition(table, page.low, page.high)
