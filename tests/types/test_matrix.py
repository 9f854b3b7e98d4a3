"""The bytes that reach a target through the stream and those that the copy writes are those the source holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from tests.conftest import FLAVOURS
from tests.types.matrix import LABELS, Case, Value, cases_of
from tests.types.outcome import CellKey, Outcome, judge, unequal, work_through
from tests.types.special import special_tables
from tests.types.table import filled
from tests.types.ways import UPDATED, Wide

Outcomes = Callable[[Flavour], Outcome]


def cells(flavour: Flavour) -> list[CellKey]:
    """Every type with every label it has values of."""
    found: dict[CellKey, None] = {}
    for case in (*cases_of(flavour), *(case for table in special_tables() for case in table.cases)):
        labels = {value.label for value in case.labelled} | (set() if "NOT NULL" in case.type else {"null"})
        found |= {(case.name, label): None for label in LABELS if label in labels}
    return list(found)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """The outcome of a flavour's whole matrix; each is worked through once."""
    made: dict[Flavour, Outcome | Exception] = {}

    def of(flavour: Flavour) -> Outcome:
        if flavour not in made:
            try:
                box = request.getfixturevalue(f"{flavour}_box")
                made[flavour] = work_through(box, kafka, Path(tmp_path_factory.mktemp("types")))
            except Exception as error:
                made[flavour] = error
        outcome = made[flavour]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return of


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
def test_no_row_and_no_table_differs(outcomes: Outcomes, flavour: Flavour) -> None:
    outcome = outcomes(flavour)
    assert outcome.others == []
    assert {key for key in outcome.cells if not key[0].startswith("a generated column")} == set(cells(flavour))


@pytest.mark.parametrize(
    ("flavour", "name"),
    [
        pytest.param(flavour, name, id=f"{flavour}-{name}")
        for flavour in FLAVOURS
        for name in dict.fromkeys(name for name, _ in cells(flavour))
    ],
)
def test_stream_and_copy_write_what_the_source_holds(outcomes: Outcomes, flavour: Flavour, name: str) -> None:
    mine = {label: cell for (case, label), cell in outcomes(flavour).cells.items() if case == name}
    assert {label: (cell.stream, cell.copy) for label, cell in mine.items()} == {label: ([], []) for label in mine}
    assert all(cell.compared for cell in mine.values())


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
def test_generated_columns_are_computed_alike(outcomes: Outcomes, flavour: Flavour) -> None:
    mine = {key: cell for key, cell in outcomes(flavour).cells.items() if key[0].startswith("a generated column")}
    assert len(mine) == 4
    assert all(cell.ok for cell in mine.values())


# -- negative controls

_CASE = Case("INT", "INT", (Value("odd", "5"),))
_TABLE = Wide("t", [_CASE], ["c"])
_TRUTH = {0: (None,), 1: ("35",), UPDATED: ("35",), UPDATED + 1: (None,)}


def test_equal_rows_are_no_difference() -> None:
    outcome = Outcome()
    judge(outcome, _TABLE, _TRUTH, _TRUTH, _TRUTH)
    assert outcome.ok
    assert {key: cell.compared for key, cell in outcome.cells.items()} == {("INT", "null"): 2, ("INT", "odd"): 2}
    assert "5" not in str(outcome.differences())


def test_a_changed_value_a_missing_row_and_another_checksum_are_named() -> None:
    outcome = Outcome()
    judge(outcome, _TABLE, _TRUTH, {**_TRUTH, 1: ("36",)}, {0: (None,), 1: ("35",), UPDATED: ("35",)})
    outcome.others += unequal({"t": (1, 2), "u": (3, 3)}, "stream")
    assert not outcome.ok
    assert outcome.differences() == [
        "t: copy, keys [1001] are missing or too much",
        "t: stream, CHECKSUM TABLE differs",
        "INT, odd: stream, 5: '36' for '35'",
    ]


def test_a_null_at_both_ends_for_a_value_is_a_difference() -> None:
    """An expression of the oracle that gives NULL for a value would compare nothing."""
    outcome = Outcome()
    blind = dict.fromkeys(_TRUTH, (None,))
    judge(outcome, _TABLE, blind, blind, blind)
    assert [cell.ok for key, cell in outcome.cells.items() if key[1] == "odd"] == [False]


def test_the_table_shows_a_difference() -> None:
    outcome = Outcome()
    judge(outcome, _TABLE, _TRUTH, {**_TRUTH, 1: ("36",)}, _TRUTH)
    shown = [list(column.cells) for column in filled("mariadb", outcome).columns]
    assert [column[0] for column in shown] == ["INT", "–", "–", "–", "–", "[red]stream 1 of 2[/]", "2"]
