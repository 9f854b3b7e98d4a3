"""Temporal values in the formats from before MySQL 5.6.

MariaDB writes them with ``mysql56_temporal_format=OFF`` and in tables made before 10.1.2: without fraction
digits in MySQL 5.5's format, with them in MariaDB 5.3's ("hires"). The log does not say how many digits a
column has, so they come from its COLUMN_TYPE. Sources: MariaDB's ``sql/field.cc`` (Field_timestamp_hires,
Field_datetime_hires, Field_time_hires) and a real server's log.
"""

from __future__ import annotations

from typing import Final

from migrate.publish.decode.text import clock_text, day_text, epoch_text

TIMESTAMP_BYTES: Final = (4, 5, 5, 6, 6, 7, 7)
DATETIME_BYTES: Final = (8, 6, 6, 7, 7, 7, 8)
TIME_BYTES: Final = (3, 4, 4, 5, 5, 5, 6)
"""Bytes of a value by its number of fraction digits."""

_TIME_ZERO: Final = 839 * 3600
"""Seconds that a hires TIME adds, so that negative values sort first."""


def _fraction(number: int, digits: int) -> str:
    return f".{number:0{digits}d}" if digits else ""


def old_timestamp_text(raw: bytes, digits: int) -> str:
    if digits == 0:
        return epoch_text(int.from_bytes(raw, "little"), 0, 0)
    return epoch_text(int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:], "big"), digits)


def old_datetime_text(raw: bytes, digits: int) -> str:
    """Without digits the number YYYYMMDDhhmmss; with them the units packed into one number."""
    if digits == 0:
        number = int.from_bytes(raw, "little")
        days, clock = divmod(number, 1_000_000)
        return (
            day_text(days // 10_000, days // 100 % 100, days % 100)
            + " "
            + clock_text(clock // 10_000, clock // 100 % 100, clock % 100)
        )
    number, fraction = divmod(int.from_bytes(raw, "big"), 10**digits)
    number, second = divmod(number, 60)
    number, minute = divmod(number, 60)
    number, hour = divmod(number, 24)
    number, day = divmod(number, 32)
    year, month = divmod(number, 13)
    return f"{day_text(year, month, day)} {clock_text(hour, minute, second)}{_fraction(fraction, digits)}"


def old_time_text(raw: bytes, digits: int) -> str:
    """Without digits the signed number hhmmss; with them units of the last digit, offset to be positive."""
    if digits == 0:
        number = int.from_bytes(raw, "little", signed=True)
        hour, minute, second = abs(number) // 10_000, abs(number) // 100 % 100, abs(number) % 100
        fraction = 0
    else:
        number = int.from_bytes(raw, "big") - _TIME_ZERO * 10**digits
        seconds, fraction = divmod(abs(number), 10**digits)
        hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hour > 838 or minute > 59 or second > 59:
        raise ValueError(f"holds the time {hour}:{minute}:{second}")
    sign = "-" if number < 0 else ""
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{_fraction(fraction, digits)}"
