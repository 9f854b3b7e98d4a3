"""Values the server cannot have written, and two ways to the same DECIMAL, without a server."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.publish.decode.column_types import NEWDECIMAL
from migrate.publish.decode.columns import codec_for
from migrate.publish.decode.compile import RowFunctions
from migrate.publish.decode.json_binary import json_text
from migrate.publish.decode.tablemap import ColumnMap
from migrate.publish.decode.text import (
    DECIMAL_BYTES,
    Texts,
    decimal_groups,
    decimal_text,
    fraction_text,
    inflate,
    time_text,
    uncompress,
)


@st.composite
def stored_decimals(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """Precision, scale and bytes, most of which no server would write."""
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 38)))
    before, after = decimal_groups(precision, scale)
    raw = b""
    for digits in before + after:
        number = draw(st.integers(0, 10**digits - 1 if draw(st.booleans()) else 256 ** DECIMAL_BYTES[digits] - 1))
        raw += number.to_bytes(DECIMAL_BYTES[digits], "big")
    positive = bytes([raw[0] | 0x80]) + raw[1:]
    return precision, scale, positive if draw(st.booleans()) else bytes(byte ^ 0xFF for byte in positive)


@settings(deadline=None)
@given(stored_decimals())
def test_the_compiled_decimal_equals_the_plain_one(stored: tuple[int, int, bytes]) -> None:
    precision, scale, raw = stored
    column = ColumnMap("d", NEWDECIMAL, bytes([precision, scale]), nullable=False)
    rows = RowFunctions([codec_for(column, {}, None)], [False])
    try:
        plain = decimal_text(raw, precision, scale)
    except ValueError:
        with pytest.raises((ValueError, LookupError)):
            rows[b"\0"](raw, 0)
        return

    assert rows[b"\0"](raw, 0) == ((plain,), len(raw))
    assert len(plain.lstrip("-").replace(".", "").lstrip("0")) <= precision
    assert len(plain.partition(".")[2]) == scale


@pytest.mark.parametrize(("fraction", "digits"), [(5, 1), (100, 2), (1234, 3), (10000, 4), (7, 5), (1_000_000, 6)])
def test_a_fraction_finer_or_larger_than_its_digits_is_refused(fraction: int, digits: int) -> None:
    with pytest.raises(ValueError, match="fraction"):
        fraction_text(fraction, digits)


@pytest.mark.parametrize("packed", [0x800000 + (839 << 12), 0x800000 + (60 << 6), 0x800000 + 60, 0x7FFFFF - 60])
def test_a_time_out_of_range_is_refused(packed: int) -> None:
    with pytest.raises(ValueError, match="holds the time"):
        time_text(packed, 0)


@pytest.mark.parametrize("raw", [b"\x91\x01x", b"\x80x", b"\x85\x00\x00\x00\x00\x00"])
def test_a_value_compressed_in_an_unknown_way_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="unknown way"):
        uncompress(raw)


def test_data_that_does_not_uncompress_to_its_length_is_refused() -> None:
    packed = zlib.compress(b"x" * 1000)
    assert inflate(packed, 1000) == b"x" * 1000
    for data, length in ((packed, 999), (packed, 1001), (packed[:-5], 1000), (packed + b"y", 1000)):
        with pytest.raises(ValueError, match="uncompress"):
            inflate(data, length)


def test_json_members_that_share_their_bytes_are_refused() -> None:
    """Each would be printed in full: the text could grow with the square of the document."""
    text = b"\x7f" + b"x" * 127
    alone = struct.pack("<HHBH", 1, 7 + len(text), 12, 7) + text
    shared = struct.pack("<HHBHBH", 2, 10 + len(text), 12, 10, 12, 10) + text

    assert json_text(b"\x02" + alone) == '["' + "x" * 127 + '"]'
    with pytest.raises(ValueError, match="malformed"):
        json_text(b"\x02" + shared)
    nested = struct.pack("<HHBHBH", 2, 10 + len(alone), 2, 10, 2, 10) + alone
    with pytest.raises(ValueError, match="malformed"):
        json_text(b"\x02" + nested)


def test_texts_are_made_once_and_forgotten_when_there_are_too_many() -> None:
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    texts = Texts(make, limit=3)
    assert [texts[number] for number in (1, 2, 3, 1, 2)] == ["1", "2", "3", "1", "2"]
    assert made == [1, 2, 3]
    assert texts[4] == "4"
    assert len(texts) == 1
