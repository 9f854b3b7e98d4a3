"""What becomes of alarms in the state: raised once, repeated after a while, resolved once, whoever restarts when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.alarms.letter import Letter
from migrate.alarms.round import handed, took, turn
from migrate.settings import State
from migrate.state import alarms, database
from migrate.status.look import Look
from sandbox.stack import Sandbox
from tests.alarms.looks import settings_of, well
from tests.helpers import address, unique


@pytest.fixture(scope="module")
def state(mariadb_box: Sandbox) -> Iterator[sa.Engine]:
    server = mariadb_box.targets[0]
    settings = State(**address(server), database=unique("alarms"))
    database.create(settings)
    with database.opened(settings) as state:
        yield state
    server.execute(f"DROP DATABASE {settings.database}", f"DROP DATABASE {settings.shadow}")


class Rounds:
    """Of one migration; each is of a process that knows nothing but the state."""

    def __init__(self, state: sa.Engine) -> None:
        self.name = unique("m")
        self._state = state

    def due(self, look: Look, **when: float) -> list[Letter]:
        """What the receiver is to get."""
        with self._state.begin() as connection:
            return turn(connection, settings_of(self.name, **when), look)["one"]

    def take(self, look: Look, **when: float) -> list[tuple[str, str]]:
        """And gets: (alarm, status) of each."""
        letters = self.due(look, **when)
        for letter in letters:
            with self._state.begin() as connection:
                took(connection, self.name, "one", letter)
        return [(one.alarm.kind, one.status.value) for one in letters]

    def hand(self, letters: list[Letter]) -> None:
        """And nothing is known of whether it took them."""
        with self._state.begin() as connection:
            handed(connection, self.name, "one", letters)

    def ages(self, seconds: int) -> None:
        """So much time goes by."""
        with self._state.begin() as connection:
            for table, columns in (("alarm", ("since", "raised", "resolved")), ("alarm_sent", ("sent",))):
                changes = ", ".join(f"{one} = {one} - INTERVAL {seconds} SECOND" for one in columns)
                connection.execute(sa.text(f"UPDATE {table} SET {changes} WHERE migration = '{self.name}'"))

    def rows(self) -> int:
        with self._state.connect() as connection:
            return len(alarms.every(connection, self.name)) + len(alarms.every_sent(connection, self.name))


@pytest.fixture
def rounds(state: sa.Engine) -> Rounds:
    return Rounds(state)


PARKED, WELL = well(parked=1), well()


def test_an_alarm_that_is_over_before_it_is_known_who_took_it_is_ended_for_them(rounds: Rounds) -> None:
    """Lost: an incident at the receiver that nobody closed: the alarm was over, and forgotten, while its first letter
    was on the way, or the receiver had taken it and its answer was lost."""
    letters = rounds.due(PARKED)
    rounds.hand(letters)
    assert [one.status.value for one in rounds.due(PARKED)] == ["raised"], "until it is known that it took it"
    assert rounds.take(WELL) == [("parked", "resolved")]
    assert (rounds.take(WELL), rounds.rows()) == ([], 0)


def test_an_alarm_is_raised_once_and_resolved_once_and_nothing_of_it_stays(rounds: Rounds) -> None:
    assert [rounds.take(look) for look in (WELL, PARKED, PARKED, WELL, WELL)] == [
        [],
        [("parked", "raised")],
        [],
        [("parked", "resolved")],
        [],
    ]
    assert rounds.rows() == 0


def test_it_is_repeated_after_its_interval_and_not_before(rounds: Rounds) -> None:
    rounds.take(PARKED)
    rounds.ages(14_000)
    assert rounds.take(PARKED) == []
    rounds.ages(500)
    assert rounds.take(PARKED) == [("parked", "repeated")]
    assert rounds.take(PARKED) == []


def test_what_holds_shorter_than_its_seconds_is_told_to_nobody(rounds: Rounds) -> None:
    away = well(unanswered=["target 't0': away"])
    assert rounds.take(away, unreachable_seconds=60) == []
    rounds.ages(59)
    assert rounds.take(WELL, unreachable_seconds=60) == []
    assert rounds.rows() == 0
    rounds.take(away, unreachable_seconds=60)
    rounds.ages(61)
    assert rounds.take(away, unreachable_seconds=60) == [("unreachable", "raised")]


def test_what_was_not_taken_is_due_again_and_its_end_is_told_to_nobody_who_did_not_hear_of_it(rounds: Rounds) -> None:
    assert len(rounds.due(PARKED)) == len(rounds.due(PARKED)) == 1
    assert rounds.due(WELL) == []
    assert rounds.rows() == 0


def test_an_end_that_was_not_taken_is_due_again_for_a_day(rounds: Rounds) -> None:
    rounds.take(PARKED)
    assert [one.status.value for one in rounds.due(WELL)] == ["resolved"]
    assert [one.status.value for one in rounds.due(WELL)] == ["resolved"]
    rounds.ages(90_000)
    assert rounds.due(WELL) == []
    assert rounds.rows() == 0


def test_what_comes_back_before_its_end_was_taken_is_raised_again(rounds: Rounds) -> None:
    rounds.take(PARKED)
    rounds.due(WELL)
    assert rounds.take(PARKED) == [("parked", "raised")]


def test_what_cannot_be_told_stays_as_it_was(rounds: Rounds) -> None:
    """A target that is away has no parked changes to show."""
    rounds.take(PARKED)
    away = well(unanswered=["target 't0': away"])
    assert rounds.take(away) == [("unreachable", "raised")]
    assert sorted(rounds.take(WELL)) == [("parked", "resolved"), ("unreachable", "resolved")]


def test_migrations_are_apart(rounds: Rounds, state: sa.Engine) -> None:
    other = Rounds(state)
    rounds.take(PARKED)
    assert other.take(PARKED) == [("parked", "raised")]
    assert rounds.take(WELL) == [("parked", "resolved")]
    assert other.take(PARKED) == []
