"""Coordinates are ordered as the log is, and ordinals leave room for two changes a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.coordinate import Coordinate, file_number, ordinal
from migrate.model.errors import StopError

EVENTS = st.integers(0, 2**20)
INDEXES = st.integers(0, 2**31 - 1)
PLACES = st.tuples(EVENTS, INDEXES, st.integers(0, 1))


@given(PLACES, PLACES)
def test_ordinals_are_ordered_by_event_then_row_then_half(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    assert (ordinal(*one) < ordinal(*two)) == (one < two)
    assert (ordinal(*one) == ordinal(*two)) == (one == two)


@pytest.mark.parametrize(
    ("place", "expected"),
    [((0, 0, 0), 0), ((0, 0, 1), 1), ((0, 1, 0), 2), ((0, 7, 1), 15), ((1, 0, 0), 2**32), ((3, 2, 1), 3 * 2**32 + 5)],
)
def test_ordinals_are_final(place: tuple[int, int, int], expected: int) -> None:
    assert ordinal(*place) == expected


def test_an_event_with_more_rows_than_ordinals_stops() -> None:
    assert ordinal(0, 2**31 - 1, 1) == 2**32 - 1
    with pytest.raises(StopError, match="more than 2147483648 rows"):
        ordinal(0, 2**31, 0)


def test_incarnation_then_file_then_transaction_then_ordinal_decide() -> None:
    rising = [(0, 9, 9, 9), (1, 0, 0, 0), (1, 1, 500, 0), (1, 2, 4, 0), (1, 2, 4, 1), (1, 2, 5, 0), (2, 0, 0, 0)]
    assert sorted(Coordinate(*parts) for parts in reversed(rising)) == [Coordinate(*parts) for parts in rising]


@pytest.mark.parametrize(
    ("name", "number"),
    [("binlog.000012", 12), ("a.b.000001", 1), ("binlog.1000000", 1_000_000), ("mariadb-bin.999999", 999_999)],
)
def test_the_number_of_a_log_file(name: str, number: int) -> None:
    assert file_number(name) == number


@pytest.mark.parametrize(
    "name", ["binlog", "binlog.", "binlog.x1", "binlog.-1", "", "binlog.1e3", "binlog.\u0661", "b.²"]
)
def test_a_log_file_without_a_number_stops(name: str) -> None:
    with pytest.raises(StopError, match="has no number"):
        file_number(name)
