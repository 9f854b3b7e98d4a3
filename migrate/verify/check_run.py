"""One run of the scheduled check: compare, look again once the stream has passed, record, repair."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import ServerError, StopError
from migrate.model.table import TableId
from migrate.state import check
from migrate.target.routing import Plan, PlannedTable
from migrate.verify.check_units import Unit, begun, due
from migrate.verify.compare_range import Comparison, Settled
from migrate.verify.recheck import settle
from migrate.verify.repair import mendable, refresher

log = structlog.get_logger("migrate.check")
MOST_NAMED = 1000
"""Keys of one table that are recorded; what is beyond them comes once some are gone."""
_MARKED = 10  # chunks that agree, noted at once

Write = Callable[[Callable[[sa.Connection], None]], None]
"""Runs an action in a transaction of the state, which commits only while the lease is ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    counts: check.CheckCounts
    differences: int  # known now, those of earlier runs included
    seconds: float


@dataclass(slots=True)
class _Compared:
    unit: Unit
    rows: int
    suspects: Collection[Key]
    more: bool  # keys that are not named differ too


class CheckRun:
    """For one thread, and used once."""

    def __init__(self, plan: Plan, state: sa.Engine, write: Write, sleep: Callable[[float], None] = time.sleep) -> None:
        """sleep: waits so many seconds; what it raises ends the run."""
        self._plan = plan
        self._name = plan.settings.name
        self._state = state
        self._write = write
        self._comparison = Comparison(plan.settings, state, sleep)
        self._compared: list[_Compared] = []
        self._known: dict[TableId, set[Key]] = {}
        self._unmended: ServerError | None = None

    def run(self) -> Outcome:
        """Compare up to `check.chunks` chunks. Raises StopError for a table that cannot be compared, after the others;
        ServerError when servers stay away."""
        began = time.monotonic()
        comparison = self._comparison
        try:
            self._load_known()
            self._compare()
            judged, found = comparison.settle()
            for one in found:
                self._record(one)
            self._mark(judged, found)
            repaired = self._repair(found)
        finally:
            comparison.close()
        in_motion = sum(one.looked.in_motion for one in found) + comparison.more
        counts = check.CheckCounts(comparison.chunks, comparison.rows, in_motion, repaired)
        seconds = round(time.monotonic() - began, 3)
        self._write(lambda connection: check.finish(connection, self._name, counts, seconds))
        for error in (*comparison.failed.values(), self._unmended):
            if error is not None:
                raise error
        with self._state.connect() as connection:
            return Outcome(counts, check.count(connection, self._name), seconds)

    def _load_known(self) -> None:
        """What differed at earlier runs is looked at in each, until it agrees."""
        with self._state.connect() as connection:
            tables = {one[0].table.id: one for one in begun(connection, self._plan)}
            found = check.every(connection, self._name)
        for one in found:
            if one.id in tables:
                self._known.setdefault(one.id, set()).add(tuple(json.loads(one.key)))
        for id_, keys in self._known.items():
            self._comparison.suspect(tables[id_], sorted(keys))
        if gone := {one.id for one in found} - tables.keys():
            self._write(lambda connection: check.forget(connection, self._name, gone))

    def _compare(self) -> None:
        comparison, limit = self._comparison, self._plan.settings.check.chunks
        for unit in due(self._state, self._plan, self._page):
            comparison.sleep(0)
            if unit.tables[0].table.id in comparison.failed:
                continue
            try:
                checked = comparison.compare(unit)
            except StopError as error:
                comparison.fail(unit.tables, error)
                continue
            suspects = checked.suspects
            self._compared.append(_Compared(unit, checked.rows, suspects.keys, suspects.more > 0))
            if len(self._compared) >= _MARKED and not any(one.suspects for one in self._compared):
                self._mark(True)
            if comparison.chunks >= limit or comparison.full:
                break

    def _page(self, tables: Sequence[PlannedTable], low: Key | None) -> Chunk | None:
        """None for tables that failed."""
        comparison = self._comparison
        if tables[0].table.id not in comparison.failed:
            try:
                return comparison.page(tables, low)
            except StopError as error:
                comparison.fail(tables, error)
        return None

    def _record(self, settled: Settled) -> None:
        tables, looked = settled.tables, settled.looked
        table = tables[0].table
        known = self._known.get(table.id, set())
        new = set([key for key in looked.verdicts if key not in known][: max(0, MOST_NAMED - len(known))])
        try:
            named = [
                self._comparison.describe(tables[0], key, verdict)
                for key, verdict in looked.verdicts.items()
                if key in known or key in new
            ]
        except StopError as error:
            self._comparison.fail(tables, error)
            return
        for key in new:
            log.error("a difference", table=table.full_name, key=list(key), kind=looked.verdicts[key].kind.value)

        def write(connection: sa.Connection) -> None:
            check.clear(connection, self._name, table.id, [key for key in settled.agreed if key in known])
            check.put(connection, self._name, table.id, [(one.key, one.kind.value, one.detail) for one in named])

        self._write(write)

    def _repair(self, found: list[Settled]) -> int:
        """Have what differs refreshed, and forget what agrees then; returns how many keys that are.

        What cannot be refreshed stays named, and `run` says why at its end.
        """
        comparison, repaired = self._comparison, 0
        settings = comparison.settings
        if not settings.check.repair:
            return 0
        refresh = refresher(self._plan.settings, self._state, comparison.sleep)
        for tables, keys in ((one.tables, mendable(one.looked.verdicts)) for one in found):
            if not keys or tables[0].table.id in comparison.failed:
                continue
            try:
                refresh(tables[0], keys)
            except StopError as error:
                comparison.fail(tables, error)
                continue
            except ServerError as error:  # nobody carries requests out, those of other tables neither
                self._unmended = error
                break
            looks = comparison.looks(tables, keys)
            settle(
                [looks], settings.verify.rechecks, settings.verify.recheck_seconds, comparison.sleep, comparison.hurry
            )
            repaired += len(looks.agreed)
            self._write(partial(check.clear, migration=self._name, id_=tables[0].table.id, keys=looks.agreed))
        return repaired

    def _mark(self, judged: bool, found: Sequence[Settled] = ()) -> None:
        """Note what was compared; what could not be judged comes again in the next run, and what is above it.

        So does a chunk with more keys than were named, unless one that was named differs, and so is known: a table
        that lost many rows does not keep the others waiting.
        """
        differ = {one.tables[0].table.id: one.looked.verdicts for one in found}
        waiting: set[TableId] = set()
        done: list[_Compared] = []
        for one in self._compared:
            id_ = one.unit.tables[0].table.id
            again = bool(one.suspects) and (not judged or id_ in self._comparison.failed)
            if one.more:
                repairs = self._plan.settings.check.repair
                again |= repairs or not any(key in differ.get(id_, {}) for key in one.suspects)
            if again or (not one.unit.copied and id_ in waiting):
                waiting |= set() if one.unit.copied else {id_}
            else:
                done.append(one)

        def write(connection: sa.Connection) -> None:
            for one in done:
                one.unit.mark(connection, self._name, one.rows)

        if done:
            self._write(write)
        self._compared = []
