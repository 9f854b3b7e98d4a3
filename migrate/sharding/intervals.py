"""ShardingSphere's INTERVAL and AUTO_INTERVAL: a name by the stretch of time that a moment is in.

Everything is as ShardingSphere-JDBC 5.5.2 does it; golden vectors taken from it are in tests/sharding.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding.javatypes import JavaError, JavaType
from migrate.sharding.moments import Pattern, pattern_of, suffix_of
from migrate.sharding.props import Props

_MOST = 100_000
"""Intervals that a rule may have."""
_SECONDS = pattern_of("yyyy-MM-dd HH:mm:ss", "")
_SECOND = timedelta(seconds=1)
_CENT = Decimal("0.01")
_STEPS: dict[str, tuple[int, timedelta]] = {
    "seconds": (0, timedelta(seconds=1)),
    "minutes": (0, timedelta(minutes=1)),
    "hours": (0, timedelta(hours=1)),
    "halfdays": (0, timedelta(hours=12)),
    "days": (0, timedelta(days=1)),
    "weeks": (0, timedelta(weeks=1)),
    "months": (1, timedelta()),
    "years": (12, timedelta()),
}
"""Months and time of one step, by Java's name of the unit."""


@dataclass(frozen=True, slots=True)
class AutoInterval:
    """Intervals of so many seconds; 0 is up to the lower limit, the last from the upper on.

    ShardingSphere rounds the quotient to two decimals before it takes the next whole number: the first 0.5 % of an
    interval count to the one before.
    """

    lower: datetime
    seconds: int
    buckets: int

    @property
    def complete(self) -> bool:
        return False

    def suffix(self, bucket: int) -> str:
        return str(bucket)

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        if java is JavaType.STRING:
            return lambda text: self._of(_SECONDS.read_start(text))
        if java is JavaType.TIMESTAMP:
            return self._of
        raise ConfigError(f"AUTO_INTERVAL does not work on a {java}: ShardingSphere refuses what Java writes for it")

    def _of(self, moment: datetime) -> int:
        quotient = Decimal((moment - self.lower) // _SECOND / self.seconds)
        number = math.ceil(quotient.quantize(_CENT, ROUND_HALF_EVEN))
        return min(max(0, number), self.buckets - 1)


def auto_interval(props: Props) -> AutoInterval:
    lower, upper = _moment(props, "datetime-lower", _SECONDS), _moment(props, "datetime-upper", _SECONDS)
    seconds = props.long("sharding-seconds")
    if seconds <= 0:
        raise ConfigError(f"{props.key}.sharding-seconds must be positive")
    if upper < lower:
        raise ConfigError(f"{props.key}.datetime-upper is before datetime-lower")
    return AutoInterval(lower, seconds, (upper - lower) // _SECOND // seconds + 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """Intervals from a moment on; each has the name that ends with its start, written by a pattern."""

    pattern: Pattern
    starts: Sequence[datetime]
    end: datetime
    suffixes: Sequence[str]
    by_suffix: Mapping[str, str]  # the names, by the suffixes they end with

    def bucket(self, java: JavaType) -> Callable[[Any], int]:
        """As Algorithm.bucket: the number of the interval."""
        if java is JavaType.STRING:
            return lambda text: self._of(self._read(text))
        if java in (JavaType.LOCAL_DATE_TIME, JavaType.TIMESTAMP):
            return lambda moment: self._of(self.pattern.cut(moment))
        if java is JavaType.LOCAL_DATE and not self.pattern.has_time:
            return lambda date: self._of(datetime.combine(date, time()))
        what = "with a time in its datetime-pattern " if java is JavaType.LOCAL_DATE else ""
        raise ConfigError(f"INTERVAL {what}does not work on a {java}")

    def name(self, interval: int) -> str:
        """Raises JavaError where no name is the interval's."""
        name = self.by_suffix.get(self.suffixes[interval])
        if name is None:
            raise JavaError("no name among the nodes ends with the interval's suffix")
        return name

    def without_name(self) -> list[str]:
        """The suffixes that no name ends with."""
        return [each for each in dict.fromkeys(self.suffixes) if each not in self.by_suffix]

    def _of(self, moment: datetime) -> int:
        found = bisect_right(self.starts, moment) - 1
        if found < 0 or moment >= self.end:
            raise JavaError("the moment is outside datetime-lower and datetime-upper")
        return found

    def _read(self, text: str) -> datetime:
        """Of a longer text ShardingSphere takes the start, of a shorter one the start of the pattern."""
        length = len(self.pattern.text)
        if len(text) >= length:
            return self.pattern.read(text[:length])
        short = self.pattern.shortened(len(text))
        if short is None:
            raise JavaError("the text is shorter than datetime-pattern")
        return short.read(text)


def build_interval(given: Mapping[str, object], key: str, names: Sequence[str]) -> Interval:
    """names: what may be picked. Raises ConfigError naming the key."""
    props = Props(given, f"{key}.props")
    pattern = pattern_of(props.text("datetime-pattern"), f"{props.key}.datetime-pattern")
    lower = _moment(props, "datetime-lower", pattern)
    upper = _moment(props, "datetime-upper", pattern) if props.has("datetime-upper") else None
    suffix = suffix_of(props.text("sharding-suffix-pattern"), f"{props.key}.sharding-suffix-pattern")
    amount = props.whole("datetime-interval-amount", 1)
    unit = props.text("datetime-interval-unit", "DAYS").lower()
    props.no_more("INTERVAL")
    if unit not in _STEPS or (not pattern.has_time and unit in ("seconds", "minutes", "hours", "halfdays")):
        raise ConfigError(f"{props.key}.datetime-interval-unit: {unit} does not go with {pattern.text}")
    if amount == 0:
        raise ConfigError(f"{props.key}.datetime-interval-amount must be positive")
    starts = list(_starts(lower, upper, amount, unit))
    if not starts:
        raise ConfigError(f"{props.key}.datetime-upper is before datetime-lower")
    if upper is not None and len(starts) > _MOST:
        raise ConfigError(f"{props.key}: there are more than {_MOST} intervals")
    end = starts.pop() if len(starts) > _MOST else _plus(starts[-1], amount, unit) or datetime.max  # noqa: DTZ901  no zone
    suffixes = list(map(suffix, starts))
    return Interval(pattern, starts, end, suffixes, _by_suffix(names, suffixes, props.key))


def _moment(props: Props, name: str, pattern: Pattern) -> datetime:
    text = props.text(name)
    try:
        return pattern.read(text)
    except JavaError:
        raise ConfigError(f"{props.key}.{name}: {text} is not written as {pattern.text}") from None


def _starts(lower: datetime, upper: datetime | None, amount: int, unit: str) -> Iterator[datetime]:
    """Up to one more than the most there may be. From 31 January a month leads to 29 February, that to 29 March."""
    start: datetime | None = lower
    for _ in range(_MOST + 1):
        if start is None or (upper is not None and start > upper):
            return
        yield start
        start = _plus(start, amount, unit)


def _plus(moment: datetime, amount: int, unit: str) -> datetime | None:
    """None beyond the year 9999."""
    months, step = _STEPS[unit]
    try:
        if not months:
            return moment + step * amount
        year, month = divmod(moment.year * 12 + moment.month - 1 + months * amount, 12)
        if year > MAXYEAR:
            return None
        return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))
    except OverflowError:
        return None


def _by_suffix(names: Sequence[str], suffixes: Sequence[str], key: str) -> dict[str, str]:
    wanted, lengths = {*suffixes}, {len(each) for each in suffixes}
    found: dict[str, str] = {}
    for name in names:
        for end in {name[-length:] for length in lengths} & wanted:
            if end in found:
                raise ConfigError(
                    f"{key}.sharding-suffix-pattern: {found[end]} and {name} both end with {end}",
                    hint="ShardingSphere takes either; write months and days with two digits",
                )
            found[end] = name
    return found
