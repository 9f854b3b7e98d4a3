"""The verification of one table as its driver sees it. Spark is not known here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from migrate.chunks.outcome import Problem
from migrate.chunks.planner import Planner
from migrate.chunks.retry import Retries
from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import MigrateError, ServerError, StopError
from migrate.settings import Settings
from migrate.target.routing import PlannedTable
from migrate.verify.chunk_check import MAX_BYTES, Checked, CheckJob, compare_chunk
from migrate.verify.difference import Kind, Verdict
from migrate.verify.generated import with_generated
from migrate.verify.lookup import BlindSpot
from migrate.verify.recheck import Difference, Hurry, RecheckOutcome, describe, look_again, look_up_keys
from migrate.verify.repair import Refresh, mendable
from migrate.verify.row_counts import ComparedRanges, unaccounted
from migrate.verify.verified import TableVerified

log = structlog.get_logger("migrate.verify")
MAX_TABLE_SUSPECTS = 20_000
"""Keys of one table that are looked at one by one; chunks beyond that as a whole."""
MAX_CROWDS = 64
"""Chunks that are looked at again as a whole."""


_COUNTS = ("rows", "target_rows", "estimate", "chunks_done", "chunks_planned")


@dataclass(slots=True)
class _Crowd:
    """A chunk with more suspects than it named."""

    chunk: Chunk
    more: int = 0
    keys: dict[Key, None] = field(default_factory=dict)


class TableCheck:
    """Plans and books the chunks of one table, then settles what differed. Call `wave` and `settle`, then `finish`.

    tables: the one, or all of a group, which are compared with their places as one.
    """

    def __init__(
        self,
        settings: Settings,
        tables: Sequence[PlannedTable],
        sessions: Sessions,
        sleep: Callable[[float], None] = time.sleep,
        refresh: Refresh | None = None,
        hurry: Hurry | None = None,
        follow: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        """refresh: repairs what differs; None: it is only named. hurry: as `looks.settle` takes it. follow: waits until
        the stream has brought what sources have logged by now."""
        self._hurry = hurry
        self._follow = follow
        self.unmended: MigrateError | None = None  # why what differs could not be refreshed
        self._refresh = refresh
        self._cover = ComparedRanges()
        self.rows = self.target_rows = self.estimate = self.chunks_done = self.chunks_planned = 0
        self.suspects: dict[Key, None] = {}
        self._settings = settings
        self._sessions = sessions
        self._sleep = sleep
        self._retries = Retries(settings, f"verification of {tables[0].table.full_name}", self._forget, sleep)
        self.tables = self._retries.call(lambda: tuple(with_generated(sessions, one) for one in tables))
        self.planned = self.tables[0]
        self._queue: deque[Chunk] = deque()
        self._ranges: dict[int, Chunk] = {}
        self._crowds: list[_Crowd] = []
        self._next: tuple[int, Key | None] | None = (0, None)
        self._pages: Iterator[Chunk] | None = None
        self._began = time.monotonic()
        self._before = 0.0  # seconds that former processes had it
        self._mended: dict[Key, Difference | None] = {}  # had refreshed; None: beyond those that are named

    def plan(self, size: int) -> None:
        """Plan so many chunks ahead of the first wave, before `begin`. Raises as `wave`."""
        self._retries.call(partial(self._plan, size))

    def begin(self) -> None:
        """From now on its seconds count."""
        self._began = time.monotonic()

    def wave(self, size: int) -> list[Chunk]:
        """Up to `size` chunks to compare next; none when all are out. Raises ServerError, PreflightError."""
        return self._retries.call(lambda: self._wave(size))

    def settle(self, results: Iterable[Checked]) -> None:
        """Book first looks at chunks. Raises StopError as a task met it, ServerError when servers stay away."""
        problems: list[Problem] = []
        done = 0
        for checked in results:
            chunk = self._ranges.pop(checked.chunk)
            if checked.problem is None:
                done += 1
                self._book(chunk, checked)
            else:
                problems.append(checked.problem)
                self._queue.appendleft(chunk)
        self._retries.judge(problems, succeeded=done > 0)

    def finish(self, keep: Callable[[], None] = lambda: None) -> TableVerified:
        """Look at what differed again, repair it where that is asked for, and name what still does.

        keep: called before rows are refreshed, to keep what they were. Where a refresh fails, what was found stays
        named, and `unmended` says why.
        """
        faults = self._unaccounted()
        try:
            crowded = self._disperse()
            looked = self._look_again()
            if self._refresh is not None:
                crowded, looked = self._repair(self._refresh, crowded, looked, keep)
        except BlindSpot as error:
            faults.append(error.message)
            crowded, looked = len(self.suspects), RecheckOutcome()
        named = [self._describe(key, verdict) for key, verdict in self._first(looked.verdicts)]
        not_fixed = {*looked.verdicts, *looked.moving}
        fixed = [key for key in self._mended if key not in not_fixed]
        table = self.planned.table
        return TableVerified(
            " + ".join(dict.fromkeys(one.table.full_name for one in self.tables)),
            " + ".join(dict.fromkeys(one.table.source for one in self.tables)),
            table.key,
            tuple(column.name for column in table.stored),
            len(self.planned.places),
            self.chunks_done,
            self.rows,
            self.target_rows,
            len(looked.verdicts) + crowded + len(faults),
            looked.in_motion,
            tuple(named),
            len(fixed),
            tuple(one for one in map(self._mended.get, fixed) if one is not None),
            self.seconds,
            tuple(faults),
            self.planned.nodes,
        )

    @property
    def differs(self) -> bool:
        """Whether anything is to be looked at again."""
        return bool(self.suspects or self._crowds)

    @property
    def seconds(self) -> float:
        """Since it began, without the time in which no process had it."""
        return self._before + time.monotonic() - self._began

    def dump(self) -> dict[str, Any]:
        """Where it stands, as JSON-ready values; chunks that are out count as not compared."""
        outstanding = [*self._ranges.values(), *self._queue]
        return {
            "next": self._next,
            "ranges": [(item.number, item.low, item.high) for item in outstanding],
            "suspects": list(self.suspects),
            "crowds": self._dump_crowds(),
            "mended": [(key, found and (found.kind, found.detail)) for key, found in self._mended.items()],
            "seconds": self.seconds,
            "covered": self._cover.parts(),
            **{name: getattr(self, name) for name in _COUNTS},
        }

    def load(self, body: Mapping[str, Any]) -> None:
        """Go on where another check of the table stood, as its `dump` says."""
        self._next = None if body["next"] is None else (int(body["next"][0]), _key(body["next"][1]))
        self._queue = deque(_range(one) for one in body["ranges"])
        self.suspects = dict.fromkeys(map(tuple, body["suspects"]))
        self._crowds = [
            _Crowd(_range(one), more, dict.fromkeys(map(tuple, keys))) for one, more, keys in body["crowds"]
        ]
        self._mended = {tuple(key): found and self._difference(key, *found) for key, found in body["mended"]}
        self._before = float(body["seconds"])
        self._cover = ComparedRanges((_key(low), _key(high)) for low, high in body["covered"])
        for name in _COUNTS:
            setattr(self, name, int(body[name]))

    # -- steps

    def _dump_crowds(self) -> list[tuple[tuple[int, Key | None, Key | None], int, list[Key]]]:
        """Those that are looked at again, and all others as one, which is only counted. Of their keys not more than
        are looked at one by one; the others are counted."""
        room, found = MAX_TABLE_SUSPECTS - len(self.suspects), []
        for crowd in self._crowds[:MAX_CROWDS]:
            keys = list(crowd.keys) if room > 0 else []
            room -= len(keys)
            bounds = (crowd.chunk.number, crowd.chunk.low, crowd.chunk.high)
            found.append((bounds, crowd.more + len(crowd.keys) - len(keys), keys))
        if others := self._crowds[MAX_CROWDS:]:
            first = others[0].chunk
            more = sum(crowd.more + len(crowd.keys) for crowd in others)
            found.append(((first.number, first.low, first.high), more, []))
        return found

    def _book(self, chunk: Chunk, checked: Checked) -> None:
        self.rows += checked.rows
        self.target_rows += checked.target_rows
        self.chunks_done += 1
        self._cover.add(chunk.low, chunk.high)
        found = checked.suspects
        if found.more:
            self._crowds.append(_Crowd(chunk, found.more, found.keys))
        elif len(self.suspects) < MAX_TABLE_SUSPECTS:
            self.suspects |= found.keys
        elif found.keys:
            self._crowds.append(_Crowd(chunk, len(found.keys), {}))

    def _unaccounted(self) -> list[str]:
        """Why the chunks may not have held every row, before anything is repaired."""
        fault, rows = self._cover.fault, self._settings.verify.chunk_rows
        found = [f"{self.planned.table.full_name}: {fault}"] if fault else []
        count = partial(unaccounted, self._sessions, self.tables, self.rows, self.target_rows, rows)
        found += self._retries.call(count)
        for told in found:
            log.error("rows are not accounted for", table=self.planned.table.full_name, reason=told)
        return found

    def _disperse(self, *, at_once: bool = False) -> int:
        """Look at crowded chunks again, whole; returns how many keys of them differ still and are not named.

        Where very many are crowded it is no matter of lag, and the others count as they were seen first.
        at_once: one look, without waiting.
        """
        verify, job = self._settings.verify, CheckJob(self._settings, self.tables)
        for left in range(1 if at_once else verify.rechecks, 0, -1):
            if not any(crowd.more for crowd in self._crowds):
                break
            log.info("looks again", table=self.planned.table.full_name, chunks=len(self._crowds), looks_left=left)
            if not at_once:
                self._pause(verify.recheck_seconds)
            for crowd in self._crowds[:MAX_CROWDS]:
                checked = self._retries.call(partial(compare_chunk, job, crowd.chunk))
                crowd.more, crowd.keys = checked.suspects.more, checked.suspects.keys
        for crowd in self._crowds:
            if len(self.suspects) < MAX_TABLE_SUSPECTS:
                self.suspects |= crowd.keys
            else:
                crowd.more += len(crowd.keys)
            crowd.keys = {}
        return sum(crowd.more for crowd in self._crowds)

    def _look_again(self) -> RecheckOutcome:
        look, verify = look_up_keys(self._sessions, self.tables), self._settings.verify
        return look_again(
            self.suspects,
            lambda keys: self._retries.call(partial(look, keys)),
            verify.rechecks,
            verify.recheck_seconds,
            self._sleep,
            self._hurry,
            self._pause,
        )

    def _pause(self, seconds: float) -> None:
        """At the next look everything is there that the sources had at the last one."""
        self._sleep(seconds)
        if self._follow is not None:
            self._follow({one.table.source for one in self.tables})

    def _repair(
        self, refresh: Refresh, crowded: int, looked: RecheckOutcome, keep: Callable[[], None]
    ) -> tuple[int, RecheckOutcome]:
        """Refresh what differs and look again, until nothing does or the rounds are used up."""
        mended = self._mended
        for _ in range(self._settings.verify.repair_rounds):
            wanted = mendable(looked.verdicts)
            if not wanted:
                break
            for key, verdict in self._first(looked.verdicts):
                if len(mended) < self._settings.verify.max_named:
                    mended.setdefault(key, self._describe(key, verdict))
            for key in wanted:
                mended.setdefault(key, None)
            keep()
            try:
                refresh(self.planned, wanted)
            except (StopError, ServerError) as error:
                log.error("not repaired", table=self.planned.table.full_name, reason=error.message)
                self.unmended = error
                break
            self.suspects = dict.fromkeys([*looked.verdicts, *looked.moving])
            crowded = self._disperse(at_once=True)
            looked = self._look_again()
        return crowded, looked

    def _first(self, verdicts: Mapping[Key, Verdict]) -> list[tuple[Key, Verdict]]:
        return list(verdicts.items())[: self._settings.verify.max_named]

    def _difference(self, key: Sequence[str], kind: str, detail: str) -> Difference:
        return Difference(self.planned.table.full_name, tuple(key), Kind(kind), detail)

    def _describe(self, key: Key, verdict: Verdict) -> Difference:
        return self._retries.call(partial(describe, self._sessions, self.planned, key, verdict))

    def _wave(self, size: int) -> list[Chunk]:
        self._plan(size)
        chosen = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
        self._ranges.update((item.number, item) for item in chosen)
        return chosen

    def _plan(self, size: int) -> None:
        """Have so many chunks in the queue."""
        if self._pages is None and self._next is not None:
            first, *others = [
                Planner(self._sessions.source(one.table.source), one.table, self._settings.verify.chunk_rows).bounded(
                    MAX_BYTES
                )
                for one in self.tables
            ]
            self.estimate = self.estimate or sum(planner.estimate() for planner in (first, *others))
            self._pages = first.covering(*self._next, others)
        while self._pages is not None and len(self._queue) < size:
            page = next(self._pages, None)
            if page is None:
                break
            self._queue.append(page)
            self._next = None if page.high is None else (page.number + 1, page.high)
            self.chunks_planned += 1

    def _forget(self) -> None:
        self._sessions.close()
        self._pages = None


def _key(parts: Sequence[str] | None) -> Key | None:
    return None if parts is None else tuple(parts)


def _range(parts: Sequence[Any]) -> Chunk:
    number, low, high = parts
    return Chunk(int(number), _key(low), _key(high))
