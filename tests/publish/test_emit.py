"""Decoded rows become messages: partitions, ordinals, key changes, sizes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.change import changes, partition_of
from migrate.model.coordinate import ordinal
from migrate.model.errors import StopError
from migrate.model.message import Message, Op
from migrate.model.message_reader import decode
from migrate.model.rowfilter import Comparison, make_filter
from migrate.model.table import Table
from migrate.publish.emit import Emitter, Image, Transaction
from migrate.state.oversized import Oversized
from tests.helpers import plain_table

TRANSACTION = Transaction("s", 1, 12, 345, "0-1-2", 1_700_000_000_000)
PARTITIONS = 8
Rows = list[tuple[Image | None, Image | None]]


def emitted(
    rows: Rows, *, event: int = 0, table: Table | None = None, limit: int = 100_000
) -> list[tuple[int, Message]]:
    emitter = Emitter(table or plain_table(), PARTITIONS, limit)
    return [(partition, decode(raw, "t", 0)) for partition, raw in emitter.messages(TRANSACTION, event, rows)]


def home(key: str) -> int:
    return partition_of("shop", "t", (key,), PARTITIONS)


def same_partition(count: int) -> list[str]:
    """Keys that share a partition."""
    found = [str(number) for number in range(1000) if home(str(number)) == home("0")]
    return found[:count]


def test_an_insert_carries_everything_a_consumer_needs() -> None:
    ((partition, message),) = emitted([(None, ("1", "2", "x"))])
    assert partition == home("1")
    assert replace(message, ts=0) == Message(
        database="shop",
        table="t",
        type="INSERT",
        data=({"id": "1", "shard": "2", "v": "x"},),
        source="s",
        incarnation=1,
        file=12,
        transaction=345,
        rows=(0,),
        pk_names=("id",),
        layout=plain_table().layout,
        es=1_700_000_000_000,
        gtid="0-1-2",
    )


def test_an_update_names_only_what_changed_and_keeps_null_apart_from_empty() -> None:
    ((_, message),) = emitted([(("1", "2", None), ("1", "2", ""))])
    assert (message.type, message.data, message.old) == (
        "UPDATE",
        ({"id": "1", "shard": "2", "v": ""},),
        ({"v": None},),
    )


def test_a_delete_carries_the_before_image() -> None:
    ((_, message),) = emitted([(("1", "2", "x"), None)])
    assert (message.type, message.data, message.old) == ("DELETE", ({"id": "1", "shard": "2", "v": "x"},), None)


def test_rows_of_one_partition_travel_together_with_two_ordinals_a_row() -> None:
    first, second, third = same_partition(3)
    ((partition, message),) = emitted([(None, (key, "0", "x")) for key in (first, second, third)], event=2)
    assert partition == home("0")
    assert [row["id"] for row in message.data] == [first, second, third]
    assert message.rows == (2 * 2**32, 2 * 2**32 + 2, 2 * 2**32 + 4)


def test_an_update_of_the_key_is_a_delete_and_an_insert_each_in_its_keys_partition() -> None:
    moved_to = next(str(number) for number in range(1, 100) if home(str(number)) != home("0"))
    rows: Rows = [(("7", "0", "x"), ("7", "0", "y")), (("0", "0", "a"), (moved_to, "0", "b"))]
    found = {(message.type, partition): message for partition, message in emitted(rows)}
    gone, new = found[("DELETE", home("0"))], found[("INSERT", home(moved_to))]
    assert (gone.data, gone.rows) == (({"id": "0", "shard": "0", "v": "a"},), (2,))
    assert (new.data, new.rows) == (({"id": moved_to, "shard": "0", "v": "b"},), (3,))


def test_a_chain_of_key_changes_keeps_its_order_within_each_partition() -> None:
    one, two, three = same_partition(3)
    rows: Rows = [((two, "0", "b"), (three, "0", "b")), ((one, "0", "a"), (two, "0", "a"))]
    found = emitted(rows)
    assert {partition for partition, _ in found} == {home(one)}
    steps = [
        (message.type, row["id"], at)
        for _, message in found
        for row, at in zip(message.data, message.rows, strict=True)
    ]
    assert steps == [("DELETE", two, 0), ("INSERT", three, 1), ("DELETE", one, 2), ("INSERT", two, 3)]


def test_a_change_of_a_composite_keys_one_part_is_a_key_change() -> None:
    table = plain_table(key=("id", "shard"))
    found = emitted([(("1", "2", "x"), ("1", "3", "x"))], table=table)
    assert [(message.type, message.rows) for _, message in found] == [("DELETE", (0,)), ("INSERT", (1,))]
    found = emitted([(("1", "2", "x"), ("1", "2", "y"))], table=table)
    assert [message.type for _, message in found] == ["UPDATE"]


def test_a_table_with_further_unique_keys_has_one_partition() -> None:
    table = plain_table(unique_keys=(("v",),))
    found = emitted([(None, (str(number), "0", str(number))) for number in range(50)], table=table)
    assert [partition for partition, _ in found] == [partition_of("shop", "t", None, PARTITIONS)]
    spread = emitted([(None, (str(number), "0", str(number))) for number in range(50)])
    assert {partition for partition, _ in spread} == set(range(PARTITIONS))


def test_a_key_that_only_the_server_can_compare_has_one_partition() -> None:
    table = plain_table(key=("v",))
    found = emitted([(None, ("1", "0", "ABC")), (None, ("1", "0", "abc"))], table=table)
    assert [partition for partition, _ in found] == [partition_of("shop", "t", None, PARTITIONS)]


def test_a_message_above_the_limit_is_halved_and_halved_again() -> None:
    keys = same_partition(40)
    rows: Rows = [(None, (key, "0", "x" * 100)) for key in keys]
    raw = list(Emitter(plain_table(), PARTITIONS, 3000).messages(TRANSACTION, 0, rows))
    assert len(raw) >= 4
    assert max(len(value) for _, value in raw) <= 3000 - 1024
    found = [(partition, decode(value, "t", 0)) for partition, value in raw]
    assert [row["id"] for _, message in found for row in message.data] == keys
    assert [at for _, message in found for at in message.rows] == [2 * index for index in range(40)]


def test_halves_of_an_update_keep_their_own_old_rows() -> None:
    keys = same_partition(9)
    rows: Rows = [((key, "0", f"old {key}"), (key, "0", "x" * 300)) for key in keys]
    found = emitted(rows, limit=3000)
    assert len(found) > 2
    for _, message in found:
        assert message.old is not None
        for row, old in zip(message.data, message.old, strict=True):
            assert old == {"v": f"old {row['id']}"}


def test_a_row_above_the_limit_stops_and_is_named() -> None:
    with pytest.raises(StopError) as caught:
        emitted([(None, ("1", "0", "a")), (None, ("42", "0", "x" * 5000))], limit=3000)
    assert 'shop.t key ["42"] at (1, 12, 345, 2)' in caught.value.message
    assert "kafka.max_message_bytes" in caught.value.message
    assert "xxx" not in str(caught.value)


def test_a_row_without_its_key_stops() -> None:
    with pytest.raises(StopError, match=r"shop\.t: key column id is missing or NULL"):
        emitted([(None, (None, "0", "a"))])


KEYS = st.integers(0, 5).map(str)
IMAGES = st.tuples(KEYS, KEYS, st.none() | st.text(max_size=5))
EVENTS = st.lists(
    st.lists(
        st.one_of(IMAGES.map(lambda new: (None, new)), IMAGES.map(lambda old: (old, None)), st.tuples(IMAGES, IMAGES)),
        min_size=1,
        max_size=6,
    ),
    max_size=4,
)


@given(EVENTS, st.integers(1, 4), st.integers(1500, 3000))
def test_within_a_partition_coordinates_only_rise_and_nothing_is_lost(
    events: list[Rows], partitions: int, limit: int
) -> None:
    emitter = Emitter(plain_table(), partitions, limit)
    highest: dict[int, tuple[int, ...]] = defaultdict(tuple)
    by_key: dict[str, list[tuple[Op, Image | None]]] = defaultdict(list)
    for number, rows in enumerate(events):
        for partition, raw in emitter.messages(TRANSACTION, number, rows):
            for change in changes(decode(raw, "t", 0), ("id",)):
                assert partition == partition_of("shop", "t", change.key, partitions)
                assert tuple(change.coordinate) > highest[partition]
                highest[partition] = tuple(change.coordinate)
                image = tuple(change.after.values()) if change.after is not None else None
                by_key[change.key[0]].append((change.op, image))
    expected: dict[str, list[tuple[Op, Image | None]]] = defaultdict(list)
    for rows in events:
        for before, after in rows:
            if before is not None and after is not None and before[0] == after[0]:
                expected[str(after[0])].append((Op.UPDATE, tuple(after)))
                continue
            if before is not None:
                expected[str(before[0])].append((Op.DELETE, None))
            if after is not None:
                expected[str(after[0])].append((Op.INSERT, tuple(after)))
    assert by_key == expected


def test_with_row_conditions_both_images_decide_and_ordinals_stay() -> None:
    kept = make_filter(plain_table(), [("shard", Comparison.BELOW, [10])])
    emitter = Emitter(plain_table(), 1, 100_000, kept)
    changes = [
        (("1", "1", "a"), ("1", "2", "a")),  # stays in
        (("2", "1", "a"), ("2", "10", "a")),  # leaves
        (("3", "10", "a"), ("3", "1", "a")),  # comes in
        (("4", "10", "a"), ("4", "11", "a")),  # stays out
        (("5", "1", "a"), ("6", "10", "a")),  # leaves under another key
        (None, ("7", "10", "a")),
        (("8", "9", "a"), None),
    ]
    found = [
        (message.type, row["id"], place)
        for message in (decode(raw, "t", 0) for _, raw in emitter.messages(TRANSACTION, 0, changes))
        for row, place in zip(message.data, message.rows, strict=True)
    ]
    assert found == [
        ("UPDATE", "1", 0),
        ("DELETE", "2", 2),
        ("INSERT", "3", 4),
        ("DELETE", "5", 8),
        ("DELETE", "8", 12),
    ]


def test_a_row_above_the_limit_can_be_left_out_and_named() -> None:
    left_out: list[Oversized] = []
    emitter = Emitter(plain_table(), 1, 2_000, park=left_out.append)
    changes = [(None, ("1", "0", "a")), (None, ("2", "0", "x" * 2_000)), (None, ("3", "0", "c"))]
    found = [decode(raw, "t", 0) for _, raw in emitter.messages(TRANSACTION, 7, changes)]
    assert [row["id"] for message in found for row in message.data] == ["1", "3"]
    (row,) = left_out
    assert (row.source, row.database, row.table, row.operation, row.key) == ("s", "shop", "t", "INSERT", '["2"]')
    assert row.coordinate == (1, 12, 345, ordinal(7, 1, 0))
    assert row.size > 2_000


def test_an_update_that_is_left_out_and_moves_its_row_still_takes_it_from_where_it_was() -> None:
    left_out: list[Oversized] = []
    emitter = Emitter(plain_table(), 1, 2_000, routing=["shard"], park=left_out.append)
    large = "x" * 2_000
    changes = [
        (("1", "0", "a"), ("1", "5", large)),
        (("2", "0", "a"), ("2", "0", large)),  # stays; the target keeps the older version
        (("3", "0", large), ("4", "0", large)),  # another key: the delete goes anyhow
        (("5", "0", "a"), ("5", "0", "b")),
    ]
    found = [decode(raw, "t", 0) for _, raw in emitter.messages(TRANSACTION, 7, changes)]
    assert [(message.type, message.data, message.rows) for message in found] == [
        ("DELETE", ({"id": "1", "shard": "0"},), (ordinal(7, 0, 0),)),
        ("DELETE", ({"id": "3", "shard": "0"},), (ordinal(7, 2, 0),)),
        ("UPDATE", ({"id": "5", "shard": "0", "v": "b"},), (ordinal(7, 3, 0),)),
    ]
    assert [(row.operation, row.key) for row in left_out] == [
        ("UPDATE", '["1"]'),
        ("UPDATE", '["2"]'),
        ("INSERT", '["4"]'),
    ]


def test_a_single_row_above_the_limit_goes_without_what_no_consumer_needs() -> None:
    large = "x" * 1_200
    emitter = Emitter(plain_table(), 1, 2_500, routing=["shard"])
    changes = [(("1", "0", large), ("1", "5", "small")), (("2", "1", large * 2), None)]
    update, delete = (decode(raw, "t", 0) for _, raw in emitter.messages(TRANSACTION, 0, changes))
    assert (update.data, update.old) == (({"id": "1", "shard": "5", "v": "small"},), ({"shard": "0"},))
    assert (delete.type, delete.data) == ("DELETE", ({"id": "2", "shard": "1"},))
    with pytest.raises(StopError, match=r'\["3"\] .* above kafka.max_message_bytes'):
        list(emitter.messages(TRANSACTION, 0, [(None, ("3", "1", large * 2))]))
