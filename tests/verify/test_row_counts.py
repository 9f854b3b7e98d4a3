"""What keeps a verification honest where the way it compares has a blind spot on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from migrate.chunks.sessions import forget
from migrate.mysql import keys as key_conditions
from migrate.mysql.connection import Connection
from migrate.verify import lookup
from migrate.verify.difference import Kind
from migrate.verify.row_counts import ComparedRanges
from sandbox.stack import Sandbox
from tests.keys.laid import Laid, lay_rows, sides, verified

_ROWS = 20
A, B, C = ("a",), ("b",), ("c",)


@pytest.fixture(scope="module")
def databases(box: Sandbox) -> Iterator[tuple[Connection, str, str]]:
    with sides(box) as found:
        yield found
        forget()


@pytest.fixture
def laid(box: Sandbox, databases: tuple[Connection, str, str]) -> Laid:
    definition = "k INT NOT NULL PRIMARY KEY, n INT NOT NULL, v INT NOT NULL, g INT GENERATED ALWAYS AS (v + 1) STORED"
    return lay_rows(box, *databases, definition, [(str(number),) for number in range(_ROWS)])


@pytest.mark.parametrize("parts", list(permutations([(None, A), (A, B), (B, C), (C, None)])))
def test_ranges_that_meet_are_the_whole_key_in_whatever_order(parts: list[tuple[object, object]]) -> None:
    cover = ComparedRanges(parts)  # type: ignore[arg-type]
    assert cover.fault == ""
    assert ComparedRanges(cover.parts()).fault == ""


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ([], "do not meet"),
        ([(None, A), (A, B)], "do not meet"),
        ([(A, B), (B, None)], "do not meet"),
        ([(None, A), (B, None)], "do not meet"),
        ([(None, A), (A, B), (C, None)], "do not meet"),
        ([(None, A), (A, B), (A, B), (B, None)], "twice"),
        ([(None, A), (A, None), (None, None)], "twice"),
    ],
)
def test_a_range_that_is_left_out_or_compared_twice_is_named(parts: list[tuple[object, object]], fault: str) -> None:
    assert fault in ComparedRanges(parts).fault  # type: ignore[arg-type]


def test_rows_that_no_range_has_on_either_side_are_missed_and_nothing_is_certified(
    laid: Laid, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = key_conditions.side
    monkeypatch.setattr(key_conditions, "side", lambda column: f"IF(n = 7, NULL, {side(column)})")
    found = verified(laid)
    assert (found.rows, found.target_rows, found.named) == (_ROWS - 1, _ROWS - 1, ())
    assert not found.clean
    assert sum(f"has {_ROWS} rows, and {_ROWS - 1} by ranges" in told for told in found.unaccounted) == 2
    assert sum("the first row is not found" in told for told in found.unaccounted) == 2  # NULL comes first
    assert found.differences == len(found.unaccounted)


def test_a_row_that_differs_and_that_no_look_up_finds_is_missed(laid: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    laid.one.query("UPDATE t SET v = 9 WHERE n = 7")
    monkeypatch.setattr(lookup, "among", lambda table, keys: ("1 = 0", []))
    found = verified(laid)
    assert [told for told in found.unaccounted if "is not found by its key" in told]
    assert not found.clean


def test_rows_in_motion_are_accounted_for(laid: Laid) -> None:
    def meanwhile() -> None:
        for database in (laid.source, laid.target):
            laid.one.query(f"INSERT INTO {database}.t (k, n, v) VALUES (1000, 1000, 0), (-5, -5, 0)")
            laid.one.query(f"DELETE FROM {database}.t WHERE n = 3")

    found = verified(laid, meanwhile)
    assert (found.clean, found.unaccounted, found.rows) == (True, (), _ROWS)


def test_a_suspect_that_is_gone_on_both_sides_by_then_is_no_blind_spot(laid: Laid) -> None:
    laid.one.query("UPDATE t SET v = 9 WHERE n = 7")

    def meanwhile() -> None:
        for database in (laid.source, laid.target):
            laid.one.query(f"DELETE FROM {database}.t WHERE n = 7")

    found = verified(laid, meanwhile)
    assert (found.clean, found.unaccounted) == (True, ())


def test_stored_generated_columns_are_compared(laid: Laid) -> None:
    assert verified(laid).columns == ("k", "n", "v", "g")
    laid.one.query("ALTER TABLE t MODIFY COLUMN g INT GENERATED ALWAYS AS (IF(n = 7, v + 2, v + 1)) STORED")
    found = verified(laid)
    assert [(one.key, one.kind, one.detail.rpartition(": ")[2]) for one in found.named] == [
        (("7",), Kind.DIFFERENT, "g")
    ]


def test_a_generated_column_that_the_target_lacks_is_not_compared(laid: Laid) -> None:
    laid.one.query("ALTER TABLE t DROP COLUMN g")
    assert (verified(laid).columns, verified(laid).clean) == (("k", "n", "v"), True)
