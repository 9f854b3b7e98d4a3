"""MySQL's binary JSON to its canonical text: what MySQL prints for it (``CAST(j AS CHAR)``), with white space before
each scalar whose type that text does not show (``migrate.mysql.typed_json``).

Format: MySQL's ``sql-common/json_binary.h``; text: ``Json_wrapper::to_string`` in ``json_dom.cc``. Keys keep
their stored order (by length, then bytes), doubles keep a ``.0``, decimals and temporal values inside print
as MySQL prints them, other opaque values as ``base64:type15:…``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from operator import add
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final

from migrate.mysql.typed_json import DECIMAL, INTEGER, OPAQUE, TIMESTAMP, UNSIGNED_FROM
from migrate.publish.decode import column_types as types
from migrate.publish.decode.json_shapes import Shapes
from migrate.publish.decode.text import clock_text, day_text, decimal_text

_MALFORMED: Final = "holds malformed JSON"
_MAX_DEPTH: Final = 100  # JSON_DOCUMENT_MAX_DEPTH
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _DOUBLE, _STRING, _OPAQUE = 4, 5, 6, 7, 8, 11, 12, 15
_INT_BYTES: Final = {5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8}  # odd types are signed
_KEPT: Final = 64  # members an object may have for its shape to be kept for the next document
_KEPT_BYTES: Final = 4096
_SHAPED: Final = 32  # members an object may have to be read by a function of its own
_BASE64_LINE: Final = 76
_SMALL_HEAD, _LARGE_HEAD = Struct("<HH").unpack_from, Struct("<II").unpack_from
_LAYOUTS: Final = (
    (4, _SMALL_HEAD, 4, 3),
    (8, _LARGE_HEAD, 6, 5),
    (4, _SMALL_HEAD, 0, 3),
    (8, _LARGE_HEAD, 0, 5),
)
"""By type of container: bytes of its count and size, their reader, bytes of a key entry and a value entry."""
_KEY_ENTRY: Final = (Struct("<HH"), Struct("<IH"))
_unpack_double: Final = Struct("<d").unpack

_quote: Callable[[str], str] = encode_basestring


def json_text(data: bytes) -> str:
    """The text of one binary JSON document; ValueError when it is malformed.

    No bytes at all is what ``ALTER TABLE … ADD j JSON NOT NULL`` leaves in existing rows: MySQL prints null.
    """
    if not data:
        return "null"
    kind = data[0]
    try:
        text, used = _container(data, kind, 1, 1) if kind <= 3 else _value(data, kind, 1, 0)
    except (IndexError, KeyError, StructError) as error:
        raise ValueError(_MALFORMED) from error
    if used > len(data) - 1:
        raise ValueError("holds JSON that ends early")
    return text


def _value(data: bytes, kind: int, at: int, depth: int) -> tuple[str, int]:
    """The text of the value of type ``kind`` at ``at``, and how many bytes it takes there."""
    if kind == _STRING:
        size, start = _length(data, at)
        return _quote(_slice(data, start, size).decode()), start + size - at
    if kind <= 3:
        return _container(data, kind, at, depth + 1)
    if kind in _INT_BYTES:
        size = _INT_BYTES[kind]
        number = int.from_bytes(_slice(data, at, size), "little", signed=kind % 2 == 1)
        unsigned = kind % 2 == 0
        return (str(number) if unsigned is (number >= UNSIGNED_FROM) else f"{INTEGER}{number}"), size
    if kind == _DOUBLE:
        return double_text(_unpack_double(_slice(data, at, 8))[0]), 8
    if kind == _LITERAL:
        return _LITERALS[data[at]], 1
    if kind == _OPAQUE:
        size, start = _length(data, at + 1)
        return _opaque(data[at], _slice(data, start, size)), start + size - at
    raise ValueError(f"holds JSON of the unknown type {kind}")


def _container(data: bytes, kind: int, base: int, depth: int) -> tuple[str, int]:
    """An object (type 0, 1) or an array (2, 3); the odd types count and point with 4 bytes instead of 2.

    What the members take may not exceed the container's size, so that a corrupt document whose members
    point to each other ends instead of growing.
    """
    if not kind:
        count = data[base]
        if 0 < count <= _SHAPED and not data[base + 1]:
            raw_keys = data[base + 4 : base + 4 + 4 * count]
            reader = _readers.get(raw_keys)
            if reader is not None:
                return reader(data, base, depth)
            _shapes.met(raw_keys)
    head, unpack_head, key_bytes, value_bytes = _LAYOUTS[kind]
    if base + head > len(data):
        raise ValueError(_MALFORMED)
    count, size = unpack_head(data, base)
    keys_end = head + count * key_bytes
    used = keys_end + count * value_bytes
    if depth > _MAX_DEPTH or base + size > len(data) or used > size:
        raise ValueError(_MALFORMED)
    make_reader = _kept_value_entries if count <= _KEPT else _value_entries
    entries = make_reader(kind & 1, count)(data, base + keys_end)
    if kind > 1:
        return f"[{', '.join(_values(data, base, size, kind & 1, entries, used, depth))}]", size
    raw_keys = data[base + head : base + keys_end]
    start, end, length = (_kept_names if count <= _KEPT else _names)(kind, raw_keys)
    if end > size:
        raise ValueError(_MALFORMED)
    raw_names = data[base + start : base + end]
    keys = (_kept_keys if count <= _KEPT and length <= _KEPT_BYTES else _keys)(kind, raw_keys, raw_names)
    values = _values(data, base, size, kind, entries, used + length, depth)
    return f"{{{', '.join(map(add, keys, values))}}}", size


def _values(
    data: bytes, base: int, size: int, large: int, entries: tuple[int, ...], used: int, depth: int
) -> list[str]:
    """The members' texts. Short numbers and literals sit in the entry itself, the rest where it points."""
    texts = []
    pairs = iter(entries)
    for kind, where in zip(pairs, pairs, strict=True):
        if kind == _STRING:
            at = base + where
            length = data[at]
            at += 1
            if length > 127:
                length, at = _length(data, at - 1)
            used += length + 1
            if at + length > base + size or used > size:
                raise ValueError(_MALFORMED)
            texts.append(_quote(data[at : at + length].decode()))
        elif kind == _LITERAL:
            texts.append(_LITERALS[where & 0xFF])
        elif kind == _INT16:
            texts.append(str(((where & 0xFFFF) ^ 0x8000) - 0x8000))
        elif kind == _UINT16:
            texts.append(f"{INTEGER}{where & 0xFFFF}")
        elif kind == _INT32 and large:
            texts.append(str((where ^ 0x80000000) - 0x80000000))
        elif kind == _UINT32 and large:
            texts.append(f"{INTEGER}{where}")
        else:
            if kind <= 3:
                text, taken = _container(data, kind, base + where, depth + 1)
            else:
                text, taken = _value(data, kind, base + where, depth)
            used += taken
            if used > size or where + taken > size:
                raise ValueError(_MALFORMED)
            texts.append(text)
    return texts


