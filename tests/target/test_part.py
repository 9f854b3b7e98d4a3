"""One part in one transaction: rows, ledger and delayed deletes, all or nothing (invariants fenced-writer,
tombstone-under-open-chunk)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pymysql
import pytest

from migrate.model.change import NoChange
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost, StopError
from migrate.model.message import Row
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.state.record import Partition
from migrate.target import chunk_fence, fence, ledger, parked, reached
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.decide import Intent
from migrate.target.parked import SetAside
from migrate.target.part import Part, Work, apply, find_refused
from migrate.target.place import Aftermath, AppliedCounts, EmptyDelete, ReturnedDelete
from migrate.target.reached import Claim
from migrate.target.rows import PlaceWriter
from tests.helpers import catalog_table, unique
from tests.target.conftest import TargetSide, standby

LAST_TIER = 1


def at(ordinal: int) -> Coordinate:
    return Coordinate(1, 1, 10, ordinal)


class Place:
    """A physical table of one migration's, with its fence taken; `sent` holds the delayed deletes handed over."""

    def __init__(self, side: TargetSide, columns: str = "id INT PRIMARY KEY, v INT", closed: bool = True) -> None:
        name = unique("p")
        side.one.execute(f"CREATE TABLE {name} ({columns})")
        self.side = side
        self.connection: Connection = side.one
        self.table: Table = catalog_table(side.one, side.database, name)
        self.writer = PlaceWriter(self.table, name)
        self.partition = Partition(standby(side.one), "topic", 0)
        self.sent: list[EmptyDelete] = []
        self.evicted: list[tuple[Table, Row]] = []
        reached.take(side.one, Claim(self.partition, 1, "h"), ["s"])
        chunk_fence.open_attempt(side.one, self.migration, self.table, Chunk(WHOLE_TABLE, None, None), 1)
        if closed:
            self.close()

    @property
    def migration(self) -> str:
        return self.partition.migration

    def close(self) -> None:
        chunk_fence.close(self.connection, self.migration, self.table, [WHOLE_TABLE])

    def part(self, *intents: Intent, returned: Sequence[ReturnedDelete] = (), highest: int | None = 99) -> Part:
        marks: dict[str, Coordinate | None] = {"s": None if highest is None else at(highest)}
        return Part(Claim(self.partition, 1, "h"), marks, [Work(self.writer, list(intents), list(returned))])

    def apply(
        self, *intents: Intent, returned: Sequence[ReturnedDelete] = (), highest: int | None = 99
    ) -> AppliedCounts:
        part = self.part(*intents, returned=returned, highest=highest)
        return apply(self.connection, [part], LAST_TIER, self._send)

    def _send(self, _partition: Partition, left: Aftermath) -> None:
        self.sent += left.empties
        self.evicted += left.evicted

    @property
    def rows(self) -> list[tuple[object, ...]]:
        return self.side.rows(self.writer.name)

    @property
    def noted(self) -> dict[str, tuple[int, bool]]:
        """Key: (ordinal, whether no row was there) of each ledger entry."""
        with self.connection.transaction():
            entries = ledger.locked(self.connection, self.migration, self.table, self.writer.name)
        return {entry.key[0]: (entry.coordinate.ordinal, entry.was_empty) for entry in entries}

    @property
    def fence(self) -> Coordinate | None:
        return fence.read(self.connection, self.partition, "s")


def write(ordinal: int, key: str, value: str | None = "1", **more: str) -> Intent:
    row: Row = {"id": key, "v": value, **more}
    return Intent((key,), row, at(ordinal))


def delete(ordinal: int, key: str) -> Intent:
    return Intent((key,), None, at(ordinal))


def test_rows_are_inserted_updated_and_deleted_and_the_fence_rises(side: TargetSide) -> None:
    place = Place(side)
    assert place.apply(write(0, "1"), write(2, "2"), write(4, "3"), highest=4) == AppliedCounts(inserted=3)
    done = place.apply(write(6, "2", "9"), delete(8, "1"), write(10, "4"), delete(12, "7"), highest=12)
    assert done == AppliedCounts(inserted=1, updated=1, deleted=1, empty=1)
    assert place.rows == [(2, 9), (3, 1), (4, 1)]
    assert place.fence == at(12)
    assert (place.noted, place.sent) == ({}, [])


