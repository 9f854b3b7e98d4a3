"""Objects that are read by a function of their shape say what the general way says, also when they are damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrate.publish.decode import json_binary, json_shapes
from migrate.publish.decode.json_binary import json_text

_WIDTHS = {7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}


def inline(value: Any) -> tuple[int, int] | None:
    """(type, entry) of a value that sits in its entry."""
    if value is None or isinstance(value, bool):
        return 4, {None: 0, True: 1, False: 2}[value]
    if isinstance(value, int) and -(2**15) <= value < 2**16:
        return (5, value & 0xFFFF) if value < 2**15 else (6, value)
    return None


def apart(value: Any) -> tuple[int, bytes]:
    """(type, bytes) of a value that its entry points to."""
    if isinstance(value, dict):
        return 0, small_object(value)
    if isinstance(value, str):
        raw = value.encode()
        length = bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) & 127 | 128, len(raw) >> 7])
        return 12, length + raw
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    kind = 7 if -(2**31) <= value < 2**31 else 8 if 0 <= value < 2**32 else 9 if value < 2**63 else 10
    return kind, struct.pack(_WIDTHS[kind], value)


def small_object(document: dict[str, Any]) -> bytes:
    """As MySQL writes it (json_binary.h), without the type byte."""
    names = sorted((name.encode() for name in document), key=lambda name: (len(name), name))
    at = 4 + 7 * len(names)
    keys = b""
    for name in names:
        keys += struct.pack("<HH", at, len(name))
        at += len(name)
    entries, values = b"", b""
    for name in names:
        value = document[name.decode()]
        found = inline(value)
        if found is None:
            kind, raw = apart(value)
            found = kind, at + len(values)
            values += raw
        entries += struct.pack("<BH", *found)
    size = at + len(values)
    return struct.pack("<HH", len(names), size) + keys + entries + b"".join(names) + values


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([-32769, -32768, -1, 0, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, -(2**31)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=9)
    | st.sampled_from(["x" * 127, "y" * 128, "é" * 70])
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
OBJECTS = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=4), lambda inner: st.dictionaries(NAMES, SCALARS | inner, max_size=3)
)


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> json_shapes.Shapes:
    """Empty, with a function for every shape from its first document on."""
    monkeypatch.setattr(json_shapes, "_OFTEN", 1)
    json_binary._shapes._seen.clear()
    json_binary._readers.clear()
    return json_binary._shapes


def outcome(read: Callable[[bytes], str], data: bytes) -> str | None:
    try:
        return read(data)
    except ValueError:
        return None


def generally(data: bytes) -> str | None:
    """What is read without any function of a shape."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_binary, "_SHAPED", 0)
        return outcome(json_text, data)


@given(document=OBJECTS, others=st.lists(SCALARS, max_size=4))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shape_that_is_known_reads_as_the_general_way_does(
    shapes: json_shapes.Shapes, document: dict[str, Any], others: list[Any]
) -> None:
    """The second document has the same keys and values of other types."""
    second = {**document, **dict(zip(document, others, strict=False))}
    for data in (b"\0" + small_object(document), b"\0" + small_object(document), b"\0" + small_object(second)):
        expected = generally(data)
        assert expected is not None
        assert json_text(data) == expected
    if document:
        assert shapes.readers


@given(
    document=st.dictionaries(NAMES, SCALARS, min_size=1, max_size=4),
    damage=st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 255)) | st.tuples(st.just(3), st.integers(10, 80)),
        min_size=1,
        max_size=3,
    ),
    cut=st.integers(0, 3),
)
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_document_of_a_known_shape_is_refused_like_any_other(
    shapes: json_shapes.Shapes, document: dict[str, Any], damage: list[tuple[int, int]], cut: int
) -> None:
    whole = b"\0" + small_object(document)
    json_text(whole)
    assert shapes.readers
    damaged = bytearray(whole[: len(whole) - cut])
    for at, byte in damage:
        damaged[at % len(damaged) or 1] = byte
    assert outcome(json_text, bytes(damaged)) == generally(bytes(damaged))


@pytest.mark.parametrize("value", ["text", 70_000, 1.5, {"k": "v"}])
@pytest.mark.parametrize("less", range(1, 9))
def test_a_value_that_leaves_its_object_is_refused(shapes: json_shapes.Shapes, value: Any, less: int) -> None:
    """The object's size is made smaller; the bytes are all there."""
    whole = b"\0" + small_object({"a": 1, "b": value})
    json_text(whole)
    assert shapes.readers
    size = int.from_bytes(whole[3:5], "little")
    damaged = whole[:3] + (size - less).to_bytes(2, "little") + whole[5:]
    with pytest.raises(ValueError, match="malformed JSON"):
        json_text(damaged)
    assert generally(damaged) is None


def test_a_shape_gets_its_function_only_when_it_is_met_often() -> None:
    json_binary._shapes._seen.clear()
    json_binary._readers.clear()
    data = b"\0" + small_object({"met": 1, "often": "x"})
    for _ in range(json_shapes._OFTEN - 1):
        json_text(data)
    assert not json_binary._readers
    json_text(data)
    assert json_binary._readers
    assert json_text(data) == '{"met": 1, "often": "x"}'


def test_ever_new_shapes_do_not_fill_the_memory(shapes: json_shapes.Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_shapes, "_SHAPES", 10)
    monkeypatch.setattr(json_shapes, "_SEEN", 20)
    for number in range(100):
        data = b"\0" + small_object({"k" * (number + 1): number})
        assert json_text(data) == f'{{"{"k" * (number + 1)}": {number}}}'
        assert json_text(data) == f'{{"{"k" * (number + 1)}": {number}}}'
    assert len(shapes.readers) <= 10
    assert len(shapes._seen) <= 20