def _value_entries(large: int, count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Reads (type, value or offset) of so many members."""
    return Struct("<" + ("BI" if large else "BH") * count).unpack_from


def _names(kind: int, raw_keys: bytes) -> tuple[int, int, int]:
    """From where to where in its container an object's key names are, and their length together."""
    entries = _KEY_ENTRY[kind].iter_unpack(raw_keys)
    ends = [(offset, offset + length) for offset, length in entries]
    start = min((offset for offset, _ in ends), default=0)
    end = max((end for _, end in ends), default=0)
    return start, end, sum(end - offset for offset, end in ends)


def _keys(kind: int, raw_keys: bytes, names: bytes) -> tuple[str, ...]:
    """An object's keys as they are printed."""
    entries = list(_KEY_ENTRY[kind].iter_unpack(raw_keys))
    start = min((offset for offset, _ in entries), default=0)
    return tuple(_quote(names[offset - start : offset - start + length].decode()) + ": " for offset, length in entries)


_kept_value_entries = lru_cache(maxsize=2 * _KEPT)(_value_entries)
_kept_names = lru_cache(maxsize=1024)(_names)
_kept_keys = lru_cache(maxsize=1024)(_keys)


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise ValueError("holds JSON that ends early")
    return data[start : start + size]


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length of 7 bits a byte, lowest first, in at most 5 bytes; and where what it counts begins."""
    length = data[at]
    if length < 0x80:
        return length, at + 1
    length &= 0x7F
    for shift in range(1, 5):
        byte = data[at + shift]
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return length, at + shift + 1
    raise ValueError("holds JSON with a length that does not end")


def double_text(number: float) -> str:
    """A double as ``my_gcvt`` prints it, with ``.0`` where it would look like an integer.

    The shortest digits that read back as the same number; an exponent (without plus sign or padding) below
    1e-15, and from 1e15 on unless there is a fraction. Python changes at 1e-4 and 1e16.
    """
    if number - number != 0:
        raise ValueError(f"holds the number {number}")
    text = repr(number)
    if number == 0 or 1e-4 <= abs(number) < 1e15 or (not number.is_integer() and abs(number) > 1):
        return text
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if -14 <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1}"


def _opaque(field_type: int, raw: bytes) -> str:
    if field_type == types.VAR_STRING:
        return _quote(raw.decode())
    if field_type == types.NEWDECIMAL:
        return DECIMAL + decimal_text(raw[2:], raw[0], raw[1])
    if field_type in (types.DATE, types.TIME, types.DATETIME, types.TIMESTAMP):
        if len(raw) != 8:
            raise ValueError(_MALFORMED)
        mark = TIMESTAMP if field_type == types.TIMESTAMP else OPAQUE
        return f'{mark}"{_temporal(field_type, int.from_bytes(raw, "little", signed=True))}"'
    lines = base64.b64encode(raw).decode()
    folded = "\n".join(lines[at : at + _BASE64_LINE] for at in range(0, len(lines), _BASE64_LINE))
    return OPAQUE + _quote(f"base64:type{field_type}:{folded}")


def _temporal(field_type: int, packed: int) -> str:
    """MySQL's packed date and time: (year * 13 + month) << 5 | day, then 17 bits of clock, 24 of fraction."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    fraction, seconds = packed & 0xFFFFFF, packed >> 24
    if fraction > 999_999:
        raise ValueError(f"holds the fraction {fraction}")
    if field_type == types.TIME:
        hour, minute, second = seconds >> 12 & 0x3FF, seconds >> 6 & 63, seconds & 63
        if hour > 838 or minute > 59 or second > 59 or seconds >> 22:
            raise ValueError(f"holds the time {hour}:{minute}:{second}")
        return f"{sign}{hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"
    days, clock = seconds >> 17, seconds & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    day = sign + day_text(year, month, days & 31)
    if field_type == types.DATE:
        return day
    return f"{day} {clock_text(clock >> 12, clock >> 6 & 63, clock & 63)}.{fraction:06d}"


_shapes: Final = Shapes(
    {
        "INTEGER": INTEGER,
        "LENGTH": _length,
        "QUOTE": _quote,
        "LITERALS": _LITERALS,
        "VALUE": _value,
        "MALFORMED": _MALFORMED,
        "DEPTH": _MAX_DEPTH,
        "KEYS": _keys,
    }
)
_readers: Final = _shapes.readers
