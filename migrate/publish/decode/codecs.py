"""How the bytes of each column type become text, as pieces of Python source for ``decode_compile``.

The source is put together from constants and numbers only: no name or value from the log enters it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from migrate.publish.decode import column_types as types
from migrate.publish.decode import old_time
from migrate.publish.decode.tablemap import ColumnMap
from migrate.publish.decode.text import DECIMAL_BYTES, decimal_groups


@dataclass(frozen=True, slots=True)
class Codec:
    """One column: which numbers its bytes are, and the expression that is their text.

    ``lines`` and ``value`` call the numbers ``$0``, ``$1``, …. With ``payload`` they are a length, lowest
    byte first; ``$n`` is that length and ``$p`` the bytes it counts, which follow it.
    """

    codes: str  # struct codes, one a number (old temporal types: one for their bytes)
    value: str
    lines: tuple[str, ...] = ()
    big_endian: bool = False
    payload: bool = False
    runtime: Mapping[str, object] = field(default_factory=dict)  # names beyond decode_text.RUNTIME


LITTLE: Final = {1: "B", 2: "H", 3: "HB", 4: "I", 8: "Q"}
"""Struct codes for a number of so many bytes, lowest byte first."""

_BIG: Final = {1: "B", 2: "H", 3: "BH", 4: "I", 5: "BI", 6: "HI", 7: "BHI", 8: "Q"}
_CODE_BITS: Final = {"B": 8, "H": 16, "I": 32, "Q": 64}


def joined(codes: str, *, big_endian: bool, first: int = 0) -> str:
    """An expression for the one number that the numbers of ``codes``, from ``$first`` on, are parts of."""
    terms, shift = [], 0
    numbered = list(enumerate(codes, first))
    for index, code in reversed(numbered) if big_endian else numbered:
        terms.append(f"${index} << {shift}" if shift else f"${index}")
        shift += _CODE_BITS[code]
    return " | ".join(terms)


def _whole_number(codes: str, check: str, *, big_endian: bool) -> Codec:
    """An unsigned number as decimal digits, if ``check`` (of ``$0``) finds nothing wrong."""
    lines = [f"$0 = {joined(codes, big_endian=big_endian)}"] if len(codes) > 1 else []
    if check:
        lines.append(check)
    return Codec(codes, "UINT8[$0]" if codes == "B" else 'f"{$0}"', tuple(lines), big_endian)


def _refuse(condition: str, what: str) -> str:
    return f'if {condition}: raise ValueError("{what}")'


_SIGNED: Final = {types.SHORT: "h", types.INT24: "Hb", types.LONG: "i", types.LONGLONG: "q"}
_UNSIGNED: Final = {types.SHORT: "H", types.INT24: "HB", types.LONG: "I", types.LONGLONG: "Q"}


def int_codec(column: ColumnMap) -> Codec:
    if column.unsigned is None:
        raise ValueError("has no signedness in the binlog: binlog_row_metadata is not FULL")
    if column.type == types.TINY:
        return Codec("B", "UINT8[$0]" if column.unsigned else "INT8[$0]")
    codes = (_UNSIGNED if column.unsigned else _SIGNED)[column.type]
    return Codec(codes, 'f"{$0}"' if len(codes) == 1 else 'f"{$0 | $1 << 16}"')


def float_codec(column: ColumnMap) -> Codec:
    code = "f" if column.type == types.FLOAT else "d"
    return Codec(code, "repr($0)", (_refuse("$0 - $0", "holds a number that is not finite"),))


def decimal_codec(column: ColumnMap) -> Codec:
    """Groups of 9 digits in 4 bytes, the odd ones at either end in fewer; a negative number is inverted."""
    before, after = decimal_groups(column.metadata[0], column.metadata[1])
    codes, names, lines = "", [], []
    for digits in before + after:
        part = _BIG[DECIMAL_BYTES[digits]]
        names.append(f"${len(codes)}")
        if len(part) > 1:
            lines.append(f"{names[-1]} = {joined(part, big_endian=True, first=len(codes))}")
        codes += part
    digits_of = dict(zip(names, before + after, strict=True))
    masks = {name: (1 << 8 * DECIMAL_BYTES[digits]) - 1 for name, digits in digits_of.items()}
    sign_bit = (masks[names[0]] + 1) >> 1
    masks[names[0]] ^= sign_bit
    lines += [
        f"if $0 & {sign_bit}: $0 ^= {sign_bit}; $s = ''",
        f"else: {'; '.join(f'{name} ^= {mask}' for name, mask in masks.items())}; $s = '-'",
        _refuse(
            " or ".join(f"{name} > {10**digits - 1}" for name, digits in digits_of.items()),
            "holds a DECIMAL group with too many digits",
        ),
    ]
    whole = names[0] if before else "0"
    for name in names[1 : len(before)]:
        whole = f"({whole}) * 1000000000 + {name}"
    fraction = "".join(_digits(name, digits_of[name]) for name in names[len(before) :])
    return Codec(codes, f'f"{{$s}}{{{whole}}}{"." if after else ""}{fraction}"', tuple(lines), True)


def _digits(name: str, digits: int) -> str:
    """The piece of an f-string that is a number with leading zeros; short ones are looked up."""
    return f"{{DIGITS{digits}[{name}]}}" if digits <= 4 else f"{{{name}:0{digits}d}}"


def bit_codec(column: ColumnMap) -> Codec:
    odd_bits, whole_bytes = column.metadata
    bits = odd_bits + 8 * whole_bytes
    if not 1 <= bits <= 64 or odd_bits > 7:
        raise ValueError(f"is a BIT({bits})")
    check = _refuse(f"$0 >> {bits}", "holds more bits than it has") if odd_bits else ""
    return _whole_number(_BIG[(bits + 7) // 8], check, big_endian=True)


def enum_codec(column: ColumnMap) -> Codec:
    size = column.metadata[0]
    if size not in (1, 2):
        raise ValueError(f"is an ENUM of {size} bytes")
    known = column.values is not None
    check = _refuse(f"$0 > {len(column.values or ())}", "holds an index beyond its values") if known else ""
    return _whole_number(LITTLE[size], check, big_endian=False)


def set_codec(column: ColumnMap) -> Codec:
    size = column.metadata[0]
    if size not in (1, 2, 3, 4, 8):
        raise ValueError(f"is a SET of {size} bytes")
    known = column.values is not None
    check = _refuse(f"$0 >> {len(column.values or ())}", "holds a bit beyond its values") if known else ""
    return _whole_number(LITTLE[size], check, big_endian=False)


def year_codec(column: ColumnMap) -> Codec:
    return Codec("B", "YEAR[$0]")


def date_codec(column: ColumnMap) -> Codec:
    return Codec("HB", "DATE[$0 | $1 << 16]")


def _fraction_digits(column: ColumnMap) -> int:
    digits = column.metadata[0]
    if digits > 6:
        raise ValueError(f"has {digits} fraction digits")
    return digits


def _fraction(digits: int, first: int) -> tuple[str, str]:
    """Struct codes, and the piece of an f-string, of a fraction whose numbers begin at ``$first``."""
    if digits == 0:
        return "", ""
    codes = _BIG[(digits + 1) // 2]
    number = joined(codes, big_endian=True, first=first)
    return codes, f"{{FRACTION{digits}[{number}]}}" if digits <= 4 else f"{{FRACTION({number}, {digits})}}"


def datetime2_codec(column: ColumnMap) -> Codec:
    """5 bytes, highest first: a set sign bit, year * 13 + month, day, hour, minute, second; a fraction."""
    codes, fraction = _fraction(_fraction_digits(column), 2)
    text = 'f"{DT_DAY[$0 >> 9]}{DT_CLOCK[($0 & 511) << 8 | $1]}' + fraction + '"'
    return Codec("IB" + codes, text, (), True)


def timestamp2_codec(column: ColumnMap) -> Codec:
    digits = _fraction_digits(column)
    codes, fraction = _fraction(digits, 1)
    zero = "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    text = 'f"{TS_DAY[$0 // 86400]}{TS_CLOCK[$0 % 86400]}' + fraction + '"'
    some = " or ".join(f"${index}" for index in range(1 + len(codes)))
    return Codec("I" + codes, f'{text} if {some} else "{zero}"', (), True)


def time2_codec(column: ColumnMap) -> Codec:
    digits = _fraction_digits(column)
    codes = _BIG[3 + (digits + 1) // 2]
    return Codec(codes, f"TIME({joined(codes, big_endian=True)}, {digits})", (), True)


_OLD_TIMES: Final[dict[int, tuple[str, tuple[int, ...], Callable[[bytes, int], str]]]] = {
    types.TIMESTAMP: ("timestamp", old_time.TIMESTAMP_BYTES, old_time.old_timestamp_text),
    types.DATETIME: ("datetime", old_time.DATETIME_BYTES, old_time.old_datetime_text),
    types.TIME: ("time", old_time.TIME_BYTES, old_time.old_time_text),
}


def old_time_codec(column: ColumnMap, column_type: str | None) -> Codec:
    """The formats from before MySQL 5.6; their number of fraction digits is only in the COLUMN_TYPE."""
    name, sizes, text = _OLD_TIMES[column.type]
    found = re.match(rf"{name}(?:\(([0-6])\))?(?!\w)", (column_type or "").lower())
    if not found:
        raise ValueError(f"is a {name} in the format from before MySQL 5.6 and its COLUMN_TYPE is not known")
    digits = int(found[1] or 0)
    function = f"OLD_{name.upper()}"
    return Codec(f"{sizes[digits]}s", f"{function}($0, {digits})", runtime={function: text})
