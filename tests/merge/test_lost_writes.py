"""Lost: rows that a target had committed and came back without; the next batch went on above the hole (invariant
fence-compares)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from migrate.merge.merger import Merger
from migrate.merge.shares import Share
from migrate.model.errors import OwnershipLost
from migrate.model.message import Delay, Received
from migrate.model.partition import Partition
from migrate.state.notes import Notes
from migrate.target.place import Done
from migrate.target.reached import Behind, Claim, Had, Has, StateBehind
from migrate.target.refresh import refresh_message
from migrate.target.routing import PlannedTable
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import plain_table
from tests.merge.test_merger import PARTITION, NoDelays, Side, batch, refused

CLAIM = Claim(PARTITION, 1, "h")


@pytest.fixture
def side(box: Sandbox) -> Iterator[Side]:
    made = Side(box)
    yield made
    made.drop()


class Kept:
    """A database as it was at one moment."""

    def __init__(self, server: DatabaseServer, name: str) -> None:
        self._server, self._name = server, name
        found = server.query(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{name}'")
        self._tables = [str(table) for (table,) in found]
        server.execute(
            f"CREATE DATABASE {name}_kept",
            *(f"CREATE TABLE {kept} AS SELECT * FROM {was}" for was, kept in self._pairs),
        )

    @property
    def _pairs(self) -> Sequence[tuple[str, str]]:
        return [(f"{self._name}.{one}", f"{self._name}_kept.{one}") for one in self._tables]

    def put_back(self) -> None:
        for was, kept in self._pairs:
            self._server.execute(f"DELETE FROM {was}", f"INSERT INTO {was} SELECT * FROM {kept}")

    def drop(self) -> None:
        self._server.execute(f"DROP DATABASE {self._name}_kept")


@contextmanager
def kept(side: Side, database: int = 0) -> Iterator[Kept]:
    made = Kept(side.box.targets[database], side.names[database])
    try:
        yield made
    finally:
        made.drop()


def had(side: Side, *offsets: int) -> dict[tuple[str, str], int]:
    """By database, what it had come to."""
    return {(f"t{number}", side.names[number]): offset for number, offset in enumerate(offsets)}


class Between:
    """In place of the foreign keys: what comes between the first writes of a batch and the last ones."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def leads_on(self, _planned: PlannedTable) -> bool:
        return True

    def found(self, _share: Share) -> Iterator[Any]:
        self._happens()
        yield from ()


class Counted(Notes):
    """Of a state that has so many notes of the partition."""

    def __init__(self) -> None:
        super().__init__(lambda _action: None)
        self.made: int | None = None

    def count(self, _partition: Partition) -> int | None:
        return self.made


FIRST = batch(("1", "0", "a"), ("2", "1", "b"))
SECOND = batch(("3", "0", "c"), ("4", "1", "d"), transaction=20, first=2)
THIRD = batch(("5", "0", "e"), transaction=30, first=4)


def test_a_database_that_lost_writes_while_it_is_written_refuses_and_gets_them_again(side: Side) -> None:
    with closing(side.merger()) as merger:
        (consumed,) = merger.merge(FIRST).consumed
        assert consumed.reached == had(side, 2, 2)
        with kept(side) as before:
            merger.merge(SECOND)
            assert merger.find_behind() == {}
            before.put_back()
            assert merger.find_behind().keys() == {PARTITION}
            assert isinstance(refused(merger, THIRD), Behind)
        assert side.rows(0) == [(1, "a")]
        assert merger.take(CLAIM, consumed.highest, had(side, 4, 4)).behind == {("t0", side.names[0]): Has(2, False)}
        again = merger.merge([*SECOND, *THIRD])
        assert again.written == Done(inserted=2)  # nothing of it at the other database, which has it
        assert again.consumed[0].reached == had(side, 5)
        assert (side.rows(0), side.rows(1)) == ([(1, "a"), (3, "c"), (5, "e")], [(2, "b"), (4, "d")])
        assert merger.take(CLAIM, again.consumed[0].highest, had(side, 5, 4)).behind == {}


def test_a_database_that_lost_writes_while_nobody_wrote_is_found_by_the_next_owner(side: Side) -> None:
    with closing(side.merger()) as merger:
        merger.merge(FIRST)
        with kept(side) as before:
            merged = merger.merge(SECOND)
            before.put_back()
    with closing(Merger(side.plan, NoDelays(), side.stop)) as later:  # type: ignore[arg-type]
        highest = merged.consumed[0].highest
        has = later.take(Claim(PARTITION, 2, "i"), highest, had(side, 4, 4))
        assert has == Had({("t0", side.names[0]): Has(2, False)}, 4)
        later.merge(SECOND)
        assert side.rows(0) == [(1, "a"), (3, "c")]


def test_what_a_predecessor_wrote_and_had_not_recorded_is_recorded_with_the_messages_that_held_it(side: Side) -> None:
    """Lost without a word: repeats were dropped by what the database had, and nobody knew of it when that was gone."""
    with closing(side.merger()) as killed:
        killed.merge(FIRST)
    with closing(Merger(side.plan, NoDelays(), side.stop)) as later:  # type: ignore[arg-type]
        assert later.take(Claim(PARTITION, 2, "i"), {}, {}).behind == {}
        again = later.merge(FIRST)
        assert (again.written, again.consumed[0].reached) == (Done(), had(side, 2, 2))
        assert later.merge(THIRD).consumed[0].reached == had(side, 5)


