"""Which servers a stream does not ask: those that the run under way goes without, and only while it may switch."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.state import cutover, leading
from migrate.state import migration as migrations
from migrate.state.cutover import Outcome, StepState, SwitchDirection
from tests.helpers import unique

LONGEST = "t" * 48


@pytest.mark.parametrize(
    ("outcome", "there"),
    [
        (Outcome.RUNNING, True),
        (Outcome.SWITCHED, True),
        (Outcome.ABORTING, False),
        (Outcome.ABORTED, False),
        (Outcome.DONE, False),
    ],
)
@pytest.mark.parametrize("direction", SwitchDirection)
def test_a_server_is_given_up_while_the_run_without_it_may_switch_and_by_the_stream_that_reads_it(
    state: sa.Engine, direction: SwitchDirection, outcome: Outcome, *, there: bool
) -> None:
    """Lost: rows of a server that came back, by look-ups after the rollback without it was aborted."""
    name = unique("given_up")
    with state.begin() as connection:
        for one, of in ((name, None), (f"{name}-reverse", name)):
            connection.execute(sa.insert(migrations.table).values(name=one, config="", reverse_of=of))
        run = cutover.begin(connection, name, direction)
        assert leading.given_up(connection, name) == frozenset()
        cutover.write(connection, name, run, cutover.without(LONGEST), StepState.BEGUN, "nothing")
        cutover.came_to(connection, name, run, outcome)
        found = leading.given_up(connection, name), leading.given_up(connection, f"{name}-reverse")
        is_back = direction is SwitchDirection.TO_SOURCES
        wanted = frozenset({LONGEST} if there else ())
        assert found == ((frozenset(), wanted) if is_back else (wanted, frozenset()))
        cutover.came_to(connection, name, run, Outcome.ABORTED)
        cutover.begin(connection, name, direction)
        assert leading.given_up(connection, f"{name}-reverse" if is_back else name) == frozenset(), "of an earlier run"
        connection.rollback()