def test_another_owner_means_nothing_is_written(side: TargetSide) -> None:
    place = Place(side)
    reached.take(side.two, Claim(place.partition, 2, "h"), ["s"])
    with pytest.raises(OwnershipLost):
        place.apply(write(0, "1"))
    assert place.rows == []


def test_a_refusal_rolls_everything_back_the_fence_too(side: TargetSide) -> None:
    place = Place(side, closed=False)
    with pytest.raises(pymysql.DataError):
        place.apply(delete(0, "5"), write(2, "1"), write(4, "2", "99999999999"))
    assert (place.rows, place.noted, place.sent, place.fence) == ([], {}, [], None)


def test_delayed_deletes_are_handed_over_before_the_commit(side: TargetSide) -> None:
    """The other way round, a crash in between would lose the delete for good."""
    place = Place(side, closed=False)

    def fail(_partition: Partition, _left: Aftermath) -> None:
        raise StopError("no broker")

    with pytest.raises(StopError, match="no broker"):
        apply(place.connection, [place.part(write(0, "1"), delete(2, "5"))], LAST_TIER, fail)
    assert (place.rows, place.noted, place.fence) == ([], {}, None)


def inserts(side: TargetSide) -> int:
    (row,) = side.one.query("SHOW SESSION STATUS LIKE 'Com_insert'")
    return int(str(row[1]))


def test_what_several_partitions_have_for_a_place_is_one_statement_and_each_gets_its_own_aftermath(
    side: TargetSide,
) -> None:
    place = Place(side, closed=False)
    other = replace(place.partition, number=1)
    reached.take(side.one, Claim(other, 1, "h"), ["s"])
    mine = place.part(write(0, "1"), delete(2, "7"))
    theirs = Part(Claim(other, 1, "h"), {"s": at(99)}, [Work(place.writer, [write(0, "2"), delete(2, "8")])])
    sent: dict[int, list[EmptyDelete]] = {}
    before = inserts(side)
    done = apply(
        side.one, [mine, theirs], LAST_TIER, lambda partition, left: sent.update({partition.number: left.empties})
    )
    assert done == AppliedCounts(inserted=2, empty=2)
    assert inserts(side) - before == 3  # the rows, and the ledger's before and after they were looked up
    assert place.rows == [(1, 1), (2, 1)]
    assert {number: [one.key for one in some] for number, some in sent.items()} == {0: [("7",)], 1: [("8",)]}
    assert (place.fence, fence.read(side.one, other, "s")) == (at(99), at(99))


