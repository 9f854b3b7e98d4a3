"""The two decisions, as complete tables."""

from __future__ import annotations

from itertools import product

import pytest

from migrate.model.coordinate import Coordinate
from migrate.target.decide import Decision, Note, Return, Write, decide, decide_return

DECISIONS = {
    # wanted, present, copy open: what is written, what the ledger says
    (True, True, True): Decision(Write.UPDATE, Note.REMOVE),
    (True, True, False): Decision(Write.UPDATE, Note.REMOVE),
    (True, False, True): Decision(Write.INSERT, Note.REMOVE),
    (True, False, False): Decision(Write.INSERT, Note.REMOVE),
    (False, True, True): Decision(Write.DELETE, Note.PUT),
    (False, True, False): Decision(Write.DELETE, Note.KEEP),
    (False, False, True): Decision(Write.NOTHING, Note.PUT_EMPTY),
    (False, False, False): Decision(Write.NOTHING, Note.KEEP),
}
KEPT = Decision(Write.SKIP, Note.REMOVE)
OUTDATED = {
    # as above, of a change that is older than the row by its update time: no delete is skipped
    **{(True, True, is_open): KEPT for is_open in (True, False)},
    **{case: decision for case, decision in DECISIONS.items() if case[:2] != (True, True)},
}
MINE = Coordinate(1, 2, 3, 4)
OLDER, LATER = Coordinate(1, 2, 3, 3), Coordinate(1, 2, 3, 5)
RETURNS = {
    # the ledger's entry, copy open: what becomes of the delayed delete
    (None, True): Return.DROP,
    (None, False): Return.DROP,
    (MINE, True): Return.AGAIN,
    (MINE, False): Return.DELETE,
    (OLDER, True): Return.DROP,
    (OLDER, False): Return.DROP,
    (LATER, True): Return.DROP,
    (LATER, False): Return.DROP,
}


@pytest.mark.parametrize("case", list(product([True, False], repeat=3)))
def test_what_to_do_with_a_key_at_a_place(case: tuple[bool, bool, bool]) -> None:
    assert decide(*case) == DECISIONS[case]


@pytest.mark.parametrize("case", list(product([True, False], repeat=3)))
def test_what_to_do_with_a_change_that_is_older_than_its_row_by_the_update_time(case: tuple[bool, bool, bool]) -> None:
    assert decide(*case, outdated=True) == OUTDATED[case]


@pytest.mark.parametrize("case", list(product([None, MINE, OLDER, LATER], [True, False])))
def test_what_to_do_with_a_delete_that_came_back(case: tuple[Coordinate | None, bool]) -> None:
    noted, is_open = case
    assert decide_return(noted, MINE, is_open) == RETURNS[case]
