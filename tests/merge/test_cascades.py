"""Markers of foreign keys: what they are made of, in which order a batch is merged around them, and what they mean for
the children of the rows that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from migrate.merge.cascades import Cascades
from migrate.merge.marker_effect import Images, MarkerEffect
from migrate.merge.table_versions import Layouts
from migrate.merge.unlogged_changes import Told, by_key, unlogged
from migrate.model.change import Change
from migrate.model.coordinate import Coordinate
from migrate.model.message import CASCADE, Message, Op, Received, Row, encode
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.model.table import Table
from migrate.mysql.foreign_keys import ForeignKey
from migrate.state.migration import Migration
from migrate.target.cascades import Pair, changed, handed_on, markers, pairs_of, values_of
from tests.helpers import int_column, plain_table, plan_of
from tests.merge.history import KeysAlone

BOTH = ForeignKey("k", ("p", "q"), ("shop", "parent"), ("a", "b"), "CASCADE", "SET NULL")
KEY = ForeignKey("k", ("shard",), ("shop", "parent"), ("id",), "CASCADE", "CASCADE")
AT = Message("", "", CASCADE, (), "s", 1, 2, 300, (), es=5, gtid="g")


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({"a": "1", "b": "x"}, None, ({"p": "1", "q": "x"}, None)),
        ({"a": "1", "b": None}, None, None),
        ({"a": "1", "b": "x"}, {"a": "1", "b": "x"}, None),
        ({"a": "1", "b": "x"}, {"a": "1", "b": "y"}, ({"p": "1", "q": "x"}, {"p": "1", "q": "y"})),
        ({"a": None, "b": "x"}, {"a": "1", "b": "y"}, None),
    ],
)
def test_a_change_of_a_parent_is_something_to_its_children_where_they_can_refer_to_it(
    before: Row, after: Row | None, wanted: object
) -> None:
    assert changed(BOTH, before, after) == wanted


def test_a_rule_that_only_refuses_changes_no_child() -> None:
    only = ForeignKey("k", ("p",), ("shop", "parent"), ("a",), "CASCADE", "")
    assert changed(only, {"a": "1"}, {"a": "2"}) is None
    assert changed(only, {"a": "1"}, None) is not None


def test_markers_name_each_value_once_and_stay_below_the_limit() -> None:
    pairs = [(index, changed(KEY, {"id": str(index // 2)}, None)) for index in range(4000)]
    pairs += [(5000, changed(KEY, {"id": "7"}, {"id": "8"}))]
    made = list(markers(plain_table(), AT, KEY, 3, [(index, pair) for index, pair in pairs if pair], 4_000))
    values = [encode(one) for one in made]
    assert max(map(len, values)) <= 4_000
    read = [decode(value, "t [0] @ 1", 1) for value in values]
    named = [row for one in read if one.old is None for row in one.data]
    assert sorted(int(str(row["shard"])) for row in named) == [*range(2000)]
    (update,) = [one for one in read if one.old is not None]
    assert (update.sql, pairs_of(update)) == ("ON UPDATE CASCADE", [({"shard": "7"}, {"shard": "8"})])
    assert {one.sql for one in read} == {"ON DELETE CASCADE", "ON UPDATE CASCADE"}
    assert {(one.table, one.source, one.file, one.transaction, one.gtid) for one in read} == {("t", "s", 2, 300, "g")}


def test_rows_come_in_by_a_value_only_where_it_is_in_their_key_or_tells_that_they_belong() -> None:
    table = Table("s", "shop", "t", tuple(map(int_column, ("id", "shard", "v"))), ("id", "shard"))
    in_key, beside = plan_of(table).find("s", "shop", "t"), plan_of(plain_table()).find("s", "shop", "t")
    (update,) = markers(table, AT, KEY, 0, [(0, ({"shard": "7"}, {"shard": "8"}))], 9999)
    assert values_of(in_key, [update]) == ({("shard",): [{"shard": "7"}]}, {("shard",): [{"shard": "8"}]})
    assert values_of(beside, [update]) == ({("shard",): [{"shard": "7"}]}, {})


def _key(columns: str, referenced: str, on_delete: str = "CASCADE", on_update: str = "CASCADE") -> ForeignKey:
    return ForeignKey("k", tuple(columns.split()), ("shop", "t"), tuple(referenced.split()), on_delete, on_update)


A_TO_B = ({"a": "1"}, {"a": "2"})
A_GONE = ({"a": "1"}, None)


@pytest.mark.parametrize(
    ("key", "one", "below", "wanted"),
    [
        (_key("a", "x"), A_TO_B, _key("g", "a"), ({"g": "1"}, {"g": "2"})),
        (_key("a", "x"), A_GONE, _key("g", "a"), ({"g": "1"}, None)),
        (_key("a", "x", "SET NULL"), A_GONE, _key("g", "a"), ({"g": "1"}, {"g": None})),
        (_key("a", "x", "", "SET NULL"), A_TO_B, _key("g", "a"), ({"g": "1"}, {"g": None})),
        (_key("a", "x"), A_GONE, _key("g", "a", "", "CASCADE"), None),  # it only refuses
        (_key("a", "x"), A_TO_B, _key("g", "a", "CASCADE", ""), None),
        (_key("a", "x", "SET DEFAULT"), A_GONE, _key("g", "a"), None),
        (_key("a", "x"), A_TO_B, _key("g", "id"), None),  # which row that is, the target alone tells
        (_key("a", "x"), A_TO_B, _key("g h", "a id"), ({"g": "1"}, {"g": "2"})),
        (_key("a", "x"), A_TO_B, _key("h g", "id a"), None),  # no index begins with it
        # All rows of a tenant for one of its customers:
        (_key("a b", "x y"), ({"a": "1", "b": "5"}, None), _key("g h", "a id"), None),
        (_key("a b", "x y"), ({"a": "1", "b": "5"}, None), _key("g", "a"), ({"g": "1"}, None)),
        (_key("a b", "x y"), ({"a": "1", "b": "5"}, {"a": "1", "b": "6"}), _key("g", "a"), None),  # it stays
    ],
)
def test_values_are_handed_on_to_the_next_table_where_they_alone_tell_its_rows(
    key: ForeignKey, one: Pair, below: ForeignKey, wanted: Pair | None
) -> None:
    """Lost: rows of a third table: the row in between, by which alone they were looked for, was deleted meanwhile."""
    assert handed_on(key, one, below) == wanted


def test_a_row_that_the_log_says_was_another_one_changed_in_no_log() -> None:
    """Lost: rows below one that was inserted again, or changed by a statement, before its late marker had come."""

    def change(key: str, before: Row | None, after: Row | None) -> Change:
        op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
        return Change("s", "shop", "t", op, (key,), before, after, Coordinate(1, 1, 1, 0))

    def row(up: str) -> Row:
        return {"id": "1", "up": up, "v": up}

    one, other, third = map(row, ("4", "5", "6"))
    plain = change("1", one, {**one, "v": "7"})
    again, taken, update = change("1", None, other), change("1", other, None), change("1", other, third)
    cases: list[tuple[list[Change], Row | None, list[Told]]] = [
        ([plain], one, []),
        ([plain], {**one, "v": "0"}, []),  # of another column
        ([plain], None, []),
        ([again], None, []),
        ([again], one, [(one, None, again)]),
        ([again], other, [(other, None, again)]),
        ([taken], one, [(one, other, taken)]),
        ([update], one, [(one, other, update)]),
        ([plain, again, taken], one, [({**one, "v": "7"}, None, again)]),
        ([taken, again, update], other, []),
    ]
    for some, image, told in cases:
        images: Images = [] if image is None else [(("1",), image)]
        assert list(unlogged(by_key(some), images, {"id", "up"})) == told


IMAGE: Row = {"id": "1", "code": "x", "p": "4"}


MOVED = {**IMAGE, "p": "5"}


@pytest.mark.parametrize(
    ("rule", "pairs", "rows", "became"),
    [
        ("ON DELETE CASCADE", [({"p": "4"}, None)], [IMAGE], [None, IMAGE]),  # inserted again since
        ("ON DELETE SET NULL", [({"p": "4"}, None)], [{**IMAGE, "p": None}], [{**IMAGE, "p": None}] * 2),
        ("ON UPDATE SET NULL", [({"p": "4"}, {"p": "5"})], [], [{**IMAGE, "p": None}, None]),  # gone since
        ("ON UPDATE CASCADE", [({"p": "3"}, {"p": "9"}), ({"p": "4"}, {"p": "5"})], [MOVED], [MOVED, MOVED]),
        ("ON UPDATE CASCADE", [({"p": "a"}, {"p": "b"})], [], [{**IMAGE, "p": "b"}, None]),  # equal to the server alone
        ("ON UPDATE CASCADE", [({"p": "4"}, {"p": "5"})], [{**IMAGE, "p": "6"}], [MOVED, {**IMAGE, "p": "6"}, None]),
        ("", [], [], [None]),
        ("", [], [IMAGE], [IMAGE]),
        ("", [], [MOVED], [MOVED, None]),  # may have gone in between
    ],
)
def test_what_became_of_a_row_is_told_by_the_rule_or_else_by_what_the_source_has(
    rule: str, pairs: Sequence[tuple[Row, Row | None]], rows: Sequence[Row], became: Sequence[Row | None]
) -> None:
    if not rule:
        assert list(MarkerEffect().became(IMAGE, {"p"}, rows)) == list(became)
        return
    before = tuple(was for was, _ in pairs)
    after = tuple(now for _, now in pairs if now is not None)
    marker = Message("shop", "t", CASCADE, after or before, "s", 1, 1, 1, (0,) * len(pairs), sql=rule)
    meant = MarkerEffect.by([marker if not after else Message(**{**_fields(marker), "old": before})])
    assert list(meant.became(IMAGE, {"p"}, rows)) == list(became)


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in Message.__dataclass_fields__}


ONE_MIDDLE = KeysAlone({("s", "shop", "t"): [ForeignKey("up", ("v",), ("shop", "t"), ("id",), "CASCADE")]})
"""A history of one middle table."""


def test_what_stands_behind_a_marker_of_a_parent_waits_until_the_marker_is_settled() -> None:
    """Lost: a row that was inserted again took the place of the one that its children were found by."""
    plan = plan_of(plain_table())
    layouts = Layouts(ONE_MIDDLE, plan)
    layouts.refresh()
    cascades = Cascades(plan, layouts, None, None, Migration("m", ()), None)  # type: ignore[arg-type]

    def item(offset: int, number: int, kind: str, table: str = "t", rule: str = "ON DELETE CASCADE") -> Received:
        message = Message("shop", table, kind, ({"id": "1"},), "s", 1, 1, offset, (0,), sql=rule)
        return Received(Partition("m", "topic", number), offset, 1, message)

    batch = [
        *(item(0, 0, "INSERT"), item(1, 0, CASCADE), item(2, 1, "INSERT"), item(3, 0, CASCADE), item(4, 0, "UPDATE")),
        *(item(5, 0, "INSERT"), item(6, 0, CASCADE, "leaf"), item(7, 0, "INSERT", "leaf"), item(8, 0, CASCADE)),
        *(item(9, 0, "INSERT", "leaf"), item(10, 1, "UPDATE"), item(11, 0, "UPDATE"), item(12, 1, CASCADE)),
        item(13, 1, "DELETE"),
    ]
    assert [[one.offset for one in piece] for piece in cascades.rounds(batch)] == [
        [0, 1, 2, 3, 10, 12, 13],
        [4, 5, 6, 7, 8, 9],
        [11],
    ]

    for rule, pieces in (("ON DELETE CASCADE", 1), ("ON UPDATE CASCADE", 2), ("ON DELETE SET NULL", 2), ("", 2)):
        changed = [item(0, 0, CASCADE, rule=rule), item(1, 0, CASCADE), item(2, 0, "DELETE")]
        assert len(list(cascades.rounds(changed))) == pieces, rule
