"""The message: what is written is what is read, and what is no message stops the reader."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import CANAL, Delay, Message, Op, encode
from migrate.model.message_reader import decode

NUMBERS = st.integers(0, 2**63 - 1)
ROWS = st.dictionaries(st.text(), st.none() | st.text(), max_size=4)
GOLDEN = (
    b'{"id":7,"database":"shop","table":"orders","pkNames":["id"],"isDdl":false,"type":"UPDATE","es":1700000000000,'
    b'"ts":1700000000001,"sql":"","sqlType":{"id":4},"mysqlType":{"id":"int(11)"},"layout":"0a1b2c3d4e5f","data":[{"id":"1","v":"\xc3\xa9\xf0\x9f'
    b'\x98\x80"},{"id":"2","v":null}],"old":[{"v":"a"},{"v":""}],"gtid":"0-1-2","pos":{"source":"main","inc":1,'
    b'"file":12,"tx":345,"rows":[0,2]},"delay":{"tier":1,"due":1700000600000,"database":"ds_1","table":"orders_3"}}'
)
MESSAGE = Message(
    database="shop",
    table="orders",
    type="UPDATE",
    data=({"id": "1", "v": "é😀"}, {"id": "2", "v": None}),
    old=({"v": "a"}, {"v": ""}),
    source="main",
    incarnation=1,
    file=12,
    transaction=345,
    rows=(0, 2),
    pk_names=("id",),
    mysql_type={"id": "int(11)"},
    layout="0a1b2c3d4e5f",
    id=7,
    es=1700000000000,
    ts=1700000000001,
    gtid="0-1-2",
    delay=Delay(1, 1700000600000, "ds_1", "orders_3"),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    data = tuple(draw(st.lists(ROWS, max_size=4)))
    kind = draw(st.sampled_from([*Op, "CREATE", "ERASE", ""]))
    pairs = st.lists(ROWS, min_size=len(data), max_size=len(data)).map(tuple)
    delay = st.builds(Delay, st.integers(0, 7), NUMBERS, st.text(min_size=1), st.text(min_size=1))
    return Message(
        database=draw(st.text(max_size=64)),
        table=draw(st.text(max_size=64)),
        type=str(kind),
        data=data,
        old=draw(st.none() | pairs) if kind is not Op.DELETE else None,
        source=draw(st.text(max_size=48)),
        incarnation=draw(st.integers(0, 2**31 - 1)),
        file=draw(NUMBERS),
        transaction=draw(NUMBERS),
        rows=tuple(draw(st.lists(NUMBERS, min_size=len(data), max_size=len(data)))),
        pk_names=tuple(draw(st.lists(st.text(), max_size=3))),
        mysql_type=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
        layout=draw(st.text()),
        id=draw(NUMBERS),
        es=draw(NUMBERS),
        ts=draw(NUMBERS),
        sql=draw(st.text()),
        gtid=draw(st.text()),
        is_ddl=draw(st.booleans()),
        delay=draw(st.none() | delay),
    )


@given(messages())
def test_what_is_encoded_is_decoded(message: Message) -> None:
    assert decode(encode(message), "t [0] @ 0", 0) == message


def test_the_bytes_on_the_wire_are_final() -> None:
    assert encode(MESSAGE) == GOLDEN
    assert decode(GOLDEN, "t [0] @ 0", 0) == MESSAGE


def test_the_coordinate_is_that_of_the_last_row() -> None:
    assert MESSAGE.coordinate == Coordinate(1, 12, 345, 2)
    assert list(MESSAGE.coordinates()) == [Coordinate(1, 12, 345, 0), Coordinate(1, 12, 345, 2)]
    assert replace(MESSAGE, data=(), old=(), rows=()).coordinate == Coordinate(1, 12, 345, 0)


def test_a_canal_message_is_ordered_by_its_offset() -> None:
    raw = {"database": "shop", "table": "orders", "type": "INSERT", "data": [{"id": "1"}, {"id": "2"}], "old": None}
    first = decode(json.dumps(raw).encode(), "t [0] @ 41", 41)
    later = decode(json.dumps(raw).encode(), "t [0] @ 42", 42)
    assert first.source == CANAL
    assert [tuple(at) for at in first.coordinates()] == [(0, 0, 41, 0), (0, 0, 41, 1)]
    assert max(first.coordinates()) < min(later.coordinates())


def changed(path: str, value: Any) -> bytes:
    """The golden message with one part replaced; `...` removes it."""
    body = json.loads(GOLDEN)
    *parents, last = path.split(".")
    at = body
    for part in parents:
        at = at[int(part)] if part.isdigit() else at[part]
    name: Any = int(last) if last.isdigit() else last
    if value is ...:
        del at[name]
    else:
        at[name] = value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="tombstone"),
        pytest.param(b"\x00\xff", id="no text"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"[" * 100_000, id="nested too deep"),
        pytest.param(GOLDEN[:-1], id="last byte missing"),
        pytest.param(GOLDEN + b"x", id="something behind"),
        pytest.param(GOLDEN.replace(b"\xc3\xa9", b"\xe9"), id="not UTF-8"),
        pytest.param(GOLDEN.replace(b"\xc3\xa9", b"\xed\xa0\x80"), id="UTF-8 of half a character"),
        pytest.param(GOLDEN.replace(b"\xc3\xa9", b"\\ud800"), id="half a character"),
        pytest.param(GOLDEN.replace(b"\xc3\xa9", b"\\udc80"), id="the other half"),
        pytest.param(GOLDEN.replace(b'"v":"a"', b'"\\ud800":"a"'), id="half a character in a name"),
        pytest.param(changed("type", ...), id="no type"),
        pytest.param(changed("database", ...), id="no database"),
        pytest.param(changed("table", ...), id="no table"),
        pytest.param(changed("database", None), id="database null"),
        pytest.param(changed("table", 5), id="table a number"),
        pytest.param(changed("type", None), id="type null"),
        pytest.param(changed("data", {"id": "1"}), id="data a row"),
        pytest.param(changed("data", "rows"), id="data a text"),
        pytest.param(changed("data", ["id"]), id="rows of text"),
        pytest.param(changed("data.0.id", 1), id="value a number"),
        pytest.param(changed("data.0.id", True), id="value a truth"),
        pytest.param(changed("data.0.id", ["1"]), id="value a list"),
        pytest.param(changed("old", [{"v": "a"}]), id="old shorter than data"),
        pytest.param(changed("old", [{"v": 1}, {}]), id="old value a number"),
        pytest.param(changed("old", 3), id="old a number"),
        pytest.param(changed("pos", {}), id="empty pos"),
        pytest.param(changed("pos", "x"), id="pos a text"),
        pytest.param(changed("pos.rows", ...), id="no ordinals"),
        pytest.param(changed("pos.rows", [0]), id="an ordinal too few"),
        pytest.param(changed("pos.rows", [0, None]), id="ordinal null"),
        pytest.param(changed("pos.rows", [0, 2.5]), id="ordinal a fraction"),
        pytest.param(changed("pos.rows", "02"), id="ordinals a text"),
        pytest.param(changed("pos.tx", 1e999), id="endless transaction"),
        pytest.param(changed("pos.tx", "1_0"), id="transaction a text"),
        pytest.param(changed("pos.tx", -1), id="transaction below zero"),
        pytest.param(changed("pos.tx", 2**64), id="transaction above 64 bits"),
        pytest.param(changed("pos.file", True), id="file a truth"),
        pytest.param(changed("pos.inc", None), id="incarnation null"),
        pytest.param(changed("pos.inc", 2**31), id="incarnation above 31 bits"),
        pytest.param(changed("pos.source", None), id="source null"),
        pytest.param(changed("pos.source", "m" * 49), id="source longer than a name"),
        pytest.param(changed("database", "d" * 65), id="database longer than a name"),
        pytest.param(changed("table", "t" * 65), id="table longer than a name"),
        pytest.param(changed("type", "U" * 65), id="type longer than a name"),
        pytest.param(changed("delay.tier", "one"), id="tier a text"),
        pytest.param(changed("delay.tier", -1), id="tier below zero"),
        pytest.param(changed("delay.due", ...), id="no due time"),
        pytest.param(changed("delay.table", None), id="delay without place"),
        pytest.param(changed("delay", [1]), id="delay a list"),
        pytest.param(changed("es", "soon"), id="time a text"),
        pytest.param(changed("es", 1e400), id="endless time"),
        pytest.param(b'{"id":' + b"9" * 5000 + b"}", id="a number of 5000 digits"),
    ],
)
def test_what_is_no_message_stops_and_says_where(raw: bytes) -> None:
    """Lost: the consumer, at each start anew, by a message that raised another error than a stop."""
    with pytest.raises(StopError) as caught:
        decode(raw, "orders [3] @ 17", 17)
    assert "orders [3] @ 17" in caught.value.message
    assert caught.value.hint


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    *json.loads(GOLDEN),
    *(f"pos.{name}" for name in ("source", "inc", "file", "tx", "rows", "rows.0")),
    *(f"delay.{name}" for name in ("tier", "due", "database", "table")),
    *("data.0", "data.0.id", "data.1.v", "old.0", "old.1.v", "pkNames.0", "mysqlType.id"),
]


@given(st.binary() | JSONS.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_message_or_a_stop(raw: bytes) -> None:
    with contextlib.suppress(StopError):
        assert isinstance(decode(raw, "t [0] @ 0", 0), Message)


@given(st.sampled_from(PATHS), JSONS | st.just(...))
def test_a_message_with_any_one_part_replaced_is_a_message_or_a_stop(path: str, value: Any) -> None:
    try:
        message = decode(changed(path, value), "t [0] @ 0", 0)
    except StopError:
        return
    assert len(message.rows) == len(message.data)
    for row in (*message.data, *(message.old or ())):
        assert all(text is None or isinstance(text, str) for text in row.values())
    encode(message)  # whatever is taken in can be passed on