def test_while_the_copy_is_open_every_delete_leaves_an_entry(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(write(0, "1"), write(2, "2"))
    assert place.noted == {}
    assert place.apply(delete(4, "1"), delete(6, "7")) == AppliedCounts(deleted=1, empty=1)
    assert place.noted == {"1": (4, False), "7": (6, True)}
    (sent,) = place.sent
    assert (sent.key, sent.coordinate, sent.place, sent.tier) == (("7",), at(6), place.writer.name, 0)


def test_a_later_write_takes_the_entry_away(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"), delete(2, "2"))
    place.apply(write(4, "1"))
    assert place.noted == {"2": (2, True)}


def test_entries_are_still_taken_away_after_the_copy_closed(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"))
    place.close()
    place.apply(write(2, "1"))
    assert place.noted == {}
    assert place.apply(returned=[ReturnedDelete(("1",), at(0), 0)], highest=None) == AppliedCounts()
    assert place.rows == [(1, 1)]


def came_back(place: Place, ordinal: int, key: str, tier: int = 0) -> AppliedCounts:
    return place.apply(returned=[ReturnedDelete((key,), at(ordinal), tier)], highest=None)


def test_a_delete_that_comes_back_while_the_copy_is_open_goes_to_the_next_tier_and_the_last_repeats(
    side: TargetSide,
) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"), highest=0)
    for tier, then in ((0, 1), (1, 1)):
        place.sent.clear()
        came_back(place, 0, "1", tier)
        assert [empty.tier for empty in place.sent] == [then]
    assert place.noted == {"1": (0, True)}
    assert place.fence == at(0)


def test_once_the_copy_is_closed_it_deletes_what_the_copy_brought(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"), delete(2, "2"))
    side.one.execute(f"INSERT INTO {place.writer.name} VALUES (1, 5)")
    place.close()
    assert came_back(place, 0, "1") == AppliedCounts(deleted=1)
    assert came_back(place, 2, "2") == AppliedCounts()
    assert (place.rows, place.noted) == ([], {})
    assert came_back(place, 0, "1") == AppliedCounts()  # sent twice


def test_a_row_written_again_survives_a_delete_that_comes_back(side: TargetSide) -> None:
    """A delete that found nothing, then the same key inserted again, then the delayed delete."""
    place = Place(side, closed=False)
    place.apply(delete(0, "1"))
    place.apply(write(2, "1", "7"))
    place.close()
    assert came_back(place, 0, "1") == AppliedCounts()
    assert place.rows == [(1, 7)]


def test_an_older_delete_that_comes_back_leaves_a_newer_ones_entry(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"))
    place.apply(delete(2, "1"))
    place.close()
    came_back(place, 0, "1")
    assert place.noted == {"1": (2, True)}
    came_back(place, 2, "1")
    assert place.noted == {}


def test_a_write_in_the_same_batch_goes_first(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"))
    place.close()
    place.apply(write(2, "1", "7"), returned=[ReturnedDelete(("1",), at(0), 0)])
    assert place.rows == [(1, 7)]


def test_keys_that_only_the_server_can_compare_are_applied_one_by_one(side: TargetSide) -> None:
    place = Place(
        side, "id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT", closed=False
    )
    place.apply(write(0, "ABC"), delete(2, "abc"), write(4, "Abc ", "2"), delete(6, "x"), delete(8, "X "))
    assert place.rows == [("Abc ", 2)]
    assert place.noted == {"X ": (8, True)}
    place.apply(write(10, "X"))
    assert place.noted == {}


def test_a_refused_change_is_parked_behind_an_older_one_that_the_server_calls_the_same_key(side: TargetSide) -> None:
    place = Place(side, "id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT")
    part = place.part(write(0, "abc"), write(2, "ABC", "99999999999"), write(4, "x"))
    part.aside[place.writer.name, ("ABC",), at(2)] = SetAside("too large", "tested")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert place.rows == [("abc", 1), ("x", 1)]
    assert [one.key for one in parked.every(place.connection, place.migration)] == [("ABC",)]
    place.apply(write(6, "Abc", "3"))
    assert parked.every(place.connection, place.migration) == []


def test_what_is_parked_of_a_removed_table_is_forgotten(side: TargetSide) -> None:
    place = Place(side)
    part = place.part(write(0, "1"))
    part.aside[place.writer.name, ("1",), at(0)] = SetAside("refused", "tested")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert parked.count(place.connection, place.migration) == 1
    parked.forget(place.connection, place.migration, place.table.id)
    assert parked.count(place.connection, place.migration) == 0


def test_a_refresh_of_a_key_is_written_though_a_change_of_it_is_set_aside(side: TargetSide) -> None:
    place = Place(side)
    part = place.part(write(0, "1", "99999999999"))
    part.work[0].refreshed.append(Intent(("1",), {"id": "1", "v": "5"}, NoChange.REFRESH))
    part.aside[place.writer.name, ("1",), at(0)] = SetAside("too large", "tested")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (place.rows, parked.every(place.connection, place.migration)) == ([(1, 5)], [])


def test_a_delete_that_was_set_aside_is_noted_once_a_refresh_carries_it_out(side: TargetSide) -> None:
    """Revived: a row whose delete the target had refused, by a chunk that had been read before: the delete was parked
    without an entry in the ledger, and the refresh that did it later left none either."""
    place = Place(side, closed=False)
    place.apply(write(0, "1", "5"), write(2, "2", "6"))
    part = place.part(delete(4, "1"))
    part.aside[place.writer.name, ("1",), at(4)] = SetAside("refused", "tested")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (place.rows, place.noted) == ([(1, 5), (2, 6)], {})
    part = place.part()
    part.work[0].refreshed.extend(Intent((key,), None, NoChange.REFRESH) for key in ("1", "2"))
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (place.rows, parked.every(place.connection, place.migration)) == ([], [])
    assert place.noted == {"1": (4, False)}, "and of no other: the stream's own delete is to come"


def test_a_row_that_makes_way_for_a_unique_value_is_handed_over_to_be_refreshed(side: TargetSide) -> None:
    place = Place(side, "id INT PRIMARY KEY, v INT UNIQUE")
    place.apply(write(0, "1", "10"))
    place.apply(write(2, "2", "10"))
    assert place.rows == [(2, 10)]
    assert [(table.name, key) for table, key in place.evicted] == [(place.table.name, {place.table.key[0]: "1"})]


def test_a_delayed_delete_that_the_target_refuses_is_named_and_set_aside_comes_again(side: TargetSide) -> None:
    place = Place(side, closed=False)
    place.apply(delete(0, "1"))
    side.one.execute(f"INSERT INTO {place.writer.name} VALUES (1, 1)")
    place.close()
    refuse = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'"
    side.one.execute(f"CREATE TRIGGER {place.writer.name}_t BEFORE DELETE ON {place.writer.name} FOR EACH ROW {refuse}")
    part = place.part(returned=[ReturnedDelete(("1",), at(0), 0)], highest=None)
    with pytest.raises(pymysql.MySQLError, match="not this one"):
        apply(place.connection, [part], LAST_TIER, place._send)
    found = find_refused(place.connection, part)
    assert found is not None
    assert (found[1].key, found[1].coordinate, "error 1644" in found[2]) == (("1",), at(0), True)
    part.aside[place.writer.name, ("1",), at(0)] = SetAside("not this one", "tested")
    place.sent.clear()
    apply(place.connection, [part], LAST_TIER, place._send)
    assert [(empty.key, empty.tier) for empty in place.sent] == [(("1",), 1)]
    side.one.execute(f"DROP TRIGGER {place.writer.name}_t")
    part.aside.clear()
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (place.rows, place.noted) == ([], {})


def test_unique_values_may_be_swapped_and_passed_on(side: TargetSide) -> None:
    place = Place(side, "id INT PRIMARY KEY, v INT UNIQUE")
    place.apply(write(0, "1", "10"), write(2, "2", "20"), write(4, "3", "30"))
    place.apply(write(6, "1", "20"), write(8, "2", "10"), delete(10, "3"), write(12, "4", "30"))
    assert place.rows == [(1, 20), (2, 10), (4, 30)]


def test_doing_it_twice_ends_the_same(side: TargetSide) -> None:
    """After a commit whose answer was lost."""
    place = Place(side, "id INT PRIMARY KEY, v INT UNIQUE", closed=False)
    place.apply(write(0, "1", "10"), write(2, "2", "20"))
    for _ in range(2):
        place.apply(write(4, "1", "20"), write(6, "3", "10"), delete(8, "2"), delete(10, "7"))
    assert place.rows == [(1, 20), (3, 10)]
    assert set(place.noted) == {"2", "7"}


def test_an_enums_error_value_is_stored_and_nothing_else_is_bent(side: TargetSide) -> None:
    place = Place(side, "id INT PRIMARY KEY, v ENUM('a','b'), d DECIMAL(4,2)")
    place.apply(write(0, "1", "0", d="1.00"), write(2, "2", "2", d="2.00"))
    assert side.one.query(f"SELECT id, CAST(v AS UNSIGNED), v FROM {place.writer.name}") == [(1, 0, ""), (2, 2, "b")]
    for bad in ({"v": "0", "d": "1.005"}, {"v": "0", "d": "123.00"}, {"v": "3", "d": "1.00"}):
        with pytest.raises((StopError, pymysql.MySQLError)):
            place.apply(Intent(("3",), {"id": "3", **bad}, at(4)))
    assert len(place.rows) == 2
    mode = side.one.one("SELECT @@session.sql_mode")
    assert mode is not None
    assert "STRICT_ALL_TABLES" in mode[0]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (write(2, "2", "99999999999"), "1264"),
        (write(2, "2", "x"), "value is not a number"),
        (Intent(("2",), {"id": "2"}, at(2)), "column v is missing"),
    ],
)
def test_the_first_refused_change_is_found_and_nothing_is_kept(side: TargetSide, bad: Intent, told: str) -> None:
    place = Place(side, closed=False)
    part = place.part(write(0, "1"), bad, write(4, "3", "99999999999"))
    found = find_refused(place.connection, part)
    assert found is not None
    writer, intent, reason = found
    assert (writer, intent) == (place.writer, bad)
    assert told in reason
    assert (place.rows, place.noted, place.fence) == ([], {}, None)
    assert find_refused(place.connection, place.part(write(0, "1"), delete(2, "7"))) is None
    assert place.rows == []


def test_a_server_that_is_busy_is_not_taken_for_a_refusal(side: TargetSide) -> None:
    place = Place(side)
    place.apply(write(0, "1"))
    with side.one.transaction():
        side.one.query(f"SELECT * FROM {place.writer.name} FOR UPDATE")
        with pytest.raises(pymysql.OperationalError, match="1205"):
            find_refused(side.two, place.part(write(2, "1", "2")))


# -- tables that share the place


def grouped(side: TargetSide) -> tuple[Place, Table]:
    """A place of two tables, the second of which (of source "r") is being copied."""
    place = Place(side)
    other = replace(place.table, source="r")
    noted_as = replace(place.table, source="*", database="", name="all")
    place.writer = PlaceWriter(place.table, place.writer.name, noted_as=noted_as, members=(place.table.id, other.id))
    chunk_fence.open_attempt(side.one, place.migration, other, Chunk(WHOLE_TABLE, None, None), 1)
    return place, noted_as


def noted(place: Place, table: Table) -> list[str]:
    with place.connection.transaction():
        return [entry.key[0] for entry in ledger.locked(place.connection, place.migration, table, place.writer.name)]


def test_a_delete_leaves_an_entry_while_the_copy_of_another_table_of_the_place_is_open(side: TargetSide) -> None:
    place, noted_as = grouped(side)
    place.apply(write(0, "1"), delete(2, "2"))
    assert noted(place, noted_as) == ["2"]
    assert [empty.key for empty in place.sent] == [("2",)]
    assert place.noted == {}, "the ledger is the group's"
    chunk_fence.close(place.connection, place.migration, replace(place.table, source="r"), [WHOLE_TABLE])
    place.apply(delete(4, "1"))
    assert noted(place, noted_as) == ["2"]


def test_a_write_of_either_table_ends_what_the_other_left_in_ledger_and_parked(side: TargetSide) -> None:
    place, noted_as = grouped(side)
    other = replace(place.table, source="r")
    place.apply(delete(2, "2"))
    part = place.part(write(4, "2"))
    part.aside[place.writer.name, ("2",), at(4)] = SetAside("refused", "on purpose")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (noted(place, noted_as), [one.source for one in parked.every(place.connection, place.migration)]) == (
        ["2"],
        ["s"],
    )
    reached.take(side.one, Claim(place.partition, 1, "h"), ["r"])
    writer = PlaceWriter(other, place.writer.name, noted_as=noted_as, members=place.writer.members)
    apply(
        place.connection,
        [Part(Claim(place.partition, 1, "h"), {"r": at(1)}, [Work(writer, [write(1, "2")])])],
        LAST_TIER,
        place._send,
    )
    assert (noted(place, noted_as), parked.every(place.connection, place.migration), place.rows) == ([], [], [(2, 1)])
