"""With `cutover.stop: application` nobody switches before every instance follows, up to the switch itself."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.cutover import acknowledgements
from migrate.model.errors import ServerError
from migrate.state import switch
from migrate.state.switch import Side, Writes
from tests.helpers import unique


@pytest.fixture
def closed(state: sa.Engine) -> tuple[str, int]:
    """A migration whose sources are closed, and the version of that."""
    name = unique("acknowledged")
    with state.begin() as connection:
        return name, switch.put(connection, name, Side.SOURCE, Writes.CLOSED).version


def acknowledge(state: sa.Engine, name: str, **instances: int) -> None:
    with state.begin() as connection:
        for instance, version in instances.items():
            switch.acknowledge(connection, name, instance, version)


def test_nobody_who_acknowledges_is_no_proof_that_nobody_writes(state: sa.Engine, closed: tuple[str, int]) -> None:
    """Lost: what an instance wrote whose row was gone for a moment, as an earlier one of its name had taken it out."""
    name, version = closed
    with pytest.raises(ServerError, match=r"did not acknowledge version .* any application"):
        acknowledgements.await_all(state, name, version, 0.1)
    with pytest.raises(ServerError, match="not acknowledged any more by any application"), state.begin() as connection:
        acknowledgements.refuse_late(connection, name)


def test_an_instance_that_began_meanwhile_keeps_the_switch_from_being_committed(
    state: sa.Engine, closed: tuple[str, int]
) -> None:
    """Lost: what it wrote at the side that was left: it had read the version from before, and was asked for once."""
    name, version = closed
    acknowledge(state, name, first=version, second=version)
    acknowledgements.await_all(state, name, version, 0.1)
    with state.begin() as connection:
        acknowledgements.refuse_late(connection, name)
    acknowledge(state, name, third=version - 1)
    with (
        pytest.raises(ServerError, match=r"not acknowledged any more by third \(at version"),
        state.begin() as connection,
    ):
        acknowledgements.refuse_late(connection, name)