def test_a_database_keeps_how_many_notes_the_state_had_before_the_rows_that_followed_them(side: Side) -> None:
    """Lost: by a state that came back without its last notes, markers of foreign keys: the next owner of the partition
    could not tell it from one that was killed behind the rows."""
    notes = Counted()
    with closing(Merger(side.plan, NoDelays(), side.stop, notes=notes)) as merger:  # type: ignore[arg-type]
        assert merger.take(CLAIM, {}, {}).notes == 0
        merger.merge(FIRST)
        assert merger.take(CLAIM, {}, {}).notes == 0
        notes.made = 2
        merger.merge(SECOND)
        merger.merge(THIRD)
        assert merger.take(Claim(PARTITION, 2, "i"), {}, {}).notes == 2
    with closing(side.merger(epoch=3)) as later:
        assert later.take(Claim(PARTITION, 4, "j"), {}, {}).notes == 2


def test_what_a_database_lost_before_it_had_a_fence_is_asked_for_from_the_first_message_on(side: Side) -> None:
    with kept(side) as before, closing(side.merger()) as merger:
        merged = merger.merge(FIRST)
        before.put_back()
        assert isinstance(refused(merger, SECOND), Behind)
        has = merger.take(CLAIM, merged.consumed[0].highest, had(side, 2, 2))
        assert has.behind == {("t0", side.names[0]): Has(0, False)}
        merger.merge([*FIRST, *SECOND])
        assert side.rows(0) == [(1, "a"), (3, "c")]


def test_a_database_has_come_to_where_it_was_though_what_it_gets_again_ends_before(side: Side) -> None:
    """The batch that it had last went on with messages for others."""
    longer = [*SECOND, *batch(("6", "1", "f"), transaction=30, first=4)]
    with closing(side.merger()) as merger:
        merger.merge(FIRST)
        with kept(side) as before:
            merged = merger.merge(longer)
            before.put_back()
        merger.take(CLAIM, merged.consumed[0].highest, had(side, 5, 5))
        assert merger.merge(SECOND).consumed[0].reached == had(side, 4)
        has = merger.take(CLAIM, merged.consumed[0].highest, had(side, 5, 5))
        assert has.behind == {("t0", side.names[0]): Has(4, False)}
        assert merger.merge(longer[2:]).consumed[0].reached == had(side, 5)
        assert merger.take(CLAIM, merged.consumed[0].highest, had(side, 5, 5)).behind == {}


def test_a_batch_of_which_a_database_lost_the_first_writes_before_its_last_ones_is_written_again(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost without a word: a batch with rows to be refreshed behind the others raises the offset with its last write
    alone, so that a database that lost the first one had the offset that was expected."""
    refresh = Received(PARTITION, 4, 10, refresh_message(plain_table(), [("9",)]))
    with closing(side.merger()) as merger:
        merger.merge(FIRST)
        with kept(side) as before:
            monkeypatch.setattr(merger, "_cascades", Between(before.put_back))
            assert isinstance(refused(merger, [*SECOND, refresh]), Behind)
            assert side.rows(0) == [(1, "a")]
            monkeypatch.setattr(merger, "_cascades", Between(lambda: None))
            assert merger.take(CLAIM, {}, had(side, 2, 2)).behind == {}
            assert merger.merge([*FIRST, *SECOND, refresh]).consumed[0].reached == had(side, 5, 5)
    assert (side.rows(0), side.rows(1)) == ([(1, "a"), (3, "c")], [(2, "b"), (4, "d")])


def test_what_is_read_again_as_the_broker_has_other_messages_is_no_loss_of_a_database(side: Side) -> None:
    """Though it is taken twice, as by who is killed before the state knows of it."""
    with closing(side.merger()) as merger:
        merger.merge([*FIRST, *SECOND])
        for _ in range(2):
            assert merger.take(CLAIM, {}, had(side, 4, 4), 2).behind == {}
        assert merger.merge(THIRD).consumed[0].reached == had(side, 5)


def test_a_lost_delayed_delete_is_noticed_though_it_has_no_coordinate_of_its_own(side: Side) -> None:
    """Lost: a delete that had come back, and was in a target before that was put back."""
    (changed,) = batch(("1", "0", "a"), transaction=5, first=2)
    message = replace(changed.message, type="DELETE", delay=Delay(0, 0, "ds_0", "t_0"))
    returned = replace(changed, message=message)
    with closing(side.merger()) as merger:
        merger.merge(FIRST)
        with kept(side) as before:
            merger.merge([returned])
            before.put_back()
        assert isinstance(refused(merger, THIRD), Behind)


def test_an_epoch_that_the_state_gave_twice_lets_one_of_its_holders_write(side: Side) -> None:
    """Lost: newer rows, by a process that hangs in a retry and has the epoch that another one got again."""
    with closing(side.merger()) as old, closing(Merger(side.plan, NoDelays(), side.stop)) as new:  # type: ignore[arg-type]
        old.merge(FIRST)
        with pytest.raises(StateBehind) as known:
            new.take(Claim(PARTITION, 1, "another"), {}, {})
        assert known.value.epoch == 1
        new.take(Claim(PARTITION, 2, "another"), {}, {})
        assert isinstance(refused(old, SECOND), OwnershipLost)
        new.merge([*FIRST, *SECOND])
        assert side.rows(0) == [(1, "a"), (3, "c")]
