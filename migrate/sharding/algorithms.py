"""ShardingSphere's numbered algorithms: MOD, HASH_MOD, VOLUME_RANGE, BOUNDARY_RANGE, and AUTO_INTERVAL of intervals.py.

Each turns a Java value into a number (a bucket); Numbering turns the number into a name. Everything is as
ShardingSphere-JDBC 5.5.2 does it, its oddities included (docs/sharding.md); golden vectors taken from it
are in tests/sharding.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from migrate.model.errors import ConfigError
from migrate.sharding.intervals import auto_interval
from migrate.sharding.javatypes import (
    HASHES,
    INTEGERS,
    NUMBERS,
    JavaError,
    JavaType,
    long_value,
    parse_big_integer,
    parse_long,
    to_string,
)
from migrate.sharding.props import Props

_NUMBER_AT_END = re.compile(r"[0-9]+\Z")
_LONG = 1 << 63
_INT = 1 << 31


@dataclass(frozen=True, slots=True)
class Numbering:
    """How a bucket becomes a name: the first node's name without its number, zeros up to the shortest."""

    prefix: str
    width: int

    @classmethod
    def of(cls, names: Sequence[str], logical: str = "") -> Numbering:
        """From the physical names; a table's own name (`logical`) is never cut, digits at its end or not, but where it
        is the first of them: then it is one of several tables itself."""
        first = names[0]
        keep = len(logical) if logical and first.startswith(logical) and first != logical else 0
        prefix = first[:keep] + _NUMBER_AT_END.sub("", first[keep:])
        return cls(prefix, min(len(name) - len(prefix) for name in names))

    def name(self, suffix: str) -> str:
        return self.prefix + suffix.rjust(self.width, "0")


class Algorithm(Protocol):
    """A numbered algorithm with its properties."""

    @property
    def buckets(self) -> int:
        """How many buckets there are: 0 .. buckets - 1."""

    @property
    def complete(self) -> bool:
        """Whether ordinary values reach every bucket, so that a bucket without a place is a mistake."""

    def suffix(self, bucket: int) -> str:
        """The number as it is written before padding."""

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        """The function for values of a Java type; it raises JavaError for a value ShardingSphere refuses.

        Raises ConfigError when no value of that type can ever be routed.
        """


@dataclass(frozen=True, slots=True)
class _Counted:
    """Algorithms whose buckets are given as a count, and which leave no value without one."""

    count: int

    @property
    def buckets(self) -> int:
        return self.count

    @property
    def complete(self) -> bool:
        return True

    def suffix(self, bucket: int) -> str:
        return str(bucket)


@dataclass(frozen=True, slots=True)
class Mod(_Counted):
    """value mod count, never negative; with offsets, of a piece of the value's text."""

    start: int = 0
    stop: int = 0
    zero_padding: bool = False

    def suffix(self, bucket: int) -> str:
        return str(bucket).rjust(len(str(self.count - 1)), "0") if self.zero_padding else str(bucket)

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        if java not in (*NUMBERS, JavaType.STRING):
            raise ConfigError(f"MOD does not work on a {java}")
        count = self.count
        if self.start or self.stop:
            text = to_string(java)
            return lambda value: parse_big_integer(self._cut(text(value))) % count
        if java is JavaType.STRING:
            return lambda value: parse_big_integer(value) % count
        if java in (JavaType.INTEGER, JavaType.LONG):
            return lambda value: value % count
        as_long = long_value(java)  # ShardingSphere keeps 64 bits of a BigInteger: 2^64-1 counts as -1
        return lambda value: as_long(value) % count

    def _cut(self, text: str) -> str:
        if len(text) - self.stop <= self.start:
            raise JavaError("the value is shorter than start-offset and stop-offset cut away")
        return text[self.start : len(text) - self.stop]


@dataclass(frozen=True, slots=True)
class HashMod(_Counted):
    """|hashCode()| mod count; `normalized`: a Long or BigInteger that an Integer holds has the Integer's hash."""

    normalized: bool = False

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        if java is JavaType.TIMESTAMP:
            raise ConfigError("HASH_MOD does not work on a Timestamp here: its hash depends on the time zone")
        hash_code, count = HASHES[java], self.count
        if self.normalized and java in INTEGERS:
            return lambda value: abs(value if -_INT <= value < _INT else hash_code(value)) % count
        if java is JavaType.INTEGER:
            return lambda value: abs(value) % count
        if java is JavaType.LONG:
            return lambda value: _absolute((value ^ (value >> 32)) & 0xFFFFFFFF) % count
        return lambda value: abs(hash_code(value)) % count


