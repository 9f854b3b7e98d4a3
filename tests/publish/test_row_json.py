"""Rows written straight from their bytes say what their decoded texts say, whatever the layout and the values."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest
from decode_support import both_ways, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrate.publish.decode import column_types as types
from migrate.publish.decode.rows import RowDecoder, compile_table
from migrate.publish.decode.tablemap import ColumnMap, TableMap

CHARSETS = {45: "utf8mb4", 63: "binary", 8: "latin1"}
NAMES = (
    "id",
    "a b",
    "o'c",
    'q"u',
    "back\\slash",
    "{brace}",
    "new\nline",
    "größe",
    "列",
    "🎁",
    "%d",
    "\\x41",
    "\\N{DASH}",
)


@dataclass(frozen=True)
class Shape:
    """A column type, and bytes its values may have."""

    type: int
    raw: st.SearchStrategy[bytes]
    metadata: bytes = b""
    more: tuple[tuple[str, Any], ...] = ()


def packed(layout: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return value.map(lambda number: struct.pack(layout, number))


def counted(prefix: int, raw: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return raw.map(lambda value: len(value).to_bytes(prefix, "little") + value)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12).map(lambda text: text.encode())
BYTES = st.binary(max_size=12) | st.sampled_from([b"a", b"a\0", b"a\0\0"])
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0])
JSON = st.sampled_from(
    [b"", b"\x04\x00", b"\x05\xff\xff", b'\x0c\x03a"b', bytes.fromhex("0002001600120001001300010005ffff0c140061620178")]
)
SHAPES = (
    Shape(types.LONG, st.binary(min_size=4, max_size=4), more=(("unsigned", False),)),
    Shape(types.LONGLONG, st.binary(min_size=8, max_size=8), more=(("unsigned", True),)),
    Shape(types.INT24, st.binary(min_size=3, max_size=3), more=(("unsigned", False),)),
    Shape(types.TINY, st.binary(min_size=1, max_size=1), more=(("unsigned", False),)),
    Shape(types.DOUBLE, packed("<d", DOUBLES), b"\x08"),
    Shape(types.NEWDECIMAL, st.binary(min_size=6, max_size=6), bytes([12, 2])),
    Shape(types.BIT, st.binary(min_size=2, max_size=2), bytes([3, 1])),
    Shape(types.SET, st.binary(min_size=2, max_size=2), bytes([2, 0])),
    Shape(types.YEAR, st.binary(min_size=1, max_size=1)),
    Shape(types.DATE, packed("<I", st.integers(0, 9999 << 9 | 12 << 5 | 31)).map(lambda raw: raw[:3])),
    Shape(types.DATETIME2, st.sampled_from([bytes.fromhex("99b8420000"), bytes.fromhex("8000000000")]), b"\0"),
    Shape(types.TIMESTAMP2, st.binary(min_size=4, max_size=4).map(lambda raw: raw + b"\x04\xd2"), b"\x03"),
    Shape(types.TIME2, st.binary(min_size=3, max_size=3), b"\0"),
    Shape(types.VARCHAR, counted(1, TEXT), bytes([200, 0]), (("collation", 45),)),
    Shape(types.VARCHAR, counted(2, TEXT), bytes([0, 4]), (("collation", 45),)),
    Shape(types.VARCHAR, counted(1, BYTES), bytes([200, 0]), (("collation", 45),)),
    Shape(types.BLOB, counted(2, BYTES), b"\x02", (("collation", 63),)),
    Shape(types.STRING, counted(1, BYTES), bytes([20, 0]), (("collation", 63),)),
    Shape(types.STRING, counted(1, BYTES), bytes([20, 0]), (("collation", 8),)),
    Shape(
        types.VARCHAR_COMPRESSED,
        counted(1, st.sampled_from([b"", b"\0x", b"\0yy"])),
        bytes([200, 0]),
        (("collation", 8),),
    ),
    Shape(types.JSON, counted(4, JSON), b"\x04"),
)
KEY = Shape(types.LONG, packed("<i", st.integers(0, 5)), more=(("unsigned", False),))


def decoder_of(shapes: list[Shape]) -> RowDecoder:
    columns = tuple(
        ColumnMap(
            name=f"{NAMES[index % len(NAMES)]}{index // len(NAMES) or ''}",
            type=shape.type,
            metadata=shape.metadata,
            nullable=index > 0,
            **dict(shape.more),
        )
        for index, shape in enumerate(shapes)
    )
    return compile_table(TableMap(1, "d'b", 't"é', columns), CHARSETS)


Row = list[bytes | None]


@st.composite
def rows(draw: st.DrawFn, shapes: list[Shape]) -> Row:
    """Each column's bytes, None for NULL; the key is never NULL."""
    nulls = draw(st.just(0) | st.integers(0, (1 << len(shapes)) - 1))
    return [None if nulls >> index & 1 and index else draw(shape.raw) for index, shape in enumerate(shapes)]


