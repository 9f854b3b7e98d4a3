"""What made everything that was found equal count no more, as the state keeps it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state import compared
from migrate.state.compared import Because
from tests.helpers import unique


@pytest.fixture
def found(state: sa.Engine) -> Any:
    """A migration in which everything was found equal."""
    partition = Partition(unique("compared"), "topic", 0)
    with state.begin() as connection:
        compared.note(connection, partition.migration, {partition: 5})
    return partition


def test_why_nothing_counts_is_kept_until_something_does(state: sa.Engine, found: Partition) -> None:
    """Lost: why a verification was asked for, so whoever was asked for it could not find the cause. Costs 1 s."""
    name = found.migration

    def why() -> str | None:
        with state.connect() as connection:
            told = compared.why_nothing(connection, name)
            return None if told is None else told.because

    assert why() is None
    with state.begin() as connection:
        compared.forget(connection, name, Because.REWOUND, "main")
    assert why() == "a publisher was rewound: main"
    with state.begin() as connection:
        compared.forget(connection, name, Because.STATE)
        first = connection.execute(sa.select(sa.func.now(6))).scalar_one()
    assert why() == "the state database was put back", "the last one: a verification is to begin after that"
    with state.connect() as connection:
        told = compared.why_nothing(connection, name)
    assert told is not None
    assert abs((told.at - first).total_seconds()) < 60
    with state.begin() as connection:
        compared.note(connection, name, {found: 9})
    assert why() is None


def test_a_long_reason_is_cut_and_one_that_was_never_given_is_none(state: sa.Engine, found: Partition) -> None:
    with state.begin() as connection:
        compared.forget(connection, found.migration, Because.ALTERED, ", ".join(f"shop.t{n}" for n in range(500)))
        told = compared.why_nothing(connection, found.migration)
        assert told is not None
        assert len(told.because) == 512
        other = unique("compared")
        compared.times_forgotten(connection, other, lock=True)
        assert compared.why_nothing(connection, other) is None
