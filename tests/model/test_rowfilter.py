"""Row conditions on texts, and the ones that are refused."""

from __future__ import annotations

import pytest

from migrate.model.errors import ConfigError
from migrate.model.rowfilter import Comparison, make_filter
from migrate.model.table import Column, Kind, Table

TABLE = Table(
    "s",
    "shop",
    "t",
    (
        Column("id", "bigint(20)", Kind.INT),
        Column("price", "decimal(10,2)", Kind.DECIMAL),
        Column("at", "datetime(3)", Kind.DATETIME),
        Column("day", "date", Kind.DATE),
        Column("note", "varchar(20)", Kind.TEXT, "utf8mb4", "utf8mb4_general_ci"),
        Column("state", "enum('new','it''s','done')", Kind.ENUM),
        Column("raw", "blob", Kind.BINARY),
        Column("ratio", "double", Kind.DOUBLE),
        Column("since", "year(4)", Kind.YEAR),
        Column("born", "date", Kind.DATE, nullable=False),
        Column("made", "datetime", Kind.DATETIME, nullable=False),
    ),
    ("id",),
)
ROW = {
    "id": "10",
    "price": "9.50",
    "at": "2024-05-01 00:00:00.000",
    "day": "2024-05-01",
    "note": "Abc",
    "state": "2",
    "raw": "x",
    "ratio": "0.5",
    "since": "1970",
    "born": "0000-00-00",
    "made": "0000-00-00 00:00:00",
}


@pytest.mark.parametrize(
    ("column", "comparison", "values", "kept"),
    [
        ("id", "is", [10], True),
        ("id", "is", ["9"], False),
        ("id", "is_not", [10], False),
        ("id", "in", [1, 10], True),
        ("id", "in", [1, 100], False),
        ("id", "at_least", [10], True),
        ("id", "above", [10], False),
        ("id", "at_most", [9], False),
        ("id", "below", [100], True),
        ("price", "is", ["9.5"], True),
        ("price", "above", [9.49], True),
        ("price", "below", [10], True),
        ("at", "at_least", ["2024-05-01"], True),
        ("at", "below", ["2024-05-01 00:00:00.001"], True),
        ("at", "is", ["2024-05-01T00:00:00"], True),
        ("day", "above", ["2024-04-30"], True),
        ("day", "below", ["2024-05-01"], False),
        ("note", "is", ["Abc"], True),
        ("note", "is", ["abc"], False),
        ("note", "is_not", ["Abc "], True),
        ("state", "is", ["it's"], True),
        ("state", "in", ["new", "done"], False),
        ("since", "is", [1970], True),
        ("since", "above", [0], True),
        ("born", "is", ["0000-00-00"], True),
        ("made", "is_not", [None], True),
        ("id", "is", [None], False),
        ("id", "is_not", [None], True),
    ],
)
def test_a_condition_on_a_row(column: str, comparison: str, values: list[object], kept: bool) -> None:
    rows = make_filter(TABLE, [(column, Comparison(comparison), values)])
    assert rows is not None
    assert rows.keeps(ROW) is kept


@pytest.mark.parametrize("comparison", [c for c in Comparison if c is not Comparison.IS])
def test_with_null_in_the_column_only_is_null_holds(comparison: Comparison) -> None:
    row = {**ROW, "id": None}
    for values in ([1],) if comparison is not Comparison.IS_NOT else ([1], [None]):
        rows = make_filter(TABLE, [("id", comparison, values)])
        assert rows is not None
        assert not rows.keeps(row)
    rows = make_filter(TABLE, [("id", Comparison.IS, [None])])
    assert rows is not None
    assert rows.keeps(row)


def test_all_conditions_must_hold() -> None:
    both: list[tuple[str, Comparison, list[object]]] = [("id", Comparison.IS, [10]), ("note", Comparison.IS, ["other"])]
    rows = make_filter(TABLE, both)
    assert rows is not None
    assert not rows.keeps(ROW)
    assert make_filter(TABLE, []) is None


@pytest.mark.parametrize(
    ("column", "comparison", "value", "why"),
    [
        ("nothing", "is", 1, "there is no column 'nothing'"),
        ("id", "is", "ten", "column id (bigint(20)) is compared with 'ten', which is no number"),
        ("id", "is", True, "truth value"),
        ("since", "is", 70, "column since (year(4)) is compared with '70', which is no year of it; write 1901 to 2155"),
        ("since", "in", 7, "which is no year of it"),
        ("since", "above", 69.5, "which is no year of it"),
        ("born", "is", None, "column born (date) cannot be NULL, and servers find zero dates there by IS NULL"),
        ("made", "is", None, "write '0000-00-00' for these"),
        ("id", "below", None, "can only be compared with null by 'is' or 'is_not'"),
        ("at", "below", "May", "is not written as 2024-12-31"),
        ("at", "below", "2024-05-01 00:00:00.0001", "is not written as"),
        ("day", "below", "2024-05-01 10:00:00", "is not written as 2024-12-31"),
        ("note", "below", "b", "only numbers and dates have an order here"),
        ("raw", "is", "x", "cannot be compared by 'is'"),
        ("ratio", "is", 0.5, "cannot be compared by 'is'"),
        ("state", "is", "gone", "has no value 'gone'"),
    ],
)
def test_what_two_places_could_judge_differently_is_refused(
    column: str, comparison: str, value: object, why: str
) -> None:
    wanted: list[tuple[str, Comparison, list[object]]] = [(column, Comparison(comparison), [value])]
    with pytest.raises(ConfigError) as refused:
        make_filter(TABLE, wanted)
    assert "shop.t" in refused.value.message
    assert why in refused.value.message
