"""Key ranges compared without Spark, and what differed looked at again once the stream has passed.

The servers compute the checksums. Live writes are no differences: nothing is judged before everything that the sources
had logged at the first look is at the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
import structlog

from migrate.chunks.outcome import may_pass
from migrate.chunks.planner import Planner
from migrate.chunks.retry import Retries
from migrate.chunks.sessions import Sessions, forget, kept
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.table import TableId
from migrate.settings import Settings
from migrate.state import position
from migrate.target.routing import PlannedTable
from migrate.verify.catch_up import CatchUp, come
from migrate.verify.check_units import Unit, first_page
from migrate.verify.chunk_check import MAX_BYTES, Checked, CheckJob, compare_chunk
from migrate.verify.difference import Verdict
from migrate.verify.generated import WithGenerated
from migrate.verify.lookup import Seen, look_up
from migrate.verify.recheck import Difference, Recheck, RecheckOutcome, describe, hurrier, settle

log = structlog.get_logger("migrate.check")
MAX_SUSPECTS = 4000
"""Keys that are looked at again; at more no further range is compared."""
_ASK_SECONDS = 1.0
_LEAST_LOOKS = 2  # after the stream has passed: a row that changes all the time is seen to
T = TypeVar("T")
Tables = tuple[PlannedTable, ...]


class _Behind(Exception):  # noqa: N818 - an answer, and no error
    """The stream did not come to what a look saw."""


@dataclass(frozen=True, slots=True)
class SettledSuspects:
    """What became of the suspects of tables that share their places."""

    tables: Tables
    agreed: list[Key]
    looked: RecheckOutcome


class Comparison:
    """For one thread; `close` when it is done."""

    def __init__(self, settings: Settings, state: sa.Engine, sleep: Callable[[float], None] = time.sleep) -> None:
        """sleep: waits so many seconds; what it raises ends the comparison."""
        self.settings = position.where_read(state, settings)
        self._asked = settings  # with every address of a source
        self.sleep = sleep
        self.chunks = self.rows = self.target_rows = 0
        self.more = 0  # keys that differed in chunks at the first look, and are not looked at again
        self.failed: dict[TableId, StopError] = {}  # by the first of tables that share their places
        self._found = 0
        self._state = state
        self.hurry = hurrier(self.settings, state)
        self._retries = Retries(self.settings, "check", forget, sleep)
        self._suspects: dict[TableId, tuple[Tables, dict[Key, None]]] = {}
        self._generated = WithGenerated()

    def close(self) -> None:
        forget()

    @property
    def sessions(self) -> Sessions:
        """This thread's sessions."""
        return kept(self.settings)

    def call(self, step: Callable[[], T]) -> T:
        """Do a step on the servers, again while they are away. Raises ServerError when that took too long."""
        return self._retries.call(step)

    @property
    def full(self) -> bool:
        """Whether as many suspects were found as are looked at again; those of earlier runs do not count."""
        return self._found >= MAX_SUSPECTS

    def fail(self, tables: Sequence[PlannedTable], error: StopError) -> None:
        """Tables cannot be compared: they are left out from now on, with their suspects."""
        log.error("a table cannot be compared", table=tables[0].table.full_name, reason=error.message)
        self.failed.setdefault(tables[0].table.id, error)
        self._suspects.pop(tables[0].table.id, None)

    def page(self, tables: Sequence[PlannedTable], low: Key | None) -> Chunk:
        """The first page of tables that share their places above a bound. Raises StopError, ServerError."""

        def plan() -> Chunk:
            rows = self.settings.verify.chunk_rows
            planners = [
                Planner(self.sessions.source(one.table.source), one.table, rows).bounded(MAX_BYTES) for one in tables
            ]
            return first_page(planners, low)

        return self._call_for(tables[0], plan)

    def compare(self, unit: Unit) -> Checked:
        """Compare a range, and keep its suspects. Raises StopError for one that cannot be compared, ServerError."""
        job = CheckJob(self.settings, self._whole(unit.tables), json_types=True)
        checked = self.call(partial(compare_chunk, job, unit.chunk))
        self.chunks += 1
        self.rows += checked.rows
        self.target_rows += checked.target_rows
        self._found += self.suspect(unit.tables, checked.suspects.keys)
        if checked.suspects.more:
            self.more += checked.suspects.more
            name = unit.tables[0].table.full_name
            log.warning("more keys differ in a chunk than are looked at", table=name, more=checked.suspects.more)
        return checked

    def suspect(self, tables: Tables, keys: Iterable[Key]) -> int:
        """Have keys looked at; returns how many were none yet."""
        _, known = self._suspects.setdefault(tables[0].table.id, (tables, {}))
        before = len(known)
        known.update(dict.fromkeys(keys))
        return len(known) - before

    def looks(self, tables: Tables, keys: Iterable[Key]) -> Recheck:
        """Looks at keys of tables, which fail when they cannot be looked at."""
        return Recheck(keys, self.look(tables), partial(self.fail, tables))

    def settle(self) -> tuple[bool, list[SettledSuspects]]:
        """Look at the suspects until they agree or are judged, the stream passing between any two looks; False: none is
        judged, as it did not pass, or a publisher reads another server by now than the rows were read at.

        Tables that failed are left out.
        """
        everything = [(tables, self.looks(tables, keys)) for tables, keys in self._suspects.values() if keys]
        verify, looks = self.settings.verify, [one for _, one in everything]
        for one in looks:
            one.take()

        def pause(seconds: float) -> None:
            """So that at the next look everything is there that the sources had at the last one."""
            self.sleep(seconds)
            if not self.passes([tables for tables, some in everything if some.left]):
                raise _Behind
            for tables, some in everything:
                if tables[0].table.id in self.failed:
                    some.drop()

        judged = True
        if any(one.left for one in looks):
            try:
                pause(verify.recheck_seconds)
                rechecks = max(_LEAST_LOOKS, verify.rechecks)
                settle(looks, rechecks, verify.recheck_seconds, self.sleep, self.hurry, pause)
            except _Behind:
                judged = False
            else:
                judged = not self.moved()
                if not judged:
                    log.warning("a publisher reads another server now: this comparison does not count")
        return judged, [
            SettledSuspects(tables, one.agreed, one.outcome() if judged else RecheckOutcome(in_motion=one.left))
            for tables, one in everything
            if tables[0].table.id not in self.failed
        ]

    def moved(self) -> bool:
        """Whether a publisher reads another server by now than this compares with."""
        return position.where_read(self._state, self._asked).sources != self.settings.sources

    def look(self, tables: Tables) -> Callable[[list[Key]], dict[Key, Seen]]:
        return lambda keys: self._call_for(tables[0], lambda: look_up(self.sessions, self._whole(tables), keys))

    def describe(self, planned: PlannedTable, key: Key, verdict: Verdict) -> Difference:
        return self._call_for(planned, lambda: describe(self.sessions, self._whole((planned,))[0], key, verdict))

    def _whole(self, tables: Tables) -> Tables:
        return self.call(lambda: self._generated.of(self.sessions, tables))

    def _call_for(self, planned: PlannedTable, step: Callable[[], T]) -> T:
        """As `call`. Raises StopError for what a table would meet again, as when a target table is gone."""
        try:
            return self.call(step)
        except ServerError as error:
            if may_pass(error):
                raise
            raise StopError(
                f"{planned.table.full_name}: {error.message}", hint=error.given, code=Code.SOURCE
            ) from error

    def passes(self, everything: Collection[Tables]) -> bool:
        """Wait until what the sources of tables have logged by now is at the target; False when that took too long.

        Tables whose topic is gone fail.
        """
        sources = {one.table.source for tables in everything for one in tables}
        catch_up = self.call(lambda: CatchUp(self._asked, self._state, sources))
        between = min(_ASK_SECONDS, self.settings.verify.recheck_seconds)
        if not come(lambda: self.call(catch_up.passed), sources, self.settings.check.wait_seconds, self.sleep, between):
            log.warning("the stream is behind, nothing is judged", sources=sorted(sources))
            return False
        for tables in everything:
            if gone := catch_up.gone.get(tables[0].topic or self.settings.topic):
                self.fail(
                    tables, StopError(f"{tables[0].table.full_name}: {gone.message}", hint=gone.given, code=Code.TOPIC)
                )
        return True
