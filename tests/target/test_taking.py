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
        assert writer.insert_taking(side.one, rows) == [{"id": "1"}, {"id": "2"}]
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


PARTS = {
    "a beginning": ("id INT PRIMARY KEY, v VARCHAR(20), UNIQUE (v(3))", {"v": "abcd"}, {"v": "ABCx"}, {"v": "abd"}),
    "a beginning of bytes": (
        "id INT PRIMARY KEY, v VARBINARY(20), n INT, UNIQUE (n, v(2))",
        {"v": "abc", "n": "1"},
        {"v": "abd", "n": "1"},
        {"v": "abd", "n": "2"},
    ),
    "a generated column": (
        "id INT PRIMARY KEY, a INT, b INT, g INT AS (a + b) STORED, UNIQUE (g)",
        {"a": "1", "b": "2"},
        {"a": "2", "b": "1"},
        {"a": "2", "b": "2"},
    ),
    "an expression": (
        "id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_bin, UNIQUE ((CONCAT(LOWER(v), '%''s')))",
        {"v": "One"},
        {"v": "oNE"},
        {"v": "two"},
    ),
}


@pytest.mark.parametrize("what", PARTS)
def test_a_row_gives_way_whatever_the_unique_key_is_on(side: TargetSide, what: str) -> None:
    """Lost: two rows that swapped such a value were not found, and waited for each other for ever."""
    columns, held, taking, apart = PARTS[what]
    if what == "an expression" and side.one.flavour != "mysql":
        pytest.skip("MySQL only")
    side.one.execute(f"CREATE TABLE parted ({columns.replace('%', '%%')})")
    try:
        writer = PlaceWriter(load_table(side.one, "main", side.database, "parted"), "parted")
        with side.one.transaction():
            writer.insert(side.one, [{"id": "1", **held}])
            assert writer.insert_taking(side.one, [{"id": "3", **apart}]) == []
            assert writer.insert_taking(side.one, [{"id": "2", **taking}]) == [{"id": "1"}]
        assert [key for key, *_ in side.rows("parted")] == [2, 3]
    finally:
        side.one.execute("DROP TABLE parted")
