"""Canonical text of binlog values: what the generated row decoders call and look up.

The binary formats are MySQL's (``my_datetime_packed_to_binary`` and its relatives in ``my_time.cc``,
``decimal2bin`` in ``decimal.cc``). Everything here refuses, with ValueError or LookupError, a value the
server cannot have written.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

_EPOCH: Final = date(1970, 1, 1)
_DAYS: Final = 20_000  # 55 years
_CLOCKS: Final = 86_400


class Texts(dict[int, str]):
    """Texts made when first asked for, and forgotten all at once when there are too many."""

    def __init__(self, make: Callable[[int], str], limit: int) -> None:
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, key: int) -> str:
        if len(self) >= self._limit:
            self.clear()
        text = self[key] = self._make(key)
        return text


def day_text(year: int, month: int, day: int) -> str:
    """A date as it is stored; zero and impossible days (2006-02-31) are values a server can hold."""
    if year > 9999 or month > 12:
        raise ValueError(f"holds the date {year}-{month}-{day}")
    return f"{year:04d}-{month:02d}-{day:02d}"


def clock_text(hour: int, minute: int, second: int) -> str:
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"holds the time of day {hour}:{minute}:{second}")
    return f"{hour:02d}:{minute:02d}:{second:02d}"


def _date(packed: int) -> str:
    return day_text(packed >> 9, packed >> 5 & 15, packed & 31)


def _datetime_day(packed: int) -> str:
    """The top 23 bits of a DATETIME2: a sign that is always set, year * 13 + month, day."""
    year, month = divmod((packed >> 5) - 0x20000, 13)
    if year < 0:
        raise ValueError("holds a negative date")
    return day_text(year, month, packed & 31) + " "


def _datetime_clock(packed: int) -> str:
    return clock_text(packed >> 12, packed >> 6 & 63, packed & 63)


def _epoch_day(days: int) -> str:
    return f"{_EPOCH + timedelta(days)} "


def _second_of_day(second: int) -> str:
    return clock_text(second // 3600, second // 60 % 60, second % 60)


DATE: Final = Texts(_date, _DAYS)
DT_DAY: Final = Texts(_datetime_day, _DAYS)
DT_CLOCK: Final = Texts(_datetime_clock, _CLOCKS)
TS_DAY: Final = Texts(_epoch_day, _DAYS)
TS_CLOCK: Final = Texts(_second_of_day, _CLOCKS)


def epoch_text(seconds: int, fraction: int, digits: int) -> str:
    """A TIMESTAMP in UTC; ``fraction`` counts units of the last digit. Nothing at all is the zero value."""
    if fraction >= 10**digits:
        raise ValueError(f"holds the fraction {fraction} of {digits} digits")
    tail = f".{fraction:0{digits}d}" if digits else ""
    if seconds == 0 and fraction == 0:
        return "0000-00-00 00:00:00" + tail
    return f"{TS_DAY[seconds // 86400]}{TS_CLOCK[seconds % 86400]}{tail}"


def fraction_text(fraction: int, digits: int) -> str:
    """``.`` and ``digits`` digits of a fraction stored in (digits + 1) // 2 bytes of two digits each."""
    if digits % 2:
        fraction, rest = divmod(fraction, 10)
        if rest:
            raise ValueError(f"holds a fraction of more than {digits} digits")
    if fraction >= 10**digits:
        raise ValueError(f"holds the fraction {fraction} of {digits} digits")
    return f".{fraction:0{digits}d}"


def time_text(packed: int, digits: int) -> str:
    """A TIME2 of 3 + (digits + 1) // 2 bytes read as one big-endian number; its zero is the middle.

    Negative values are the two's complement of the whole, fraction included.
    """
    fraction_bits = (digits + 1) // 2 * 8
    value = packed - (0x800000 << fraction_bits)
    sign = "-" if value < 0 else ""
    value = abs(value)
    clock = value >> fraction_bits
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if hour > 838 or minute > 59 or second > 59:
        raise ValueError(f"holds the time {hour}:{minute}:{second}")
    fraction = fraction_text(value & (1 << fraction_bits) - 1, digits) if digits else ""
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{fraction}"


