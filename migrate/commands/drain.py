"""Waiting until everything the sources have logged is at the target."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.words import counted, duration
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import stop_reason
from migrate.state.pending_markers import Generations
from migrate.status import snapshot_reading
from migrate.status.snapshot import Snapshot
from migrate.verify.catch_up import topic_ends

_POLL = 0.5
_JUST_ASKED = timedelta(seconds=60)
"""A partition that was refused so shortly after somebody asked for another try may have been tried from before that."""
_COMES_BACK = 60.0
"""Seconds that a delete which has come back takes at most to be applied."""
_STARTING = 10.0
"""Seconds in which a process that was just started again has taken back why it stopped the last time."""


def drain(
    settings: Settings,
    state: sa.Engine,
    timeout_seconds: float,
    progress: Callable[[Snapshot], None] = lambda _status: None,
) -> Snapshot:
    """Wait until the target has what the sources had logged when this was called, and no delete waits to come back.
    What is written meanwhile is not waited for.

    Asks the consumer to merge at once. Raises: StopError when a process stopped, a partition is stopped, or the broker
    lost what it had acknowledged; ServerError on time-out.
    """
    ends = snapshot_reading.source_ends(settings, state)
    goal = _Goal(settings, state)
    began = time.monotonic()
    deadline = began + timeout_seconds
    from_before: set[tuple[str, datetime]] | None = None
    first_seen: dict[str, datetime] = {}
    while True:
        with state.begin() as connection:
            migrations.ask_drain(connection, settings.name)
        now = snapshot_reading.read(settings, state, ends)
        progress(now)
        if goal.reached(now):
            topic_ends(settings, state, [source.name for source in settings.sources], {})
            return now
        with state.connect() as connection:
            stopped = stop_reason.settled(connection, settings.name)
            asked = migrations.retry_asked(connection, settings.name)
        if from_before is None:
            from_before = {(one.process, one.at) for one in stopped}
        for process, reason, hint, at, *_ in stopped:
            if process == process_names.CHECK:  # it only looks
                continue
            just_asked = asked is not None and stop_reason.is_partition(process) and at - asked < _JUST_ASKED
            if just_asked and first_seen.setdefault(process, at) == at:
                continue
            if (process, at) in from_before and time.monotonic() - began < _STARTING:
                continue
            raise StopError(f"{process} is stopped: {reason}", hint=hint, code=Code.STOPPED)
        if time.monotonic() > deadline:
            hint = _hint(settings, now, timeout_seconds)
            raise ServerError(f"not drained within {timeout_seconds:.0f} s: {left(now)}", hint=hint)
        time.sleep(_POLL)


class _Goal:
    """Up to where the target must have come: known once the publishers have come to the sources' ends."""

    def __init__(self, settings: Settings, state: sa.Engine) -> None:
        self._state = state
        self._generations = Generations(settings.name)
        self._were_sent = False
        self._ends: dict[tuple[str, int], int] = {}  # of partitions

    def reached(self, now: Snapshot) -> bool:
        """Whether everything is there. Deletes wait only while a copy is open, so that they become no more after it."""
        if now.gone or not all(source.caught_up for source in now.sources):
            return False
        with self._state.connect() as connection:
            if not self._ends:
                were_sent, self._were_sent = self._were_sent, self._generations.sent(connection)
                if not (were_sent or self._generations.none_yet):
                    return False  # `now` may be from before the last of them
                self._ends = self._read(now)
            if self._ends.keys() != self._read(now).keys():
                self._ends = self._read(now)
            behind = any(part.consumed < self._ends[part.topic, part.partition] for part in now.partitions)
            if behind or now.returning or now.lacking:
                return False
            if self._generations.last(connection):
                return True
        self._ends, self._were_sent = {}, False
        return False

    @staticmethod
    def _read(now: Snapshot) -> dict[tuple[str, int], int]:
        return {(part.topic, part.partition): part.end for part in now.partitions}


def _hint(settings: Settings, now: Snapshot, timeout_seconds: float) -> str:
    if now.empty_deletes and not now.waiting_messages and all(source.caught_up for source in now.sources):
        longest = max(settings.delay.tiers_seconds)
        told = f"an empty delete comes back after up to {duration(longest)} (the longest of delay.tiers_seconds)"
        if longest < timeout_seconds:
            return f"{told}: run it again after that"
        wanted = ceil(longest + _COMES_BACK)
        return f"{told}, which --timeout does not wait for: run `migrate drain --timeout {wanted}`"
    if now.outdated and not now.waiting_messages:
        return "keys that update_time skipped are refreshed once their table is copied: see `migrate status`"
    if now.lacking and not now.waiting_messages:
        return "the consumer finds by itself what a target lost, within consume.compare_seconds"
    return "check that `migrate run` is running"


def left(now: Snapshot) -> str:
    """What is not at the target yet, in a line."""
    parts = [
        f"source '{item.name}' is published to {item.published or 'nothing'}"
        for item in now.sources
        if not item.caught_up
    ]
    parts += [f"topic {name} is not at the broker" for name in sorted(now.gone)]
    parts.append(
        f"{counted(now.waiting_messages, 'message')}, {counted(now.records.get('new', 0), 'record')},"
        f" {counted(now.empty_deletes, 'empty delete')}, {counted(now.waiting_markers, 'marker')} waiting"
        + (f", {counted(now.outdated, 'key')} skipped by update_time" if now.outdated else "")
    )
    return "; ".join(parts)
