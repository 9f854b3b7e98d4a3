"""How many chunks a copy begins together, by the load of the servers and its limits. Decides only: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

FAR = 2.0
"""From so many times a limit on, nothing is begun."""
ROOM = 0.9
"""Up to this part of every limit, more are begun again; between it and the limit, as many as before."""
_PAGE_SECONDS = 5.0
_LEAST_ROWS = 100


class Pace(StrEnum):
    FULL = "full"
    SLOWED = "slowed"  # fewer chunks at a time, or fewer rows per second, than it could
    HELD = "held"  # a server is far above a limit: nothing is begun
    PAUSED = "paused"  # a person asked for it


class Signal(StrEnum):
    THREADS = "threads running"
    HISTORY = "history list length"
    LAG = "seconds of replica lag"

    @property
    def option(self) -> str:
        """Of `migrate throttle`, that sets its limit."""
        named = {
            Signal.THREADS: "--max-threads-running",
            Signal.HISTORY: "--max-history-length",
            Signal.LAG: "--max-replica-lag-seconds",
        }
        return named[self]


@dataclass(frozen=True, slots=True)
class LoadReading:
    """What a server told: infinite where the worst is to be assumed, None where it is not known and does not count."""

    server: str  # "source 'main'"
    signal: Signal
    value: float | None
    note: str = ""  # why it is infinite or not known

    def __str__(self) -> str:
        if self.value is None or self.value == inf:
            return f"{self.server}: {self.note or f'{self.signal} not known'}"
        return f"{self.server}: {self.value:,.0f} {self.signal}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Between what a copy moves. Where 0 is allowed it means: no limit."""

    chunks: int
    min_chunks: int = 1
    rows_per_second: int = 0
    max_threads_running: int = 0
    max_history_length: int = 0
    max_replica_lag_seconds: float = 0.0
    paused: bool = False

    def of(self, signal: Signal) -> float:
        """The limit of a signal."""
        named = {
            Signal.THREADS: self.max_threads_running,
            Signal.HISTORY: self.max_history_length,
            Signal.LAG: self.max_replica_lag_seconds,
        }
        return float(named[signal])


@dataclass(frozen=True, slots=True)
class Decision:
    chunks: int  # to begin together; 0: none
    pace: Pace
    reason: str = ""  # empty at full pace


def decide(before: int, limits: Limits, load: Iterable[LoadReading]) -> Decision:
    """What to begin next, where `before` were begun last: half of it above a limit, none far above, else twice as many.

    Between ROOM of a limit and the limit it stays, so that a load near the limit does not make it swing.
    """
    if limits.paused:
        return Decision(0, Pace.PAUSED, "paused by `migrate throttle`")
    reading, ratio = _worst(limits, load)
    reason = "" if reading is None else f"{reading}, limit {limits.of(reading.signal):,.0f}"
    least = min(limits.min_chunks, limits.chunks)
    if reading is not None and ratio >= FAR:
        told = "N` sets another" if ratio < inf else "0` has it count no more"
        return Decision(0, Pace.HELD, f"{reason}; `migrate throttle {reading.signal.option} {told}")
    if ratio > 1.0:
        chunks = max(least, before // 2)
    elif ratio > ROOM:
        chunks = max(least, before)
    else:
        chunks = max(least, before * 2)
        reason = "going up again after load"
    chunks = min(chunks, limits.chunks)
    if chunks < limits.chunks or ratio > 1.0:
        return Decision(chunks, Pace.SLOWED, reason)
    return Decision(chunks, Pace.FULL)


def _worst(limits: Limits, load: Iterable[LoadReading]) -> tuple[LoadReading | None, float]:
    """The reading that is nearest to its limit or farthest above it, and how many times the limit it is."""
    worst: tuple[LoadReading | None, float] = (None, 0.0)
    for reading in load:
        limit = limits.of(reading.signal)
        if reading.value is not None and limit > 0 and reading.value / limit > worst[1]:
            worst = reading, reading.value / limit
    return worst


def higher(before: Sequence[LoadReading], now: Sequence[LoadReading]) -> list[LoadReading]:
    """The higher one of each signal of each server."""
    known = {(reading.server, reading.signal): reading for reading in before}
    for reading in now:
        found = known.get((reading.server, reading.signal))
        if found is None or found.value is None or (reading.value is not None and reading.value > found.value):
            known[(reading.server, reading.signal)] = reading
    return list(known.values())


class RowDebt:
    """Rows copied faster than `rows_per_second` allows, to be waited for before more are begun."""

    def __init__(self, now: float) -> None:
        self._rows = 0.0
        self._at = now

    def note(self, rows: int) -> None:
        self._rows += rows

    def seconds(self, rate: int, now: float) -> float:
        """How long to wait from `now` on, in seconds; rate: rows per second, 0 for any number."""
        self._rows = max(0.0, self._rows - (now - self._at) * rate) if rate else 0.0
        self._at = now
        return self._rows / rate if rate else 0.0


def most_rows(limits: Limits, chunks: int) -> int | None:
    """What a chunk may have so that rows come in small parts where they are counted by the second; None: any number."""
    if not limits.rows_per_second:
        return None
    return max(_LEAST_ROWS, int(limits.rows_per_second * _PAGE_SECONDS / max(1, chunks)))
