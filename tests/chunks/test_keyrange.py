"""Conditions of key ranges, as text."""

from __future__ import annotations

from migrate.chunks.keyrange import condition
from migrate.model.chunk import Chunk, bound_of, bound_text
from migrate.model.table import Column, Kind, Table


def table(*kinds: Kind) -> Table:
    columns = tuple(Column(f"k{index}", kind.value, kind) for index, kind in enumerate(kinds))
    return Table("s", "d", "t", columns, tuple(column.name for column in columns))


def test_a_bound_is_exclusive_below_and_inclusive_above() -> None:
    sql, arguments = condition(table(Kind.INT), ("5",), ("9",))
    assert sql == "((`k0` > %s)) AND ((`k0` <= %s))"
    assert arguments == [5, 9]


def test_a_composite_bound_is_compared_part_by_part() -> None:
    sql, arguments = condition(table(Kind.INT, Kind.DATE, Kind.INT), ("1", "2020-02-02", "3"), None)
    assert sql == "((`k0` > %s) OR (`k0` = %s AND `k1` > %s) OR (`k0` = %s AND `k1` = %s AND `k2` > %s))"
    assert arguments == [1, 1, "2020-02-02", 1, "2020-02-02", 3]


def test_only_the_last_part_of_an_upper_bound_is_inclusive() -> None:
    sql, arguments = condition(table(Kind.INT, Kind.INT), None, ("1", "2"))
    assert sql == "((`k0` < %s) OR (`k0` = %s AND `k1` <= %s))"
    assert arguments == [1, 1, 2]


def test_an_open_range_is_everything() -> None:
    assert condition(table(Kind.INT), None, None) == ("1 = 1", [])


def test_bounds_survive_their_text() -> None:
    key = ("1", 'ü"\\', "\x00\xff")
    assert bound_of(bound_text(key)) == key
    assert bound_of(bound_text(None)) is None
    assert bound_text(Chunk(3, None, ("7",)).high) == '["7"]'
