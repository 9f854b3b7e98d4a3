"""What the hook after a cutover is told where an error ended it."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.cutover.phase_hooks import after_error
from migrate.state import cutover
from migrate.state.cutover import Outcome, SwitchDirection
from tests.helpers import unique


def test_an_error_behind_the_switch_is_no_failure(state: sa.Engine) -> None:
    """Lost: writes of an old version that a hook started again, as it was told that the cutover had failed."""
    name = unique("told")
    with state.begin() as connection:
        run = cutover.begin(connection, name, SwitchDirection.TO_TARGETS)
    assert [after_error(state, name, one) for one in (0, run)] == ["failed", "failed"]
    for outcome, told in ((Outcome.SWITCHED, "switched"), (Outcome.DONE, "switched")):
        with state.begin() as connection:
            cutover.came_to(connection, name, run, outcome)
        assert after_error(state, name, run) == told
    with state.begin() as connection:
        later = cutover.begin(connection, name, SwitchDirection.TO_SOURCES)
        cutover.came_to(connection, name, later, Outcome.ABORTED)
    assert after_error(state, name, later) == "failed"


def test_a_state_that_does_not_answer_is_told_as_that() -> None:
    nobody = sa.create_engine("mysql+pymysql://nobody:secret-1@127.0.0.1:1/none")
    assert after_error(nobody, "m", 1) == "unknown"