@st.composite
def changed(draw: st.DrawFn, shapes: list[Shape], before: Row, *, key_too: bool) -> Row:
    """A row in which some columns have other values, or none."""
    other = draw(rows(shapes))
    kept = draw(st.integers(0, (1 << len(shapes)) - 1)) | (0 if key_too else 1)
    return [old if kept >> index & 1 else new for index, (old, new) in enumerate(zip(before, other, strict=True))]


def image(row: Row) -> bytes:
    nulls = sum(1 << index for index, value in enumerate(row) if value is None)
    return nulls.to_bytes((len(row) + 7) // 8, "little") + b"".join(value for value in row if value is not None)


def event_body(width: int, images_a_row: int, rows: bytes) -> bytes:
    present = ((1 << width) - 1).to_bytes((width + 7) // 8, "little")
    return b"\x01\0\0\0\0\0\x01\0\x02\0" + bytes([width]) + present * images_a_row + rows


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_an_event_of_any_layout_and_values_makes_the_same_bytes_both_ways(data: st.DataObject) -> None:
    shapes = [KEY, *data.draw(st.lists(st.sampled_from(SHAPES), max_size=18))]
    kind = data.draw(st.sampled_from([30, 31, 32]))
    count = data.draw(st.integers(1, 6))
    decoder = decoder_of(shapes)
    found = []
    for _ in range(count):
        row = data.draw(rows(shapes))
        found.append(image(row))
        if kind == 31:
            found.append(image(data.draw(changed(shapes, row, key_too=True))))
    body = event_body(len(shapes), 2 if kind == 31 else 1, b"".join(found))

    fast, slow = both_ways(decoder, kind, body, key=("id",), limit=data.draw(st.sampled_from([2500, 1_000_000])))

    if isinstance(slow, str):
        assert fast is None
    elif fast is not None:
        assert fast == slow


def test_both_ways_halve_an_event_at_the_same_size() -> None:
    """Six rows at a limit that one way's bytes reached and the other's did not."""
    shapes = [KEY, *[SHAPES[0]] * 10]
    key, zero = struct.pack("<i", 0), struct.pack("<i", 0)
    rows = [image([key, *[None] * 6, *[zero] * 4])] * 2 + [image([key, *[zero] * 10])] * 4
    halved = set()
    for limit in range(2300, 2700):
        fast, slow = both_ways(decoder_of(shapes), 30, event_body(11, 1, b"".join(rows)), key=("id",), limit=limit)
        assert fast == slow, limit
        halved.add(len(read(fast)))
    assert halved == {1, 2}


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_that_change_no_key_take_the_fast_path(data: st.DataObject) -> None:
    """Else the test above could pass without it."""
    shapes = [KEY, *data.draw(st.lists(st.sampled_from(SHAPES), max_size=12))]
    decoder = decoder_of(shapes)
    kind = data.draw(st.sampled_from([30, 31, 32]))
    found = []
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(rows(shapes))
        found.append(image(row))
        if kind == 31:
            found.append(image(data.draw(changed(shapes, row, key_too=False))))

    fast, slow = both_ways(decoder, kind, event_body(len(shapes), 2 if kind == 31 else 1, b"".join(found)), key=("id",))

    assert (fast is None) == isinstance(slow, str)
    assert fast is None or fast == slow


@pytest.mark.parametrize("kind", [30, 31, 32])
def test_more_layouts_of_nulls_than_functions_are_made_for_still_come_out(kind: int) -> None:
    shapes = [KEY, *[SHAPES[0]] * 9]
    decoder = decoder_of(shapes)
    found = b""
    for nulls in range(0, 1024, 2):
        row = image([None if nulls >> index & 1 else struct.pack("<I", 3) for index in range(10)])
        found += row * (2 if kind == 31 else 1)

    fast, slow = both_ways(decoder, kind, event_body(10, 2 if kind == 31 else 1, found), key=("id",))

    assert fast is None
    assert sum(len(message.data) for message in read(slow)) == 512


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_event_that_ends_early_is_left_to_the_decoder_which_refuses_it(cut: int) -> None:
    shapes = [KEY, SHAPES[13], SHAPES[1]]
    body = event_body(3, 1, b"\0" + struct.pack("<I", 3) + b"\x02ab" + b"\x01" * 8)
    fast, slow = both_ways(decoder_of(shapes), 30, body[:-cut], key=("id",))
    assert fast is None
    assert isinstance(slow, str)


def test_a_zero_that_gets_a_sign_is_a_change() -> None:
    key = struct.pack("<I", 3)
    body = event_body(2, 2, image([key, struct.pack("<d", 0.0)]) + image([key, struct.pack("<d", -0.0)]))
    fast, slow = both_ways(decoder_of([KEY, SHAPES[4]]), 31, body, key=("id",))
    assert fast == slow
    assert read(fast)[0].old == ({"a b": "0.0"},)
