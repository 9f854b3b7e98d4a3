"""Chunks as keyset pages, planned one after the other while copying goes on.

`SELECT key … WHERE key > low ORDER BY key LIMIT 1 OFFSET n - 1` reads n entries of an index, so the cost of a page
does not depend on gaps in the key nor on how far the table was read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from migrate.chunks.keyrange import added, condition
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.keys import order
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.values import compared, from_server

_LEAST = 100
"""Rows of a page, whatever the statistics say: they are old at times."""
_NO_STATISTICS = 16384
"""Bytes of a row of a table of which the server has no statistics yet, as one that was just filled."""


class Planner:
    """Finds the bounds of pages of `rows` keys on a server, mostly the source.

    rows: may be changed between pages.
    """

    def __init__(self, connection: Connection, table: Table, rows: int, part: str = "") -> None:
        """part: SQL that chooses rows; others are not looked at."""
        self.rows = rows
        self._part = part
        self._connection = connection
        self._table = table
        self._fields = ", ".join(map(compared, table.key_columns))
        self._readers = [from_server(column) for column in table.key_columns]

    def copied(self, number: int, low: Key | None, until: Key | None) -> Iterator[Chunk]:
        """Pages above `low` up to `until`, the last key when the copy began; none when there is no key.

        Rows beyond `until` were committed after that, so the stream brings them (invariant capture-before-copy).
        """
        while until is not None and low != until:
            high = self.page_end(low, until)
            if high is None:
                if self.last_key(low, until) is None:
                    return
                high = until
            yield Chunk(number, low, high)
            number, low = number + 1, high

    def covering(self, number: int = 0, low: Key | None = None, others: Sequence[Planner] = ()) -> Iterator[Chunk]:
        """Pages that leave no key above `low` out: the first begins at `low`, the last has no upper bound.

        others: of tables whose keys are among the same; no page has more than `rows` keys of any.
        """
        for index, (below, high) in enumerate(cut([self, *others], low, None), number):
            yield Chunk(index, below, high)

    def last_key(self, low: Key | None = None, until: Key | None = None) -> Key | None:
        """The highest key there is in `(low, until]`."""
        return self._key(low, until, f"{order(self._table, descending=True)} LIMIT 1")

    def estimate(self) -> int:
        """Rows of the table as the server's statistics say."""
        return self._statistic("TABLE_ROWS")

    def row_bytes(self) -> int:
        """What a row takes at the server, by its statistics."""
        return self._statistic("AVG_ROW_LENGTH")

    def bounded(self, size: int) -> Planner:
        """Itself, with pages of not many more bytes than this either, by the server's statistics."""
        self.rows = min(self.rows, max(_LEAST, size // (self.row_bytes() or _NO_STATISTICS)))
        return self

    def _statistic(self, name: str) -> int:
        row = self._connection.one(
            f"SELECT {name} FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (self._table.database, self._table.name),
        )
        return int(row[0] or 0) if row else 0

    @cached_property
    def _by_key(self) -> str:
        """Has the server go along the key's own index: by another one MySQL reads all keys above, and sorts them.

        A part may be found sooner by another index. MariaDB, which needs no such word, may have been told to ignore
        an index that is not the primary key.
        """
        if self._part:
            return ""
        parts: dict[bytes, list[bytes]] = {}
        for index, column in self._connection.query(
            "SELECT CAST(INDEX_NAME AS BINARY), IF(SUB_PART IS NULL, CAST(COLUMN_NAME AS BINARY), NULL)"
            " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0"
            " AND (INDEX_NAME = 'PRIMARY' OR %s) /*!80000 AND IS_VISIBLE = 'YES' */"
            " ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX",
            (self._table.database, self._table.name, self._connection.flavour == "mysql"),
        ):
            parts.setdefault(index, []).append(column or b"")
        wanted = [name.encode() for name in self._table.key]
        found = next((index for index, columns in parts.items() if columns == wanted), None)
        return f"FORCE INDEX ({quote(found.decode())})" if found else ""

    def page_end(self, low: Key | None, until: Key | None) -> Key | None:
        return self._key(low, until, f"{order(self._table)} LIMIT 1 OFFSET {self.rows - 1}")

    def _key(self, low: Key | None, until: Key | None, tail: str) -> Key | None:
        where, arguments = condition(self._table, low, until)
        where = added(where, self._part)
        name = f"{full_name(self._table.database, self._table.name)} {self._by_key}"
        row = self._connection.one(f"SELECT {self._fields} FROM {name} WHERE {where} ORDER BY {tail}", arguments)
        if row is None:
            return None
        return tuple(str(read(value)) for read, value in zip(self._readers, row, strict=True))


def cut(planners: Sequence[Planner], low: Key | None, until: Key | None) -> Iterator[tuple[Key | None, Key | None]]:
    """`(low, until]` in pages of the first planner, each in pages of the next ones. Each server orders its own keys."""
    if not planners:
        yield low, until
        return
    first, *others = planners
    while (high := first.page_end(low, until)) is not None and high != until:
        yield from cut(others, low, high)
        low = high
    yield from cut(others, low, until)
