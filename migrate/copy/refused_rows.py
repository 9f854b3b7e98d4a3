"""Copied rows that a target refuses as they are: found one by one, parked where wanted (invariant unknown-stops).

The stream ends what is parked with the next state of the key. Parking must not come to pass beside such a
write: the stream's transactions in this database are waited for, and none begins meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import pymysql

from migrate.model.change import Key, NoChange
from migrate.model.message import Row
from migrate.model.table import Table
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import DUPLICATE_KEY, OF_A_ROW, number, text
from migrate.mysql.values import Parameter
from migrate.state.chunks import CopyCounts
from migrate.target import fence, ledger, parked
from migrate.target.decide import Intent
from migrate.target.parked import SetAside
from migrate.target.rows import PlaceWriter

_AT_ONCE = 1000
BY_CONFIG = "copy.refused: park"
"""The reason of rows that no person named."""


def is_of_a_row(error: BaseException) -> bool:
    """Whether a server says so of a row's values, not of the table or of itself."""
    return isinstance(error, Warned) or number(error) in OF_A_ROW


def find(
    connection: Connection, writer: PlaceWriter, rows: Sequence[Sequence[Parameter]], but: Collection[int]
) -> dict[int, str]:
    """Which of these rows are refused, by index, and why; `but`: those that are there. Nothing is kept.

    Raises: the driver's error when it says nothing of a row.
    """
    found: dict[int, str] = {}
    indexes = [index for index in range(len(rows)) if index not in but]
    connection.enter()
    connection.raw.begin()
    try:
        for start in range(0, len(indexes), _AT_ONCE):
            _search(connection, writer, rows, indexes[start : start + _AT_ONCE], found)
    finally:
        connection.raw.rollback()
    return found


def _search(
    connection: Connection,
    writer: PlaceWriter,
    rows: Sequence[Sequence[Parameter]],
    indexes: Sequence[int],
    found: dict[int, str],
) -> None:
    """By halves: most rows are taken."""
    connection.execute("SAVEPOINT search")
    try:
        writer.insert_values(connection, [rows[index] for index in indexes])
        return
    except (pymysql.MySQLError, Warned) as error:
        is_there = number(error) == DUPLICATE_KEY
        if not is_there and not is_of_a_row(error):
            raise
        told = text(error)
    connection.execute("ROLLBACK TO SAVEPOINT search")
    if len(indexes) == 1:
        if not is_there:
            found[indexes[0]] = told
        return
    half = len(indexes) // 2
    _search(connection, writer, rows, indexes[:half], found)
    _search(connection, writer, rows, indexes[half:], found)


def park(
    connection: Connection,
    migration: str,
    noted_as: Table,
    writer: PlaceWriter,
    rows: Sequence[tuple[Key, Row, SetAside]],
    present: Callable[[Connection, PlaceWriter, Sequence[Key]], set[Key]],
) -> CopyCounts:
    """Park rows of a place, in the caller's transaction. What is parked of a change is newer, and stays.

    Returns: how many were parked, how many are present, and how many the ledger says are deleted (`taken_out`).
    """
    fence.hold(connection, migration)
    table, keys = writer.table, [key for key, _, _ in rows]
    there = present(connection, writer, keys)
    hashes = ledger.key_hashes(connection, table, keys)
    gone = ledger.find(connection, migration, noted_as, writer.name, hashes)
    newer = parked.of_changes(connection, migration, table, writer.name)
    counts = Counter[str]()
    for (key, row, why), key_hash in zip(rows, hashes, strict=True):
        if key_hash in gone:
            counts["taken_out"] += 1
        elif key in there or key_hash in newer:
            counts["rows_present"] += 1
        else:
            counts["parked"] += 1
            parked.put(connection, migration, table, writer.name, Intent(key, row, NoChange.COPY), why)
    return CopyCounts(**counts)