def _absolute(bits: int) -> int:
    """The absolute value of the int that these 32 bits are."""
    return bits if bits < 0x80000000 else 0x100000000 - bits


@dataclass(frozen=True, slots=True)
class VolumeRange:
    """Ranges of one size between two limits; 0 is below them, the last is at or above the upper one."""

    lower: int
    upper: int
    volume: int

    @property
    def buckets(self) -> int:
        return (self.upper - self.lower + self.volume - 1) // self.volume + 2

    @property
    def complete(self) -> bool:
        return False

    def suffix(self, bucket: int) -> str:
        return str(bucket)

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        to_long = _parsed_long(java, "VOLUME_RANGE")
        lower, upper, volume, last = self.lower, self.upper, self.volume, self.buckets - 1

        def bucket(value: Any) -> int:
            number = to_long(value)
            if number < lower:
                return 0
            return last if number >= upper else (number - lower) // volume + 1

        return bucket


@dataclass(frozen=True, slots=True)
class BoundaryRange:
    """Ranges between sorted limits; a limit belongs to the range above it."""

    limits: tuple[int, ...]

    @property
    def buckets(self) -> int:
        return len(self.limits) + 1

    @property
    def complete(self) -> bool:
        return False

    def suffix(self, bucket: int) -> str:
        return str(bucket)

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        to_long, limits = _parsed_long(java, "BOUNDARY_RANGE"), self.limits
        return lambda value: bisect_right(limits, to_long(value))


def _parsed_long(java: JavaType, algorithm: str) -> Callable[[Any], int]:
    """Long.parseLong(value.toString()), which refuses fractions and anything beyond 64 bits."""
    if java in (JavaType.INTEGER, JavaType.LONG):
        return int
    if java in INTEGERS:
        return _within_long
    if java in (JavaType.BIG_DECIMAL, JavaType.STRING):
        return lambda value: parse_long(str(value))
    raise ConfigError(f"{algorithm} does not work on a {java}")


def _within_long(value: int) -> int:
    if not -_LONG <= value < _LONG:
        raise JavaError("the number does not fit Java's long")
    return value


def build_algorithm(name: str, props: Mapping[str, object], key: str) -> Algorithm:
    """The algorithm called `name` (upper case) with its properties.

    `key` names the place in the config file. Raises ConfigError naming the key.
    """
    reader = Props(props, f"{key}.props")
    if name == "MOD":
        result: Algorithm = Mod(
            reader.count("sharding-count"),
            reader.whole("start-offset", 0),
            reader.whole("stop-offset", 0),
            reader.yes("zero-padding"),
        )
    elif name == "HASH_MOD":
        result = HashMod(reader.count("sharding-count"), reader.yes("normalize-numeric-int-range"))
    elif name == "VOLUME_RANGE":
        result = _volume_range(reader)
    elif name == "AUTO_INTERVAL":
        result = auto_interval(reader)
    else:
        result = BoundaryRange(_limits(reader))
    reader.no_more(name)
    return result


def _volume_range(props: Props) -> VolumeRange:
    result = VolumeRange(props.long("range-lower"), props.long("range-upper"), props.long("sharding-volume"))
    size = result.upper - result.lower
    if result.volume <= 0:
        raise ConfigError(f"{props.key}.sharding-volume must be positive")
    if size < result.volume:
        raise ConfigError(f"{props.key}.sharding-volume is more than the range from lower to upper")
    # ShardingSphere computes these in 64 and 32 bits and fails where they overflow
    ranges = result.buckets - 2
    if size >= _LONG or result.lower + ranges * result.volume >= _LONG or ranges >= 1 << 31:
        raise ConfigError(f"{props.key}.range-upper: the range is too wide")
    return result


def _limits(props: Props) -> tuple[int, ...]:
    """Empty items are skipped. ShardingSphere skips garbage too, silently; here it is an error."""
    items = [item.strip() for item in props.text("sharding-ranges").split(",")]
    limits = [props.parsed("sharding-ranges", item, parse_long) for item in items if item]
    if not limits:
        raise ConfigError(f"{props.key}.sharding-ranges is empty")
    return tuple(sorted(limits))
