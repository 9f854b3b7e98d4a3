"""Folding: at each place the last word on a key wins, and a key that moved leaves every place it was at."""

from __future__ import annotations

from typing import Any

import pytest

from migrate.merge.fold import Fold
from migrate.model.change import Change
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Op, Row
from migrate.model.table import Table
from migrate.target.routing import PlannedTable
from tests.helpers import plain_table, plan_of


def planned(table: Table | None = None) -> PlannedTable:
    (found,) = plan_of(table or plain_table()).tables.values()
    return found


def row(key: str, shard: str, value: str = "v") -> Row:
    return {"id": key, "shard": shard, "v": value}


def change(number: int, before: Row | None, after: Row | None, table: Table | None = None) -> Change:
    op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
    image: Any = after if after is not None else before
    key = tuple(image[name] for name in (table or plain_table()).key)
    return Change("s", "shop", "t", op, key, before, after, Coordinate(1, 1, 10, number))


def folded(
    *changes: Change, table: Table | None = None, applied: dict[str, int] | None = None
) -> dict[tuple[str, str], list[tuple[str, str | None, int]]]:
    """Place: (key, the row's value or None, ordinal) of each intent."""
    fold, wanted = Fold(), planned(table)
    databases = {place.database.name: place.database for place in wanted.places}
    have = {databases[name]: Coordinate(1, 1, 10, number) for name, number in (applied or {}).items()}
    for each in changes:
        fold.add(wanted, [each], have)
    return {
        (place.database.name, place.table): [
            (intent.key[0], None if intent.row is None else intent.row["v"], intent.coordinate.ordinal)
            for intent in intents
        ]
        for place, _, intents in fold.places()
    }


def test_the_last_change_of_a_key_wins() -> None:
    found = folded(
        change(0, None, row("2", "0", "a")),
        change(2, row("2", "0", "a"), row("2", "0", "b")),
        change(4, row("2", "0", "b"), row("2", "0", "c")),
    )
    assert found == {("ds_0", "t_0"): [("2", "c", 4)]}


def test_a_key_that_moved_on_and_on_leaves_a_delete_at_each_place_it_left() -> None:
    found = folded(
        change(0, row("2", "0", "a"), row("2", "1", "b")),
        change(2, row("2", "1", "b"), row("2", "2", "c")),
        change(4, row("2", "2", "c"), row("2", "3", "d")),
    )
    assert found == {
        ("ds_0", "t_0"): [("2", None, 0)],
        ("ds_1", "t_0"): [("2", None, 2)],
        ("ds_0", "t_1"): [("2", None, 4)],
        ("ds_1", "t_1"): [("2", "d", 4)],
    }


def test_a_key_that_came_back_is_written_where_it_was() -> None:
    found = folded(
        change(0, row("2", "0", "a"), row("2", "1", "b")),
        change(2, row("2", "1", "b"), row("2", "0", "c")),
    )
    assert found == {("ds_0", "t_0"): [("2", "c", 2)], ("ds_1", "t_0"): [("2", None, 2)]}


def test_an_insert_and_its_delete_leave_a_delete() -> None:
    found = folded(change(0, None, row("2", "0")), change(2, row("2", "0"), None))
    assert found == {("ds_0", "t_0"): [("2", None, 2)]}


def test_a_delete_and_an_insert_elsewhere_are_both_kept() -> None:
    found = folded(change(0, row("2", "0"), None), change(2, None, row("2", "1", "new")))
    assert found == {("ds_0", "t_0"): [("2", None, 0)], ("ds_1", "t_0"): [("2", "new", 2)]}


def test_keys_do_not_mix_and_stay_in_the_order_of_their_last_change() -> None:
    found = folded(
        change(0, None, row("2", "0", "a")),
        change(2, None, row("4", "0", "b")),
        change(4, row("2", "0", "a"), row("2", "0", "c")),
    )
    assert found == {("ds_0", "t_0"): [("4", "b", 2), ("2", "c", 4)]}


def test_an_update_in_place_deletes_nothing() -> None:
    assert folded(change(0, row("2", "1", "a"), row("2", "1", "b"))) == {("ds_1", "t_0"): [("2", "b", 0)]}


def test_keys_that_only_the_server_can_compare_keep_every_change_in_order() -> None:
    table = plain_table(key=("v",))
    found = folded(
        change(0, None, row("2", "0", "ABC"), table),
        change(2, row("2", "0", "ABC"), None, table),
        change(4, None, row("3", "0", "abc"), table),
        table=table,
    )
    assert found == {("ds_0", "t_0"): [("ABC", "ABC", 0), ("ABC", None, 2), ("abc", "abc", 4)]}


@pytest.mark.parametrize("key", [("id",), ("v",)])
def test_what_a_database_has_already_is_left_out_there_only(key: tuple[str, ...]) -> None:
    table = plain_table(key=key)
    found = folded(
        change(0, None, row("2", "0", "a"), table),
        change(2, row("2", "0", "a"), row("2", "1", "a"), table),
        change(4, row("2", "1", "a"), row("2", "2", "a"), table),
        table=table,
        applied={"ds_0": 2},
    )
    first = ("2" if key == ("id",) else "a", "a", 2)
    last = (first[0], None, 4)
    assert found[("ds_0", "t_1")] == [(first[0], "a", 4)]
    assert found[("ds_1", "t_0")] == ([last] if key == ("id",) else [first, last])
    assert ("ds_0", "t_0") not in found


def test_a_row_that_no_place_takes_stops() -> None:
    with pytest.raises(StopError, match="NULL in the sharding column shard"):
        folded(change(0, None, {"id": "2", "shard": None, "v": "a"}))