DECIMAL_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that 0 to 9 decimal digits take in a DECIMAL."""


def decimal_groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """The digits of each stored group, before and after the point.

    A column has at most 65; inside JSON the precision is rounded up to whole groups, 81 digits at most.
    """
    whole, fraction = precision - scale, scale
    if not (0 < precision <= 81 and 0 <= scale <= 38 and whole >= 0):
        raise ValueError(f"is a DECIMAL({precision},{scale})")
    before = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9)
    after = [9] * (fraction // 9) + ([fraction % 9] if fraction % 9 else [])
    return before, after


def decimal_text(raw: bytes, precision: int, scale: int) -> str:
    """A DECIMAL in MySQL's binary format (``decimal2bin``), with its full scale."""
    groups = decimal_groups(precision, scale)
    if len(raw) != sum(DECIMAL_BYTES[digits] for group in groups for digits in group):
        raise ValueError(f"holds a DECIMAL({precision},{scale}) of {len(raw)} bytes")
    positive = raw[0] & 0x80
    flipped = bytes([raw[0] ^ 0x80]) + raw[1:]
    if not positive:
        flipped = bytes(byte ^ 0xFF for byte in flipped)
    at, texts = 0, []
    for group in groups:
        text = ""
        for digits in group:
            number = int.from_bytes(flipped[at : at + DECIMAL_BYTES[digits]], "big")
            at += DECIMAL_BYTES[digits]
            if number >= 10**digits:
                raise ValueError(f"holds {number} where a DECIMAL has {digits} digits")
            text += f"{number:0{digits}d}"
        texts.append(text)
    whole = texts[0].lstrip("0") or "0"
    return ("" if positive else "-") + whole + ("." + texts[1] if scale else "")


def uuid_text(raw: bytes) -> str:
    """MariaDB's UUID. The log has its 16 bytes in the order they are written, trailing zeros cut off."""
    return str(uuid.UUID(bytes=raw.ljust(16, b"\0")))


def inet4_text(raw: bytes) -> str:
    return ".".join(str(byte) for byte in raw.ljust(4, b"\0"))


def inet6_text(raw: bytes) -> str:
    """MariaDB's INET6: the first longest run of zero groups, be it a single one, is written ``::``."""
    raw = raw.ljust(16, b"\0")
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return "::ffff:" + inet4_text(raw[12:])
    if raw[:12] == b"\0" * 12 and raw[12:14] != b"\0\0":
        return "::" + inet4_text(raw[12:])
    groups = [f"{int.from_bytes(raw[at : at + 2], 'big'):x}" for at in range(0, 16, 2)]
    for length in range(8, 0, -1):
        for start in range(9 - length):
            if groups[start : start + length] == ["0"] * length:
                return ":".join(groups[:start]) + "::" + ":".join(groups[start + length :])
    return ":".join(groups)


def uncompress(raw: bytes) -> bytes:
    """A value of a MariaDB COMPRESSED column: a header byte, its length in 1 to 4 bytes, zlib data."""
    if not raw:
        return raw
    method, size = raw[0] >> 4, raw[0] & 7
    if method == 0:
        return raw[1:]
    if method != 8 or not 1 <= size <= 4:
        raise ValueError(f"is compressed in an unknown way ({raw[0]:#04x})")
    return inflate(raw[1 + size :], int.from_bytes(raw[1 : 1 + size], "big"), raw_deflate=bool(raw[0] & 8))


def unpack(body: bytes, at: int) -> bytes:
    """What MariaDB compressed, from an offset to the end: a header byte, the length in 1 to 4 bytes, zlib."""
    head = body[at] if at < len(body) else 0
    size = head & 7
    if head & 0xF0 != 0x80 or not 1 <= size <= 4:
        raise ValueError(f"is packed in an unknown way ({head:#04x})")
    start = at + 1 + size
    return inflate(body[start:], int.from_bytes(body[at + 1 : start], "big"))


def inflate(data: bytes, length: int, *, raw_deflate: bool = False) -> bytes:
    """zlib data that must come out exactly ``length`` bytes long."""
    engine = zlib.decompressobj(-zlib.MAX_WBITS if raw_deflate else zlib.MAX_WBITS)
    try:
        out = engine.decompress(data, length + 1)
    except zlib.error as error:
        raise ValueError(f"cannot be uncompressed: {error}") from error
    if len(out) != length or not engine.eof or engine.unused_data:
        raise ValueError(f"does not uncompress to the {length} bytes it says")
    return out


def _fractions(digits: int) -> dict[int, str]:
    """Every fraction of up to four digits, by its stored number."""
    step = 10 if digits % 2 else 1
    return {number * step: f".{number:0{digits}d}" for number in range(10**digits)}


RUNTIME: Final[dict[str, object]] = {
    "__builtins__": {"ValueError": ValueError, "repr": repr},
    "INT8": tuple(str(number if number < 128 else number - 256) for number in range(256)),
    "UINT8": tuple(str(number) for number in range(256)),
    "YEAR": ("0000", *(str(1900 + number) for number in range(1, 256))),
    "DATE": DATE,
    "DT_DAY": DT_DAY,
    "DT_CLOCK": DT_CLOCK,
    "TS_DAY": TS_DAY,
    "TS_CLOCK": TS_CLOCK,
    "TIME": time_text,
    "FRACTION": fraction_text,
    "NUL": b"\0",
    "UUID": uuid_text,
    "INET4": inet4_text,
    "INET6": inet6_text,
    "UNCOMPRESS": uncompress,
    **{f"FRACTION{digits}": _fractions(digits) for digits in range(1, 5)},
    **{f"DIGITS{n}": tuple(f"{number:0{n}d}" for number in range(10**n)) for n in range(1, 5)},
}
"""Names the generated source uses."""
