"""A unique value that the copy brought before the stream has come to it (docs/decisions/0003)."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from migrate.mysql.catalog import load_table
from migrate.target.rows import PlaceWriter
from tests.target.conftest import TargetSide


@pytest.fixture
def writer(side: TargetSide) -> Iterator[PlaceWriter]:
    side.one.execute(
        "CREATE TABLE accounts (id INT PRIMARY KEY, mail VARCHAR(50), a INT, b INT, UNIQUE (mail), UNIQUE (a, b))"
    )
    yield PlaceWriter(load_table(side.one, "main", side.database, "accounts"), "accounts")
    side.one.execute("DROP TABLE accounts")


def row(key: int, mail: str | None, a: int | None, b: int | None) -> dict[str, str | None]:
    return {
        "id": str(key),
        "mail": mail,
        "a": None if a is None else str(a),
        "b": None if b is None else str(b),
    }


def test_a_row_that_holds_the_value_gives_way_and_no_other(side: TargetSide, writer: PlaceWriter) -> None:
    side.one.execute("INSERT INTO accounts VALUES (1, 'x', 1, 1), (2, 'y', 2, 2), (3, NULL, NULL, 1), (4, 'z', 9, 9)")
    with side.one.transaction():
        rows = [row(10, "x", 7, 7), row(11, "w", 2, 2), row(12, None, None, 1)]
        assert writer.insert_taking(side.one, rows) == [("1",), ("2",)]
    assert side.rows("accounts") == [
        (3, None, None, 1),
        (4, "z", 9, 9),
        (10, "x", 7, 7),
        (11, "w", 2, 2),
        (12, None, None, 1),
    ]


def test_a_key_that_is_there_already_is_still_refused(side: TargetSide, writer: PlaceWriter) -> None:
    """The copy inserted it between the look-up and the write: the look-up must be done again."""
    side.one.execute("INSERT INTO accounts VALUES (1, 'x', 1, 1)")
    with pytest.raises(pymysql.err.IntegrityError), side.one.transaction():
        writer.insert_taking(side.one, [row(1, "other", 5, 5)])
    assert side.rows("accounts") == [(1, "x", 1, 1)]
