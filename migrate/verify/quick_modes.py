"""Quick verifications by name, without Spark: in order, a random sample, counts and last keys."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

import sqlalchemy as sa

from migrate.chunks.chosen_tables import chosen_tables
from migrate.model.change import Key, key_json
from migrate.model.errors import DifferenceFound, PreflightError
from migrate.model.words import counted
from migrate.settings import Settings
from migrate.state import chunks, leading, position, replay
from migrate.target.home import named
from migrate.target.routing import Plan, PlannedTable
from migrate.verify import counts
from migrate.verify.check_units import Unit, copied, together
from migrate.verify.compare_range import Comparison, Tables
from migrate.verify.scope import unlike_by_now


class Mode(StrEnum):
    ORDER = "order"  # ranges in the order of the key, from the first on
    SAMPLE = "sample"  # ranges chosen at random
    COUNT = "count"  # rows counted, last keys looked up


@dataclass(slots=True)
class TableReport:
    """What was found of one table, or of the tables of a group together."""

    table: str
    chunks: int = 0
    rows: int = 0  # at the source
    target_rows: int = 0
    by_place: dict[str, int] = field(default_factory=dict)  # rows; mode count alone
    nodes: int = 1  # of a broadcast table, at either side: each has as many rows as the source
    last_key: list[str] | None = None  # mode count alone
    counts_differ: bool = False
    differences: int = 0
    in_motion: int = 0  # keys that were not judged, or more where that is not known
    named: list[dict[str, Any]] = field(default_factory=list)
    unaccounted: list[str] = field(default_factory=list)  # places that cannot hold the rows as they are


@dataclass(frozen=True, slots=True)
class QuickReport:
    """What a quick verification found. It is no certificate: it does not compare every row."""

    mode: Mode
    tables: list[TableReport]
    seconds: float

    @property
    def clean(self) -> bool:
        return not any(one.differences or one.in_motion or one.counts_differ or one.unaccounted for one in self.tables)

    def as_dict(self) -> dict[str, Any]:
        tables = [asdict(one) for one in self.tables]
        return {"mode": self.mode.value, "clean": self.clean, "seconds": self.seconds, "tables": tables}

    def lines(self) -> list[str]:
        """The report for people."""
        lines = []
        for one in self.tables:
            looked = f" in {counted(one.chunks, 'chunk')}" if self.mode is not Mode.COUNT else ""
            nodes = f", a broadcast table of {one.nodes} nodes" if one.nodes > 1 else ""
            told = f"{one.table}{nodes}: {counted(one.rows, 'row')} at the source, {_there(one)}{looked}"
            told += f", last key {one.last_key}" if one.last_key else ""
            told += f", {counted(one.differences, 'difference')}"
            lines.append(told + (f", {counted(one.in_motion, 'key')} not judged" if one.in_motion else ""))
            lines += [f"  {item['kind']} {key_json(item['key'])}: {item['detail']}" for item in one.named]
            lines += [f"  not accounted for: {told}" for told in one.unaccounted]
        return lines

    def raise_first(self) -> None:
        """Raises DifferenceFound unless nothing differs."""
        for one in self.tables:
            if one.differences:
                first = f"; first: key {key_json(one.named[0]['key'])} {one.named[0]['kind']}" if one.named else ""
                raise DifferenceFound(
                    f"{one.table}: {counted(one.differences, 'difference')}{first}", hint="`migrate verify` names all"
                )
            if one.counts_differ:
                raise DifferenceFound(
                    f"{one.table}: {one.rows} rows at the source, {_there(one)}",
                    hint="`migrate verify` names the rows",
                )
            if one.unaccounted:
                raise DifferenceFound(f"not accounted for: {one.unaccounted[0]}", hint="`migrate verify` names all")
        if not self.clean:
            raise DifferenceFound(
                "not judged: rows kept changing, or the stream did not bring them in time",
                hint="run `migrate drain`, then try again",
            )


def _there(one: TableReport) -> str:
    """How many rows are at the target, for people."""
    if one.nodes > 1 and one.by_place:
        return ", ".join(f"{rows} at {place}" for place, rows in one.by_place.items())
    return f"{one.target_rows} at the target"


def run(
    settings: Settings,
    plan: Plan,
    state: sa.Engine,
    mode: Mode,
    names: Sequence[str] | None = None,
    chunks: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> QuickReport:
    """Look at every table, or at those named "database.table"; a group is looked at as a whole.

    chunks: of each table, at most; None: all. Raises: PreflightError while a source is being replayed, and for a table
    that is not copied; ConfigError for an unknown table; StopError for a row that cannot be compared; ServerError.
    """
    wanted = {one.table.id for one in chosen_tables(settings, state, names)}
    chosen = [tables for tables in together(plan) if any(one.table.id in wanted for one in tables)]
    with state.connect() as connection:
        leading.refuse_unless(connection, plan.settings.name, "verify")
        done = copied(connection, plan)
    for tables in chosen:
        if tables[0].table.id not in done:
            raise PreflightError(
                f"{tables[0].table.full_name}: its copy is not finished, so rows not copied yet would count as missing",
                hint=f"{_way(state, settings, tables)}, then try again; or choose other tables with --table",
            )
    sources = [one.table.source for tables in chosen for one in tables]
    for source, until in replay.sources(state, settings.name, sources).items():
        raise PreflightError(
            f"source '{source}' is being replayed up to {until}, and rows go back until then",
            hint="run `migrate drain`, then try again",
        )
    began = time.monotonic()
    found = []
    for tables in chosen:
        comparison = Comparison(settings, state, sleep)
        try:
            found.append(_table(comparison, state, tables, mode, chunks))
        finally:
            comparison.close()
    every = [one for tables in chosen for one in tables]
    definitions = {id_: one.table for id_, one in plan.tables.items()}
    unlike = unlike_by_now(position.where_read(state, settings), every, definitions)
    for looked, tables in zip(found, chosen, strict=True):
        ids = [id_ for one in tables for id_ in (one.table.id, *one.mirrors)]
        looked.unaccounted = [told for id_ in ids for told in unlike.get(id_, ())]
    return QuickReport(mode, found, round(time.monotonic() - began, 1))


def _way(state: sa.Engine, settings: Settings, tables: Tables) -> str:
    """To their copy."""
    with state.connect() as connection:
        begun = [position.load(connection, settings.name, one.table.source) for one in tables]
    return "`migrate copy`" if all(begun) else "start `migrate run`, then `migrate copy`"


def _table(comparison: Comparison, state: sa.Engine, tables: Tables, mode: Mode, chunks: int | None) -> TableReport:
    looked = TableReport(" + ".join(dict.fromkeys(one.table.full_name for one in tables)), nodes=tables[0].nodes or 1)
    if mode is Mode.COUNT:
        _last_keys(comparison, tables, looked)
        judged = _count(comparison, tables, looked)
    else:
        judged = True
        for unit in _units(comparison, state, tables, mode, chunks):
            if comparison.full:
                judged = False
                break
            comparison.compare(unit)
        looked.chunks, looked.rows, looked.target_rows = comparison.chunks, comparison.rows, comparison.target_rows
        looked.in_motion += comparison.more
    passed, settled = comparison.settle()
    for error in comparison.failed.values():
        raise error
    for one in settled:
        looked.differences += len(one.looked.verdicts)
        looked.in_motion += one.looked.in_motion
        for key, verdict in list(one.looked.verdicts.items())[: comparison.settings.verify.max_named]:
            item = comparison.describe(tables[0], key, verdict)
            looked.named.append({"key": list(item.key), "kind": item.kind.value, "detail": item.detail})
    if not (judged and passed):
        looked.in_motion = max(1, looked.in_motion)
    return looked


# -- in order, and at random


def _units(comparison: Comparison, state: sa.Engine, tables: Tables, mode: Mode, chunks: int | None) -> Iterable[Unit]:
    if mode is Mode.ORDER:
        return _in_order(comparison, tables, None, chunks)
    return _sample(comparison, state, tables, chunks or 1)


def _in_order(comparison: Comparison, tables: Tables, low: Key | None, chunks: int | None) -> Iterator[Unit]:
    number = 0
    while chunks is None or number < chunks:
        page = comparison.page(tables, low)
        yield Unit(tables, page, copied=False)
        if page.high is None:
            return
        low, number = page.high, number + 1


def _sample(comparison: Comparison, state: sa.Engine, tables: Tables, most: int) -> Iterator[Unit]:
    """Chunks of the copy, and one page above them; of a group, whose chunks do not bound each other's rows, and of a
    table without chunks, pages from random rows on. most: how many together."""
    settings, table = comparison.settings, tables[0].table
    with state.connect() as connection:
        drawn = [] if tables[0].group else chunks.sample(connection, settings.name, table, most)
        last = chunks.last_bound(connection, settings.name, table)
    if drawn:
        for chunk in drawn[: max(1, most - 1)]:
            yield Unit(tables, chunk, copied=False)
        if most > 1:
            yield Unit(tables, comparison.page(tables, last), copied=False)
        return
    yield from _in_order(comparison, tables, None, 1)
    for _ in range(most - 1):
        one = random.choice(tables)  # noqa: S311 - which rows to look at
        if rows := _rows(comparison, one):
            offset = random.randrange(rows)  # noqa: S311
            low = comparison.call(partial(_key_at, comparison, one, offset))
            yield from _in_order(comparison, tables, low, 1)


def _rows(comparison: Comparison, planned: PlannedTable) -> int:
    return comparison.call(lambda: counts.source_count(comparison.sessions.source(planned.table.source), planned))


def _key_at(comparison: Comparison, planned: PlannedTable, offset: int) -> Key | None:
    return counts.key_at(comparison.sessions.source(planned.table.source), planned, offset)


# -- counts and last keys


def _count(comparison: Comparison, tables: Tables, looked: TableReport) -> bool:
    """Count until both sides agree, or the difference stays the same once the stream has passed; False when it does
    not, or the stream did not pass."""
    verify, differences = comparison.settings.verify, set()
    if not _missing(comparison, tables, looked):
        return True
    if not comparison.passes([tables]) or comparison.failed:
        return False
    for left in range(max(2, verify.rechecks), -1, -1):
        missing = _missing(comparison, tables, looked)
        if not missing:
            return True
        differences.add(missing)
        if not left:
            break
        comparison.sleep(verify.recheck_seconds)
    looked.counts_differ = len(differences) == 1
    return looked.counts_differ


def _missing(comparison: Comparison, tables: Tables, looked: TableReport) -> int:
    """Count once; how many rows the source has more."""
    looked.rows = sum(_rows(comparison, one) for one in tables)
    by_place = comparison.call(lambda: counts.place_counts(comparison.sessions.targets, tables[0]))
    looked.by_place = {str(place): rows for place, rows in zip(tables[0].places, by_place, strict=True)}
    looked.target_rows = sum(by_place)
    each = by_place if tables[0].broadcast else [looked.target_rows]  # each node of a broadcast table has every row
    for one in tables[0].mirror_tables:
        rows = _rows(comparison, replace(tables[0], table=one))
        looked.by_place[named(one.id)] = rows
        each.append(rows)
    return next((looked.rows - one for one in each if one != looked.rows), 0)


def _last_keys(comparison: Comparison, tables: Tables, looked: TableReport) -> None:
    """Have the last keys of both sides looked at: each must be on the other side, in its place."""

    def read() -> None:
        sessions = comparison.sessions
        mirrors = [replace(tables[0], table=one) for one in tables[0].mirror_tables]
        last = [counts.last_key(sessions.source(one.table.source), one) for one in (*tables, *mirrors)]
        there = [key for key in last if key is not None]
        beyond = counts.last_beyond(sessions.targets, tables[0], there)
        comparison.suspect(tables, [*there, *beyond])
        looked.last_key = list(there[0]) if there else None

    comparison.call(read)
