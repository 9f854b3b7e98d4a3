"""The update-time filter: which changes it skips, as tables; and what becomes of them in a target database."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from migrate.model.change import NoChange
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ConfigError
from migrate.model.message import Row
from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.target import outdated
from migrate.target.decide import Intent
from migrate.target.parked import SetAside
from migrate.target.part import apply, find_refused
from migrate.target.place import AppliedCounts
from migrate.target.rows import PlaceWriter
from migrate.target.update_time import UpdateTimeFilter, checked, is_older
from tests.helpers import int_column, text_column
from tests.target.conftest import TargetSide
from tests.target.test_part import LAST_TIER, Place

AT = Column("t", "datetime", Kind.DATETIME)
FINE = Column("t", "timestamp(6)", Kind.TIMESTAMP)
VERSION = Column("t", "bigint(20) unsigned", Kind.INT)
TABLE = Table(
    "s",
    "shop",
    "t",
    (
        int_column("id"),
        AT,
        text_column("v"),
        Column("day", "date", Kind.DATE),
        Column("made", "datetime", Kind.DATETIME, generated=True),
        Column("at_key", "datetime", Kind.DATETIME),
    ),
    ("id", "at_key"),
)
CASES = [
    # the change's value, the row's: whether the change is older
    (AT, "2026-01-01 00:00:00", "2026-01-01 00:00:01", True),
    (AT, "2026-01-01 00:00:01", "2026-01-01 00:00:01", False),
    (AT, "2026-01-01 00:00:02", "2026-01-01 00:00:01", False),
    (AT, "0000-00-00 00:00:00", "1000-01-01 00:00:00", True),
    (AT, "2026-01-01 00:00:00", "2026-01-01 00:00:00.000000", False),  # a target's column with more digits
    (AT, "2026-01-01 00:00:00", "2026-01-01 00:00:00.000001", True),
    (FINE, "2026-01-01 00:00:00.000009", "2026-01-01 00:00:00.000010", True),
    (FINE, "2026-01-01 00:00:00.100000", "2026-01-01 00:00:00.099999", False),
    (VERSION, "9", "10", True),
    (VERSION, "18446744073709551615", "18446744073709551614", False),
    (VERSION, "-1", "0", True),
    (AT, None, "2026-01-01 00:00:00", False),
    (AT, "2026-01-01 00:00:00", None, False),
    (AT, None, None, False),
]
END = Coordinate(2, 5, 400, 0)
PLACES = [
    # where the copy's end is in the log, where the change is: whether the change was committed before
    (None, Coordinate(2, 9, 900, 1), True),  # the copy has not ended
    (None, Coordinate(0, 0, 7, 0), True),
    (END, Coordinate(2, 5, 399, 8), True),
    (END, Coordinate(2, 5, 400, 0), False),
    (END, Coordinate(2, 5, 401, 0), False),
    (END, Coordinate(2, 4, 900, 0), True),
    (END, Coordinate(1, 9, 900, 0), True),
    (END, Coordinate(3, 1, 4, 0), False),  # of another server, or of a rewind
    (END, Coordinate(0, 0, 7, 0), False),  # Canal's messages have no place in the log
]


@pytest.mark.parametrize(("column", "mine", "theirs", "older"), CASES)
def test_a_change_is_older_than_a_row_by_value_and_not_where_one_has_none(
    column: Column, mine: str | None, theirs: str | None, older: bool
) -> None:
    assert is_older(column, mine, theirs) is older


@pytest.mark.parametrize(("end", "at", "before"), PLACES)
def test_only_what_was_committed_before_the_copy_ended_is_skipped(
    end: Coordinate | None, at: Coordinate, before: bool
) -> None:
    row: Row = {"id": "1", "t": "1"}
    assert UpdateTimeFilter(VERSION, end).skips(Intent(("1",), row, at), "2") is before
    assert not UpdateTimeFilter(VERSION, end).skips(Intent(("1",), None, at), "2"), "a delete"
    assert not UpdateTimeFilter(VERSION, end).skips(Intent(("1",), {"id": "1"}, at), "2"), "the column came later"
    assert not UpdateTimeFilter(VERSION, end).skips(Intent(("1",), row, NoChange.REFRESH), "2"), "a refresh"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gone", r"^tables: shop\.t: update_time: 'gone' is not a column of the table \(its columns: id, "),
        ("made", r"column made \(datetime\) is generated: the target computes it by itself \(name a DATETIME, a"),
        ("day", r"column day \(date\) cannot be compared as a time \(name a DATETIME, a"),
        ("v", r"column v \(varchar\(20\)\) cannot be compared as a time \(name a DATETIME, a"),
        ("at_key", r"column at_key \(datetime\) is part of the key, so that a row never changes it \(name a DATETIME"),
    ],
)
def test_a_column_that_tells_no_order_is_refused_by_name(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        checked(name, TABLE)


def test_times_and_whole_numbers_are_taken() -> None:
    table = Table("s", "shop", "t", (int_column("id"), int_column("version"), AT), ("id",))
    assert (checked("version", table), checked("t", table), checked(None, table)) == ("version", "t", None)


# -- in a database


class Filtered(Place):
    """A place whose table is filtered by its column `t`."""

    def __init__(self, side: TargetSide, kind: str, key: str = "INT", end: int | None = None) -> None:
        super().__init__(side, f"id {key} PRIMARY KEY, t {kind} NULL, v INT", closed=end is not None)
        if end is not None:
            outdated.put_end(side.one, self.migration, self.table.id, Coordinate(1, 1, end, 0))
        self.writer = PlaceWriter(self.table, self.writer.name, update_time="t")

    def fill(self, *rows: tuple[str, str | None]) -> None:
        for key, time in rows:
            self.connection.execute(f"INSERT INTO {self.writer.name} VALUES (%s, %s, 0)", (key, time))

    @property
    def values(self) -> dict[str, int]:
        return {str(key): int(str(value)) for key, _, value in self.rows}

    @property
    def kept(self) -> list[str]:
        """The keys that wait to be refreshed."""
        return sorted(key for (key,) in outdated.keys(self.connection, self.migration, self.table.id, 100))


def change(key: str, time: str | None, transaction: int = 10, value: str = "1") -> Intent:
    return Intent((key,), {"id": key, "t": time, "v": value}, Coordinate(1, 1, transaction, 0))


def no_row(key: str) -> Intent:
    return Intent((key,), None, Coordinate(1, 1, 10, 0))


@pytest.mark.parametrize(
    ("kind", "early", "late"),
    [
        ("DATETIME(3)", "2026-03-01 10:00:00.120", "2026-03-01 10:00:00.121"),
        ("TIMESTAMP(6)", "2026-03-01 10:00:00.000000", "2026-03-01 10:00:00.000001"),
        ("DATETIME", "2026-03-01 10:00:00", "2026-03-01 10:00:01"),
        ("BIGINT UNSIGNED", "9", "18446744073709551615"),
    ],
)
def test_what_is_older_is_skipped_and_noted_and_all_else_is_applied(
    side: TargetSide, kind: str, early: str, late: str
) -> None:
    place = Filtered(side, kind)
    place.fill(("1", late), ("2", early), ("3", early), ("4", late), ("5", None), ("6", late))
    changes = [change("1", early), change("2", early), change("3", late), no_row("4"), change("5", early)]
    done = place.apply(*changes, change("6", None), change("7", early))
    assert done == AppliedCounts(inserted=1, updated=4, deleted=1, outdated=1)
    assert place.values == {"1": 0, "2": 1, "3": 1, "5": 1, "6": 1, "7": 1}
    assert place.kept == ["1"]


def test_a_change_from_before_the_copys_end_is_skipped_and_a_later_one_decides(side: TargetSide) -> None:
    place = Filtered(side, "BIGINT", end=500)
    place.fill(("1", "9"), ("2", "9"))
    assert place.apply(change("1", "1", 499), change("2", "1", 500)).outdated == 1
    assert (place.values, place.kept) == ({"1": 0, "2": 1}, ["1"])
    outdated.pass_end(place.connection, place.migration, place.table.id, Coordinate(1, 1, 499, 0))
    assert outdated.ends(place.connection, place.migration), "that of another copy stays"
    outdated.pass_end(place.connection, place.migration, place.table.id, Coordinate(1, 1, 500, 0))
    assert place.apply(change("1", "2", 499)).updated == 1, "caught up: order decides"
    assert place.values["1"] == 1


def test_a_refresh_is_not_filtered_and_ends_the_entry_and_so_does_one_that_is_parked(side: TargetSide) -> None:
    place = Filtered(side, "BIGINT")
    place.fill(("1", "9"), ("2", "9"), ("3", "9"))
    place.apply(change("1", "1"), change("2", "1"), change("3", "1"))
    assert place.kept == ["1", "2", "3"]
    part = place.part(highest=None)
    refreshed = [Intent((key,), {"id": key, "t": "1", "v": "7"}, NoChange.REFRESH) for key in "12"]
    part.work[0].refreshed += [*refreshed, Intent(("3",), None, NoChange.REFRESH)]
    part.aside[place.writer.name, ("2",), NoChange.REFRESH] = SetAside("too long", "a test")
    apply(place.connection, [part], LAST_TIER, place._send)
    assert (place.values, place.kept) == ({"1": 7, "2": 0}, [])


def test_a_key_that_only_the_server_compares_is_one_entry(side: TargetSide) -> None:
    place = Filtered(side, "INT", key="VARCHAR(9) COLLATE utf8mb4_general_ci")
    place.fill(("abc", "5"))
    assert place.apply(change("ABC", "1")).outdated == 1
    assert place.apply(change("abc", "4")).outdated == 1
    assert (len(place.kept), place.values) == (1, {"abc": 0})
    assert place.apply(change("ABC", "5")).updated == 1


def test_nothing_is_kept_of_a_transaction_that_is_rolled_back(side: TargetSide) -> None:
    """A crash before the commit: the change comes again, and is judged again."""
    place = Filtered(side, "INT")
    place.fill(("1", "5"))
    with pytest.raises(pymysql.DataError):
        place.apply(change("1", "1"), change("2", "1", value="99999999999"))
    assert (place.kept, place.values, place.fence) == ([], {"1": 0}, None)


def test_of_a_batch_with_a_refused_change_an_outdated_one_is_not_named(side: TargetSide) -> None:
    """It would never be written, so that it is not what the target refuses."""
    place = Filtered(side, "INT")
    place.fill(("1", "5"))
    outdated_one = change("1", "1", value="99999999999")
    found = find_refused(place.connection, place.part(outdated_one, change("2", "1", value="88888888888")))
    assert found is not None
    assert found[1].key == ("2",)


def test_a_table_without_the_filter_asks_for_nothing_of_it(side: TargetSide, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for name in ("query", "execute", "write"):
        sends = getattr(Connection, name)

        def send(self: Connection, sql: str, *rest: Any, _sends: Any = sends) -> Any:
            said.append(sql)
            return _sends(self, sql, *rest)

        monkeypatch.setattr(Connection, name, send)
    filtered, plain = Filtered(side, "INT", end=500), Place(side)
    said.clear()
    plain.apply(Intent(("1",), {"id": "1", "v": "1"}, Coordinate(1, 1, 10, 0)))
    told = [one for one in said if "_migrate_outdated" in one or "_migrate_copy_end" in one]
    without = len(said)
    assert told == []
    said.clear()
    filtered.apply(change("1", "1"))
    assert len(said) == without + 1, "one question, of where the copy ended"
    assert not [one for one in said if "_migrate_outdated" in one]
