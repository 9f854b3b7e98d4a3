"""The throttle of a running copy: looks at limits and load at most once a second, and says what may be begun."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import inf

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.copy.load_sampler import LoadSampler
from migrate.copy.throttle import Decision, Limits, LoadReading, Pace, RowDebt, decide, higher, most_rows
from migrate.settings import Settings
from migrate.state import throttle
from migrate.state.throttle import NAMES, AskedLimits
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.copy")
LOOK_SECONDS = 1.0
WAVES = 2
"""Waves of chunks that are under way at a time, so that no core waits for the last chunk of one."""
_WINDOW = 60.0


def limits_of(settings: Settings, asked: AskedLimits) -> Limits:
    """The config's limits, with what was asked for instead of some."""
    copy, throttle_ = settings.copy_, settings.copy_.throttle
    configured = {name: getattr(throttle_, name) for name in NAMES if name not in ("paused", "chunks")}
    instead = {name: value for name, value in asdict(asked).items() if value is not None}
    limits = Limits(**{"chunks": copy.chunks_at_once, **configured, **instead})
    most = most_chunks(settings)
    return replace(limits, chunks=min(limits.chunks, most), min_chunks=min(limits.min_chunks, most))


def most_chunks(settings: Settings) -> int:
    """Chunks that may be begun together: two waves are under way, and each task has a session at every server."""
    return settings.connections.per_server // WAVES


class Governor:
    """Says how many chunks the next wave of a table's copy has. For one thread; close it.

    Args: rows: read by earlier runs.
    decision: what counts now; limits: as asked for when it last looked; readings: what was measured then.
    """

    def __init__(
        self,
        settings: Settings,
        planned: PlannedTable,
        state: sa.Engine,
        rows: int = 0,
        clock: Callable[[], float] = time.monotonic,
        others: Sequence[PlannedTable] = (),
    ) -> None:
        """others: that are copied together with the table."""
        self._settings = settings
        self._table = planned.table.full_name + (f" and {len(others)} more" if others else "")
        self._state = state
        self._clock = clock
        self._sampler = LoadSampler(settings, [planned, *others])
        self.limits = limits_of(settings, AskedLimits())
        self.readings: list[LoadReading] = []
        self.decision = Decision(self.limits.chunks, Pace.FULL)
        self._level = self.limits.chunks  # begun last, before a pause too
        self._since: list[LoadReading] = []  # the highest since the last decision
        self._look_at = -inf
        self._fresh = False  # looked since the last decision
        self._owed = RowDebt(clock())
        self._done: deque[tuple[float, int]] = deque([(clock(), rows)])  # (when, rows so far)

    def look(self) -> bool:
        """Ask the state and measure, unless that was less than a second ago; whether it did."""
        if self._clock() < self._look_at:
            return False
        self.limits = self._asked()
        self.readings = self._sampler.measure(self.limits)
        self._since = higher(self._since, self.readings)
        self._fresh = True
        self._look_at = self._clock() + LOOK_SECONDS
        return True

    def next_wave(self) -> int:
        """How many chunks to begin together now; 0: none yet."""
        self.look()
        if self._fresh:
            self._decide()
        if self.decision.chunks and self._owed.seconds(self.limits.rows_per_second, self._clock()) > 0:
            return 0
        return self.decision.chunks

    @property
    def one_wave(self) -> bool:
        """Whether a wave is to end before the next one begins."""
        return self.decision.pace is not Pace.FULL or self.limits.rows_per_second > 0

    @property
    def pace(self) -> Pace:
        limited = self.decision.pace is Pace.FULL and self.limits.rows_per_second > 0
        return Pace.SLOWED if limited else self.decision.pace

    @property
    def reason(self) -> str:
        """Why not at full pace; "" when it is."""
        if self.decision.reason or not self.limits.rows_per_second:
            return self.decision.reason
        return f"at most {self.limits.rows_per_second:,} rows per second"

    @property
    def most_rows(self) -> int | None:
        """What a chunk of the next wave may have; None: any number."""
        return most_rows(self.limits, self.decision.chunks)

    def note(self, total: int) -> None:
        """Take in how many rows were read since the copy of the table began."""
        self._owed.note(max(0, total - self._done[-1][1]))
        self._done.append((self._clock(), total))

    def rate(self) -> float:
        """Rows per second during the last minute."""
        now = self._clock()
        while len(self._done) > 1 and self._done[1][0] < now - _WINDOW:
            self._done.popleft()
        (began, before), (_, last) = self._done[0], self._done[-1]
        seconds = now - max(began, now - _WINDOW)
        return (last - before) / seconds if seconds > 0 else 0.0

    def measured(self) -> str:
        """The readings as JSON, for the state."""
        return json.dumps(
            [[one.server, one.signal, None if one.value == inf else one.value, one.note] for one in self.readings]
        )

    def close(self) -> None:
        self._sampler.close()

    def _asked(self) -> Limits:
        try:
            with self._state.connect() as connection:
                return limits_of(self._settings, throttle.get(connection, self._settings.name))
        except DBAPIError as error:  # it is met again where the copy needs it
            log.warning("the throttle could not be asked", error=str(error.orig))
            return self.limits

    def _decide(self) -> None:
        before, self._fresh = self.decision, False
        self.decision = decide(self._level, self.limits, self._since)
        self._since = []
        if self.decision.pace is not Pace.PAUSED:
            self._level = self.decision.chunks
        if (before.pace, before.chunks) == (self.decision.pace, self.decision.chunks):
            return
        event = {
            Pace.FULL: "the copy goes on at full pace",
            Pace.SLOWED: "the copy is slowed",
            Pace.HELD: "the copy is held",
            Pace.PAUSED: "the copy is paused",
        }[self.decision.pace]
        log.info(event, table=self._table, chunks=self.decision.chunks, reason=self.decision.reason)
