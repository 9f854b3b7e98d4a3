"""Patterns of moments, as Java's DateTimeFormatter reads and writes them with its default (smart) resolver.

Fields: yyyy or uuuu, MM, dd, HH, mm, ss, S to SSSSSS; in what is only written also yy, M, d, H, m, s. A moment is a
datetime; that of a pattern without a time is at 00:00. Source: the JDK's documentation of DateTimeFormatter; checked
against JDK 17 (tests/sharding).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from migrate.model.errors import ConfigError
from migrate.sharding.javatypes import JavaError

_RUN = re.compile(r"([A-Za-z])\1*|[^A-Za-z]")
_READ = {"yyyy": "y", "uuuu": "y", "MM": "M", "dd": "d", "HH": "H", "mm": "m", "ss": "s"}
_CUT = {letter: letter for letter in "dHms"}
_WRITTEN = {*_READ, "yy", "uu", "M", "d", "H", "m", "s"}
_FRACTION = re.compile("S{1,6}")
_RESERVED = "'[]{}#"
_DATE, _TIME = "yMd", "HmsS"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that moments are read by."""

    text: str
    fields: str  # their letters in order, y for either kind of year
    expression: re.Pattern[str]

    @property
    def has_time(self) -> bool:
        return "H" in self.fields

    def read(self, text: str) -> datetime:
        """Of the whole text. Raises JavaError, as what follows."""
        return self._resolved(self.expression.fullmatch(text))

    def read_start(self, text: str) -> datetime:
        """Of a text that goes on after the moment."""
        return self._resolved(self.expression.match(text))

    def cut(self, moment: datetime) -> datetime:
        """Without what the pattern does not show."""
        finest = self.fields.translate({ord(letter): None for letter in _DATE})[-1:]
        digits = self.text.count("S")
        return moment.replace(
            hour=moment.hour if self.has_time else 0,
            minute=moment.minute if finest in ("m", "s", "S") else 0,
            second=moment.second if finest in ("s", "S") else 0,
            microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits) if digits else 0,
        )

    def shortened(self, length: int) -> Pattern | None:
        """Its first characters as a pattern; None where those give no moment, or cut a field that follows another."""
        runs, at = [""], 0
        for run in _RUN.finditer(self.text):
            if at < length:
                runs.append(run[0][: length - at])
                at += len(run[0])
        if at > length and "S" not in runs[-1] and (runs[-1] not in _CUT or runs[-2][-1:].isalpha()):
            return None
        try:
            short = pattern_of("".join(runs), "", _READ | _CUT)
        except ConfigError:
            return None
        return short if short.has_time == self.has_time else None

    def _resolved(self, found: re.Match[str] | None) -> datetime:
        if found is None:
            raise JavaError("the text is not written as the pattern says")
        field = dict.fromkeys("yMdHms", 0) | {
            letter: int(digits) for letter, digits in zip(self.fields, found.groups(), strict=True) if letter != "S"
        }
        fraction = int(found[self.fields.index("S") + 1].ljust(6, "0")) if "S" in self.fields else 0
        year, month, day, hour = field["y"], field["M"], field["d"], field["H"]
        midnight = hour == 24 and not (field["m"] or field["s"] or fraction)  # it is the next day's
        if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= 31 and (hour < 24 or midnight)):
            raise JavaError("the text is no moment")
        day = min(day, monthrange(year, month)[1])  # Java takes 31 February for its last day
        try:
            time = (0 if midnight else hour, field["m"], field["s"], fraction)
            moment = datetime(year, month, day, *time)  # noqa: DTZ001  columns have no zone
            return moment + timedelta(days=midnight)
        except (ValueError, OverflowError):
            raise JavaError("the text is no moment") from None


def pattern_of(text: str, key: str, known: Mapping[str, str] = _READ) -> Pattern:
    """known: the letter of each field. Raises ConfigError, which names `key`, for a pattern that is not supported."""
    fields, expression = "", ""
    for run in _RUN.finditer(text):
        letter = "S" if _FRACTION.fullmatch(run[0]) else known.get(run[0])
        if letter is None and (run[1] or run[0] in _RESERVED):
            raise ConfigError(f"{key}: {run[0]} is not supported", hint=f"known: {', '.join(_READ)}, S to SSSSSS")
        fields += letter or ""
        expression += re.escape(run[0]) if letter is None else f"([0-9]{{{len(run[0])}}})"
    times = "".join(letter for letter in _TIME if letter in fields)
    if len({*fields}) < len(fields) or not {*_DATE} <= {*fields} or not _TIME.startswith(times):
        raise ConfigError(
            f"{key}: {text} does not give a date, or a date and a time",
            hint="year, month and day, each once; of a time hours, minutes, seconds, fraction, none between left out",
        )
    return Pattern(text, fields, re.compile(expression, re.S))


def suffix_of(text: str, key: str) -> Callable[[datetime], str]:
    """What writes moments by a pattern. Raises ConfigError, which names `key`, for one that is not supported."""
    fields = {"M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
    shape = ""
    for run in _RUN.finditer(text):
        if (run[1] and run[0] not in _WRITTEN) or run[0] in _RESERVED:
            raise ConfigError(f"{key}: {run[0]} is not supported", hint=f"known: {', '.join(sorted(_WRITTEN))}")
        if run[1] and run[1] in "yu":
            shape += "{1:02}" if len(run[0]) == 2 else "{0.year:04}"
        else:
            shape += f"{{0.{fields[run[1]]}:0{len(run[0])}}}" if run[1] else run[0]
    return lambda moment: shape.format(moment, moment.year % 100)
