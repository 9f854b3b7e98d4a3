"""Java's values as the sharding algorithms see them: types, hash codes, number parsing, text.

A value is a Python int (Integer, Long, BigInteger), Decimal (BigDecimal), str (String), date, datetime or
bool. A String is held as UTF-16 units, one Python character a unit, because Java counts, cuts and hashes
those; it differs from the text only for characters beyond the basic plane.

Source: the JDK's documentation of hashCode() of each class; checked against JDK 17 (tests/sharding).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from operator import mul
from typing import Any

UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"  # array views use the machine's order
_LONG = 1 << 63
_DIGITS = re.compile(r"[+-]?\d+")


class JavaType(StrEnum):
    INTEGER = "Integer"
    LONG = "Long"
    BIG_INTEGER = "BigInteger"
    BIG_DECIMAL = "BigDecimal"
    STRING = "String"
    LOCAL_DATE = "LocalDate"
    LOCAL_DATE_TIME = "LocalDateTime"
    TIMESTAMP = "Timestamp"  # java.sql.Timestamp, as the moment that it shows
    BOOLEAN = "Boolean"


INTEGERS = (JavaType.INTEGER, JavaType.LONG, JavaType.BIG_INTEGER)
NUMBERS = (*INTEGERS, JavaType.BIG_DECIMAL)
MOMENTS = (JavaType.LOCAL_DATE, JavaType.LOCAL_DATE_TIME, JavaType.TIMESTAMP)


class JavaError(ValueError):
    """What Java would throw for one value. The message never holds the value itself."""


def wrap32(value: int) -> int:
    """The int that Java keeps of a larger number."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap64(value: int) -> int:
    """The long that Java keeps of a larger number."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def to_units(text: str) -> str:
    """Text as UTF-16 units, one character each."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(map(chr, memoryview(text.encode(UTF16, "surrogatepass")).cast("H")))


def from_units(units: str) -> str:
    """The text that UTF-16 units spell; a lone surrogate stays one."""
    if units.isascii():
        return units
    return units.encode(UTF16, "surrogatepass").decode(UTF16, "surrogatepass")


def hash_string(units: str) -> int:
    """String.hashCode: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units, as an int."""
    numbers = units.encode() if units.isascii() else list(map(ord, units))
    return wrap32(sum(map(mul, numbers, _powers(len(numbers)))))


@lru_cache(maxsize=256)
def _powers(count: int) -> tuple[int, ...]:
    """31^(count-1) ... 31, 1, of which 32 bits matter."""
    return tuple(pow(31, exponent, 1 << 32) for exponent in range(count - 1, -1, -1))


def hash_long(value: int) -> int:
    return wrap32(value ^ (value >> 32))


def hash_big_integer(value: int) -> int:
    """Each 32-bit word of the magnitude, highest first, folded with 31; then the sign."""
    magnitude, result = abs(value), 0
    words = (magnitude.bit_length() + 31) // 32
    for index in range(words - 1, -1, -1):
        result = (31 * result + (magnitude >> (32 * index) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return wrap32(-result if value < 0 else result)


def hash_big_decimal(value: Decimal) -> int:
    scale = -int(value.as_tuple().exponent)
    return wrap32(31 * hash_big_integer(unscaled(value)) + scale)


def hash_date(value: date) -> int:
    year = value.year
    return wrap32((year & 0xFFFFF800) ^ ((year << 11) + (value.month << 6) + value.day))


def hash_date_time(value: datetime) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return hash_date(value) ^ hash_long(seconds * 1_000_000_000 + value.microsecond * 1000)


HASHES: dict[JavaType, Callable[[Any], int]] = {
    JavaType.INTEGER: int,
    JavaType.LONG: hash_long,
    JavaType.BIG_INTEGER: hash_big_integer,
    JavaType.BIG_DECIMAL: hash_big_decimal,
    JavaType.STRING: hash_string,
    JavaType.LOCAL_DATE: hash_date,
    JavaType.LOCAL_DATE_TIME: hash_date_time,
    JavaType.BOOLEAN: lambda value: 1231 if value else 1237,
}
"""hashCode() of each type: a signed 32-bit int."""


def unscaled(value: Decimal) -> int:
    """BigDecimal.unscaledValue."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def to_string(java: JavaType) -> Callable[[Any], str]:
    """toString() of a type, as UTF-16 units; BigDecimal's notation is the one Decimal has."""
    if java is JavaType.BOOLEAN:
        return lambda value: "true" if value else "false"
    return str


def parse_big_integer(units: str) -> int:
    """new BigInteger(String): an optional sign and digits of any script, nothing else.

    Raises JavaError (NumberFormatException).
    """
    if not _DIGITS.fullmatch(units):
        raise JavaError("the text is not a whole number")
    return int(units)


def parse_long(units: str) -> int:
    """Long.parseLong. Raises JavaError (NumberFormatException)."""
    value = parse_big_integer(units)
    if not -(1 << 63) <= value < 1 << 63:
        raise JavaError("the number does not fit Java's long")
    return value


def parse_int(units: str) -> int:
    """Integer.parseInt. Raises JavaError (NumberFormatException)."""
    value = parse_big_integer(units)
    if not -(1 << 31) <= value < 1 << 31:
        raise JavaError("the number does not fit Java's int")
    return value


def long_value(java: JavaType) -> Callable[[Any], int]:
    """Number.longValue(): fractions are cut towards zero, then the low 64 bits are kept."""
    if java in (JavaType.INTEGER, JavaType.LONG):
        return int
    return lambda value: value if type(value) is int and -_LONG <= value < _LONG else wrap64(int(value))
