"""Plots of the history: their geometry, and the sentence that says the same to whoever does not see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

from migrate.state.status_history import PastStatus

WIDTH, HEIGHT = 640.0, 150.0
LEFT, BOTTOM, TOP = 58.0, 22.0, 8.0
_POINTS = 240
_GAP_MINUTES = 5
"""Without a sample for longer, there is no line: what was then is not known."""


class Span(Enum):
    """How far back a plot goes, in minutes, as the address of a page names it."""

    HOUR = ("1h", 60)
    DAY = ("24h", 24 * 60)
    WEEK = ("7d", 7 * 24 * 60)

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def minutes(self) -> int:
        return self.value[1]

    @classmethod
    def of(cls, label: str) -> Span:
        """The day where there is none of this label."""
        return next((one for one in cls if one.label == label), cls.DAY)


class Point(NamedTuple):
    """minute: since 1970, UTC."""

    minute: int
    value: float


class Tick(NamedTuple):
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """lines: each an SVG path, with gaps between them. told: what it shows, in a sentence."""

    title: str
    told: str
    lines: Sequence[str]
    across: Sequence[Tick]
    up: Sequence[Tick]


def lag(history: Sequence[PastStatus], span: Span) -> Plot:
    """The highest of each part of the time, so that no peak is hidden."""
    points = [Point(one.minute, one.sample.lag_seconds) for one in history]
    return _plot("Lag in seconds", points, span, max, "s")


def rate(history: Sequence[PastStatus], span: Span) -> Plot:
    """Changes applied a second, the mean of each part of the time."""
    return _plot("Changes applied a second", rates(history), span, lambda found: sum(found) / len(found), "/s")


def rates(history: Sequence[PastStatus]) -> list[Point]:
    """Between each two samples that follow each other closely."""
    found = []
    for before, after in pairwise(history):
        seconds = (after.at - before.at).total_seconds()
        applied = after.sample.changes - before.sample.changes
        if seconds > 0 and applied >= 0 and after.minute - before.minute <= _GAP_MINUTES:
            found.append(Point(after.minute, applied / seconds))
    return found


def _plot(title: str, points: Sequence[Point], span: Span, merged: Callable[[list[float]], float], unit: str) -> Plot:
    if not points:
        return Plot(title, f"{title}: no sample yet; one is kept each minute.", (), (), ())
    end = points[-1].minute
    begin = end - span.minutes
    shown = _thinned([one for one in points if one.minute > begin], begin, span, merged)
    ceiling = _ceiling(max(one.value for one in shown))
    area = HEIGHT - TOP - BOTTOM

    def place(one: Point) -> str:
        x = LEFT + (one.minute - begin) / span.minutes * (WIDTH - LEFT)
        return f"{x:.1f} {TOP + area * (1 - one.value / ceiling):.1f}"

    up = [Tick(TOP + area * (1 - part), f"{ceiling * part:g}") for part in (0.0, 0.5, 1.0)]
    across = [
        Tick(LEFT + part * (WIDTH - LEFT), _moment(begin + part * span.minutes, span))
        for part in (0.0, 0.25, 0.5, 0.75)
    ]
    lines = [_path([place(one) for one in line]) for line in _lines(shown, span)]
    return Plot(title, _told(title, [one for one in points if one.minute > begin], span, unit), lines, across, up)


def _thinned(points: Sequence[Point], begin: int, span: Span, merged: Callable[[list[float]], float]) -> list[Point]:
    width = max(1, ceil(span.minutes / _POINTS))
    parts: dict[int, list[Point]] = {}
    for one in points:
        parts.setdefault((one.minute - begin) // width, []).append(one)
    return [Point(part[-1].minute, merged([one.value for one in part])) for part in parts.values()]


def _lines(points: Sequence[Point], span: Span) -> list[list[Point]]:
    """Cut where nothing is known."""
    found: list[list[Point]] = []
    gap = _GAP_MINUTES + ceil(span.minutes / _POINTS)
    for one in points:
        if found and one.minute - found[-1][-1].minute <= gap:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _path(places: Sequence[str]) -> str:
    """A single point is a line of no length, which round ends make visible."""
    return "M" + " L".join(places if len(places) > 1 else [*places, *places])


def _ceiling(value: float) -> float:
    """1, 2 or 5 times a power of ten, not below it."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999999))


def _moment(minute: float, span: Span) -> str:
    when = datetime.fromtimestamp(minute * 60, UTC)
    return f"{when:%d %b}" if span is Span.WEEK else f"{when:%H:%M}"


def _told(title: str, points: Sequence[Point], span: Span, unit: str) -> str:
    values = sorted(one.value for one in points)
    peak = max(points, key=lambda one: one.value)
    half, most, nearly_all = (values[min(len(values) - 1, ceil(part * len(values)) - 1)] for part in (0.5, 0.95, 0.99))
    when = datetime.fromtimestamp(peak.minute * 60, UTC)
    return (
        f"{title}, by the minute, last {span.label}: p50 {half:.1f} {unit}, p95 {most:.1f} {unit}, p99"
        f" {nearly_all:.1f} {unit}, highest {peak.value:.1f} {unit} at {when:%Y-%m-%d %H:%M} UTC."
    )
