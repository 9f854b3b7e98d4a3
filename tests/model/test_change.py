"""Messages become changes; keys become partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.change import (
    Change,
    NoChange,
    Origin,
    changes,
    from_stored,
    key_json,
    key_of,
    partition_of,
    stored,
)
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Message, Op


def message(kind: str, **more: Any) -> Message:
    parts: dict[str, Any] = {
        "data": ({"id": "1", "v": "a"}, {"id": "2", "v": None}),
        "rows": (4, 6),
        "source": "s",
        "incarnation": 1,
        "file": 2,
        "transaction": 3,
        "es": 99,
        **more,
    }
    return Message("shop", "t", kind, **parts)


def test_inserts_have_only_an_after_image() -> None:
    assert list(changes(message("INSERT"), ("id",))) == [
        Change("s", "shop", "t", Op.INSERT, ("1",), None, {"id": "1", "v": "a"}, Coordinate(1, 2, 3, 4), 99),
        Change("s", "shop", "t", Op.INSERT, ("2",), None, {"id": "2", "v": None}, Coordinate(1, 2, 3, 6), 99),
    ]


def test_deletes_have_only_a_before_image() -> None:
    first = next(changes(message("DELETE"), ("id",)))
    assert (first.op, first.key, first.before, first.after) == (Op.DELETE, ("1",), {"id": "1", "v": "a"}, None)


def test_updates_have_both_images_and_old_holds_only_what_changed() -> None:
    both = list(changes(message("UPDATE", old=({"v": "x"}, {})), ("id",)))
    assert [change.before for change in both] == [{"id": "1", "v": "x"}, {"id": "2", "v": None}]
    assert [change.after for change in both] == [{"id": "1", "v": "a"}, {"id": "2", "v": None}]


def test_an_update_of_the_key_stops_because_the_old_row_would_stay() -> None:
    """Our publisher splits it; another producer may not."""
    with pytest.raises(StopError, match="changes the key"):
        list(changes(message("UPDATE", data=({"id": "2", "v": "a"},), old=({"id": "1"},), rows=(0,)), ("id",)))


def test_an_update_from_null_and_to_null() -> None:
    change = next(changes(message("UPDATE", data=({"id": "1", "v": None},), rows=(0,), old=({"v": ""},)), ("id",)))
    assert (change.before, change.after) == ({"id": "1", "v": ""}, {"id": "1", "v": None})


def test_an_update_without_old_images_is_taken_as_it_is() -> None:
    change = next(changes(message("UPDATE", old=None), ("id",)))
    assert change.before == change.after == {"id": "1", "v": "a"}


@pytest.mark.parametrize("kind", ["CREATE", "ERASE", "QUERY", "insert", "TRUNCATE", ""])
def test_rows_of_another_type_stop_with_table_and_coordinate(kind: str) -> None:
    with pytest.raises(StopError, match=rf"shop\.t at \(1, 2, 3, 6\): message type {kind} is not a row change"):
        list(changes(message(kind), ("id",)))


@pytest.mark.parametrize("row", [{"v": "1"}, {"id": None, "v": "1"}, {}])
def test_a_row_without_its_key_stops(row: dict[str, str | None]) -> None:
    with pytest.raises(StopError, match="here: key column id is missing or NULL"):
        key_of(row, ("id",), "here")


def test_a_key_keeps_the_order_of_its_columns() -> None:
    assert key_of({"a": "1", "b": "2"}, ("b", "a"), "here") == ("2", "1")
    assert key_json(("é", 'a"b', "")) == '["é", "a\\"b", ""]'


# zlib.crc32 over the documented bytes. They never change: a key that moved to another partition in the middle of a
# migration would be overtaken by its own older changes.
@pytest.mark.parametrize(
    ("database", "table", "key", "partitions", "expected"),
    [
        ("shop", "orders", ("42",), 16, 6),
        ("shop", "orders", ("43",), 16, 7),
        ("shop", "orders", None, 16, 11),
        ("shop", "orders", ("1", "2"), 7, 4),
        ("shop", "orders", ("12", ""), 7, 5),
        ("shöp", "€", ("😀",), 1000, 103),
        ("a", "b", ("x" * 300,), 64, 42),
        ("shop", "orders", ("18446744073709551615",), 4, 2),
        ("shop", "orders", ("anything",), 1, 0),
    ],
)
def test_the_partition_of_a_key_is_final(
    database: str, table: str, key: tuple[str, ...] | None, partitions: int, expected: int
) -> None:
    assert partition_of(database, table, key, partitions) == expected


@given(st.lists(st.text(), min_size=1, max_size=3), st.integers(1, 1000))
def test_every_key_has_a_partition(key: list[str], partitions: int) -> None:
    assert 0 <= partition_of("d", "t", tuple(key), partitions) < partitions


def test_keys_spread_over_all_partitions() -> None:
    found = Counter(partition_of("shop", "orders", (str(number),), 8) for number in range(8000))
    assert len(found) == 8
    assert min(found.values()) > 800


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (NoChange.REFRESH, (0, 0, 0, 0)),
        (NoChange.COPY, (-1, 0, 0, 0)),
        (Coordinate(1, 12, 4711, 2), (1, 12, 4711, 2)),
    ],
)
def test_how_an_origin_is_stored_is_final(origin: Origin, expected: tuple[int, ...]) -> None:
    assert stored(origin) == expected
    assert from_stored(Coordinate(*expected)) == origin
