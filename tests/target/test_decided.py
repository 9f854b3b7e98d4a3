"""Decisions are kept with what they decided, told by key, and dropped once they are old."""

from __future__ import annotations

import pymysql
import pytest

from migrate.model.change import stored
from migrate.target import decided
from migrate.target.decide import Intent
from migrate.target.ledger import Spellings
from migrate.target.part import apply
from migrate.target.place import Returned
from tests.target.conftest import TargetSide
from tests.target.test_part import LAST_TIER, Place, at, delete, write


def put(place: Place, *intents: Intent, returned: tuple[Returned, ...] = (), keep: bool = True) -> None:
    apply(place.connection, [place.part(*intents, returned=returned)], LAST_TIER, lambda *_: None, keep=keep)


def told(place: Place, key: str) -> list[tuple[str, int]]:
    spellings = Spellings(lambda: place.connection, place.table, (key,))
    found = decided.find(place.connection, place.migration, {place.writer.name}, spellings)
    return [(one.what, stored(one.origin).ordinal) for one in found]


def test_what_was_decided_for_a_key_is_told_in_order(side: TargetSide) -> None:
    place = Place(side)
    put(place, write(0, "1"), write(1, "2"))
    put(place, write(2, "1", "5"), delete(3, "9"))
    put(place, delete(4, "1"), returned=(Returned(("9",), at(3), 0),))
    assert told(place, "1") == [("inserted", 0), ("updated", 2), ("deleted", 4)]
    assert told(place, "2") == [("inserted", 1)]
    assert told(place, "9") == [
        ("was not there to be deleted", 3),
        ("delayed delete: of no account, the key was written since", 3),
    ]
    assert told(place, "11") == []
    spellings = Spellings(lambda: place.connection, place.table, ("1",))
    assert decided.find(place.connection, place.migration, {"elsewhere"}, spellings) == []


@pytest.mark.parametrize(
    ("collation", "asked", "others"),
    [
        ("utf8mb4_general_ci", "abc", ["ABC", "Abc "]),
        ("utf8mb4_bin", "abc", ["abc  "]),
        ("latin1_bin", "abc", ["abc "]),
    ],
)
def test_a_key_is_found_under_each_spelling_that_the_server_takes_for_it(
    side: TargetSide, collation: str, asked: str, others: list[str]
) -> None:
    place = Place(side, f"id VARCHAR(9) COLLATE {collation} PRIMARY KEY, v INT")
    put(place, write(0, asked), write(1, "abd"))
    for number, other in enumerate(others):
        put(place, write(2 + number, other), write(9, "xyz"))
    expected = [("inserted", 0), *(("updated", 2 + number) for number in range(len(others)))]
    for spelling in (asked, *others):
        assert told(place, spelling) == expected
    assert told(place, "abd") == [("inserted", 1)]


def test_a_transaction_that_is_rolled_back_decided_nothing(side: TargetSide) -> None:
    place = Place(side)
    with pytest.raises(pymysql.DataError):
        put(place, write(0, "1"), write(1, "2", "99999999999"))
    assert told(place, "1") == []


def test_nothing_is_kept_where_nothing_shall_be(side: TargetSide) -> None:
    place = Place(side)
    put(place, write(0, "1"), keep=False)
    assert told(place, "1") == []


def test_old_decisions_go_and_younger_ones_of_any_migration_stay(side: TargetSide) -> None:
    place, other = Place(side), Place(side)
    put(place, write(0, "1"))
    put(other, write(0, "1"))
    side.one.execute("UPDATE _migrate_decided SET made = made - INTERVAL 100 SECOND")
    put(place, write(1, "1"))
    assert decided.clean_up(side.one, place.migration, 50, 10) == 1
    assert told(place, "1") == [("updated", 1)]
    assert told(other, "1") == [("inserted", 0)]
    assert decided.clean_up(side.one, place.migration, 0, 10) == 1
    assert told(place, "1") == []


def test_many_decisions_of_a_transaction_are_several_rows(side: TargetSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decided, "_KEYS", 3)
    place = Place(side)
    put(place, *(write(number, str(number)) for number in range(10)))
    ((rows,),) = side.one.query("SELECT COUNT(*) FROM _migrate_decided WHERE migration = %s", (place.migration,))
    assert int(str(rows)) == 4
    assert [told(place, str(number)) for number in range(10)] == [[("inserted", number)] for number in range(10)]
