"""Lost: what a merge noted in the state and no message says again, where the state came back without it before the
messages counted as consumed (invariant fence-compares)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from migrate.merge.merger import Merged
from migrate.model.coordinate import Coordinate
from migrate.model.message import Received
from migrate.model.partition import Partition
from migrate.state import compared, foreign, record
from migrate.state.database import in_transaction
from migrate.state.foreign import Foreign, Kind
from migrate.state.notes import Notes
from tests.consume.support import FakeWriter, Process, World, until

KEYS = [("1",), ("2",)]


class NotingWriter(FakeWriter):
    """Lists two keys with each batch, in a transaction each; `then` is run once behind one of the first batch."""

    def __init__(self, world: World, then: Callable[[], None], behind: int) -> None:
        super().__init__()
        self._world, self._then, self._behind = world, then, behind
        self._notes = Notes(lambda action: in_transaction(world.state, action, threading.Event()))

    def merge(self, batch: Sequence[Received]) -> Merged:
        partition = batch[0].partition
        self._notes.taken(partition, self.taken[-1][1])
        for number, key in enumerate(KEYS):
            found = [Foreign(("s", "shop", "t"), key, Kind.FOREIGN, Coordinate(1, 1, 1, 0))]
            self._notes.write([partition], lambda state: foreign.note(state, self._world.name, found))  # noqa: B023
            if not self.merged and number == self._behind:
                self._then()
        merged = super().merge(batch)
        for done in merged.consumed:
            object.__setattr__(done, "notes", self._notes.count(done.partition))
        return merged


@pytest.fixture
def partition(world: World) -> Partition:
    """Everything in it was found equal."""
    found = Partition(world.name, world.topic_id, 0)
    with world.state.begin() as connection:
        compared.note(connection, world.name, {found: 0})
    return found


def consume(world: World, then: Callable[[], None], behind: int) -> NotingWriter:
    writer = NotingWriter(world, then, behind)
    world.send(0, 1)
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 1)
    world.send(0, 1)
    until(lambda: world.consumed(0) == 2)
    process.end()
    return writer


def listed(world: World) -> set[Any]:
    with world.state.connect() as connection:
        return {one.key for one in foreign.every(connection, world.name)}


@pytest.mark.parametrize("behind", [0, 1])
def test_a_note_that_the_state_lost_before_its_messages_were_consumed_is_made_again(
    world: World, partition: Partition, behind: int
) -> None:
    """Lost: a key that is carried nowhere, or a marker of a foreign key, and a cutover passed."""

    def lose() -> None:
        with world.state.begin() as connection:
            connection.execute(sa.delete(foreign.table).where(foreign.table.c.migration == world.name))
            connection.execute(sa.delete(record.consumed).where(record.consumed.c.topic_id == world.topic_id))

    writer = consume(world, lose, behind)
    assert writer.offsets == [(0, 0), (0, 0), (0, 1)]
    assert listed(world) == set(KEYS)
    with world.state.connect() as connection:
        assert compared.load(connection, world.name) == {}


def test_notes_that_the_state_kept_are_nothing_to_stop_at(world: World, partition: Partition) -> None:
    writer = consume(world, lambda: None, 1)
    assert writer.offsets == [(0, 0), (0, 1)]
    with world.state.connect() as connection:
        assert compared.load(connection, world.name) == {partition: 0}


def test_notes_of_another_holder_of_the_lease_are_not_missed(world: World, partition: Partition) -> None:
    consume(world, lambda: None, 1)
    world.sent[0] = 2
    with world.state.begin() as connection:
        record.set_notes(connection, {partition: 9})
    writer = NotingWriter(world, lambda: None, 1)
    process = Process(world, writer)
    world.send(0, 1)
    until(lambda: world.consumed(0) == 3)
    process.end()
    assert writer.offsets == [(0, 2)]
    with world.state.connect() as connection:
        assert record.notes(connection, [partition]) == {partition: 11}
        assert compared.load(connection, world.name) == {partition: 0}


@pytest.mark.parametrize(("told", "counts"), [(4, True), (5, False)])
def test_notes_that_the_state_lost_together_with_the_consumer_that_made_them_are_missed_by_the_next_one(
    world: World, partition: Partition, told: int, counts: bool
) -> None:
    """Lost: the last second's markers of foreign keys, and keys that are carried nowhere, of a state that came back
    without them behind a consumer that had ended: nobody counted them, and a cutover passed."""
    consume(world, lambda: None, 1)
    for _ in range(2):
        writer = NotingWriter(world, lambda: None, 1)
        writer.noted[0] = told
        process = Process(world, writer)
        until(lambda: bool(writer.taken) and world.halted() == {})  # noqa: B023
        process.end()
        with world.state.connect() as connection:
            assert compared.load(connection, world.name) == ({partition: 0} if counts else {})
            assert record.notes(connection, [partition]) == {partition: told}
            assert compared.times_forgotten(connection, world.name) == int(not counts), "it is told once"


def test_a_note_whose_commit_was_not_heard_of_is_counted_once(world: World, partition: Partition) -> None:
    """The server committed, and the session ended before it said so."""
    heard: list[bool] = []

    def run(action: Callable[[sa.Connection], Any]) -> Any:
        for _ in range(2):
            with world.state.begin() as connection:
                found = action(connection)
        heard.append(True)
        return found

    notes = Notes(run)
    for _ in range(3):
        notes.write([partition], lambda _state: None)
    with world.state.connect() as connection:
        assert record.notes(connection, [partition]) == {partition: notes.count(partition)}
