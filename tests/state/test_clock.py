"""The state server's time: its own NOW(6), whatever our clock says, also when it is set or the server is away."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest
import sqlalchemy as sa

from migrate.model.errors import ServerError
from migrate.settings import State
from migrate.state import database
from migrate.state.clock import StateClock
from sandbox.stack import Sandbox
from tests.failover.support import Forwarder
from tests.helpers import address

HOUR = 3600


@dataclass
class Skewed:
    """A state server whose sessions have a clock of their own: the server's NOW(6) in them is off by `seconds`."""

    engine: sa.Engine
    way: Forwarder
    seconds: float = 0.0

    def now(self) -> float:
        """What the server says in a session of this engine, by a query of the test's own."""
        with self.engine.connect() as connection:
            return float(connection.exec_driver_sql("SELECT UNIX_TIMESTAMP(NOW(6))").scalar_one())


@pytest.fixture
def server(box: Sandbox, state_settings: State) -> Iterator[Skewed]:
    way = Forwarder(box.targets[0])
    settings = State(**address(box.targets[0], host=way.host, port=way.port), database="information_schema")
    skewed = Skewed(database.engine(settings), way)

    @sa.event.listens_for(skewed.engine, "checkout")
    def skew(session: Any, *_: object) -> None:
        with session.cursor() as cursor:
            cursor.execute("SET SESSION timestamp = DEFAULT")
            cursor.execute(f"SET SESSION timestamp = UNIX_TIMESTAMP(NOW(6)) + {skewed.seconds}")

    with closing(way):
        yield skewed
    skewed.engine.dispose()


@pytest.mark.parametrize("seconds", [-HOUR, 0, HOUR])
def test_the_time_is_that_of_the_server_and_not_ours(server: Skewed, seconds: int) -> None:
    server.seconds = seconds
    clock = StateClock(server.engine)
    before, told, after = server.now(), clock.now(), server.now()
    assert before - 0.01 <= told <= after + 0.01
    with server.engine.connect() as connection:
        there = connection.execute(sa.select(database.now)).scalar_one().replace(tzinfo=UTC).timestamp()
    assert there == pytest.approx(told, abs=10)
    assert told == pytest.approx(time.time() + seconds, abs=10)


def test_between_two_answers_time_goes_on_and_a_clock_that_was_set_is_noticed_afterwards(server: Skewed) -> None:
    carried, asking = StateClock(server.engine, every=math.inf), StateClock(server.engine, every=0)
    first, other = carried.now(), asking.now()
    server.seconds = HOUR
    time.sleep(0.2)
    second = carried.now()
    assert 0.2 <= second - first < 60
    assert asking.now() - other == pytest.approx(HOUR, abs=60)


def test_while_the_server_is_away_its_last_answer_counts(server: Skewed) -> None:
    server.seconds = -HOUR
    clock = StateClock(server.engine, every=0)
    before = clock.now()
    server.way.switch(None)
    assert before < clock.now() < before + 60


def test_without_any_answer_there_is_no_time(server: Skewed, box: Sandbox) -> None:
    server.way.switch(None)
    clock = StateClock(server.engine)
    with pytest.raises(ServerError, match="its clock is not known"):
        clock.now()
    server.way.switch(box.targets[0])
    assert clock.now() == pytest.approx(server.now(), abs=10)
