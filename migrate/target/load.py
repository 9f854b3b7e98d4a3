"""Rows into one physical table by `LOAD DATA LOCAL`: what is absent is inserted, as the full copy wants it.

With LOCAL a server takes a row that it cannot take as it is for one to be mended or skipped, and only warns (MySQL
manual, "LOAD DATA Statement"). So every warning is read: all but "this key is there already" mean that the load is to
be undone, and the rows written another way, which names what is wrong with one. A warning's number does not say which
unique key it is of, so that is only taken where the table has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from migrate.model.table import BYTES_KINDS, Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import DUPLICATE_KEY
from migrate.mysql.local_load import FILE, load
from migrate.mysql.quoting import quote

Block = tuple[bytes, int]
"""Lines (`migrate.chunks.line`) as one text, and how many they are: at most ROWS."""
ROWS = 50_000
"""In one statement, so that the server keeps a warning for each."""
_PACKET = 512 * 1024
_THROUGH_TEXT = frozenset({Kind.JSON, Kind.UUID, Kind.INET})
_NUMBERED = frozenset({Kind.ENUM, Kind.SET})


class PlaceLoader:
    """Loads lines into one physical table."""

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name
        self._one_key: bool | None = None  # whether the physical table has one unique key; None before it was asked

    @cached_property
    def _statement(self) -> str:
        """Made for a place that gets rows: a chunk has a loader for each."""
        charset, fields, sets = "utf8mb4", [], []
        if any(column.kind in BYTES_KINDS for column in self._table.stored):
            charset = "binary"
        for index, column in enumerate(self._table.stored):
            value = _value(column, f"@v{index}", charset)
            fields.append(quote(column.name) if value is None else f"@v{index}")
            if value is not None:
                sets.append(f"{quote(column.name)} = {value}")
        return (
            f"LOAD DATA LOCAL INFILE '{FILE}' INTO TABLE {quote(self._name)} CHARACTER SET {charset}"
            r" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
            f" ({', '.join(fields)}){' SET ' if sets else ''}{', '.join(sets)}"
        )

    def load(self, connection: Connection, blocks: Sequence[Block]) -> int | None:
        """Insert the rows whose keys are absent, in the caller's transaction; returns how many.

        None when the server said anything else of a row: then the transaction is to be rolled back.
        Raises: the driver's error; StopError, ServerError.
        """
        inserted = 0
        for part, rows in _statements(blocks):
            done = load(connection, self._statement, _packets(part))
            if done.rows + done.warnings != rows or not self._only_present(connection, done.warnings):
                return None
            inserted += done.rows
        return inserted

    def _only_present(self, connection: Connection, count: int) -> bool:
        if not count:
            return True
        found = connection.query("SHOW WARNINGS")
        if len(found) < count or any(int(number) != DUPLICATE_KEY for _, number, _ in found):
            return False
        if self._one_key is None:
            self._one_key = _unique_keys(connection, self._name) == 1
        return self._one_key


def _unique_keys(connection: Connection, name: str) -> int:
    """How many the table of the session's database has, the primary key among them."""
    ((found,),) = connection.query(
        "SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND NON_UNIQUE = 0",
        [name],
    )
    return int(found)


def _value(column: Column, field: str, charset: str) -> str | None:
    """What a column is set to of a field that it cannot take as it is; None when it can."""
    if column.kind is Kind.BIT or (column.kind in _NUMBERED and _like_numbers(column)):
        return f"CAST({field} AS UNSIGNED)"
    if charset == "binary" and column.kind in _THROUGH_TEXT:
        return f"CONVERT({field} USING utf8mb4)"
    return None


def _like_numbers(column: Column) -> bool:
    """Whether a label could be taken for another one's number: labels are looked for first.

    Collations have digits of other scripts, and circled ones, for the same as those of ASCII.
    """
    return not column.type.isascii() or any(character.isdecimal() for character in column.type)


def _statements(blocks: Sequence[Block]) -> Iterator[tuple[list[bytes], int]]:
    part: list[bytes] = []
    rows = 0
    for lines, count in blocks:
        if part and rows + count > ROWS:
            yield part, rows
            part, rows = [], 0
        part.append(lines)
        rows += count
    if part:
        yield part, rows


def _packets(blocks: Sequence[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), _PACKET):
            yield block[start : start + _PACKET]
