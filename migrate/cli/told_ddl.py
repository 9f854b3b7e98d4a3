"""How DDL over shards is told: a plan, a run, and the progress of one."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from rich.live import Live
from rich.table import Table

from migrate.cli.options import out
from migrate.ddl.plan import Plan, ShardPlan
from migrate.ddl.runner import RunReport
from migrate.ddl.shards import GroupProgress
from migrate.ddl.unreached import way_out
from migrate.model.words import counted, some
from migrate.state.ddl import ShardRow, Stage
from migrate.terminal import Printable, console

_NAMED = 8  # source tables of a group
_SHOWN = 40
"""Shard tables in a progress table: more do not fit on a screen, and those that are over go first."""


def plan_json(plan: Plan) -> dict[str, Any]:
    """For programs."""
    return {
        "statement": plan.logical.sql,
        "table": plan.logical.name,
        "loses": plan.loses,
        "undo_loses": plan.undo_loses,
        "problems": [asdict(one) for one in plan.problems],
        "shards": [_shard_json(plan, one) for one in plan.shards],
    }


def _shard_json(plan: Plan, one: ShardPlan) -> dict[str, Any]:
    trial, around, shard = one.trial, one.around, one.shard
    return {
        "shard": str(shard),
        "side": shard.side,
        "statement": plan.logical.for_table(shard.database, shard.table, trial.level),
        "algorithm": trial.level.algorithm,
        "lock": trial.level.lock,
        "rows": around.rows,
        "bytes": around.bytes,
        "foreign_keys": [name for name, _ in (*around.parents, *around.children)],
        "triggers": [name for name, _ in around.triggers],
        "in_the_way": one.in_the_way,
        "undo": one.undo() or None,
        "undo_algorithm": trial.undo_level.algorithm if trial.undo else None,
        "not_undone_because": trial.why_not or None,
        "refused": trial.refused or None,
        "notes": trial.notes,
    }


def tell_plan(plan: Plan) -> None:
    """Print a plan: a line for each shard table, then what all of them have in common."""
    for one in plan.shards:
        around, beside = one.around, []
        if keys := len(around.parents) + len(around.children):
            beside.append(counted(keys, "foreign key"))
        if around.triggers:
            beside.append(counted(len(around.triggers), "trigger"))
        told = "refused" if one.trial.refused else one.trial.level.told if plan.logical.is_alter else "at once"
        more = f", {', '.join(beside)}" if beside else ""
        out.print(
            f"{one.shard.side} {one.shard}: {told}; about {around.rows:,} rows, {around.bytes / 1e6:,.1f} MB{more}",
            markup=False,
        )
    for line in dict.fromkeys(note for one in plan.shards for note in one.trial.notes):
        out.print(f"note: {line}", markup=False)
    if plan.shards:
        _tell_undo(plan)
    for line in plan.loses:
        out.print(f"LOSES: {line}", markup=False)
    for problem in plan.problems:
        out.print(f"PROBLEM: {problem.what}", markup=False)
        out.print(f"  → {problem.hint}", markup=False)
    if not plan.problems:
        out.print(f"{counted(len(plan.shards), 'table')}: ready; nothing was changed, `migrate ddl run` runs it")


def _tell_undo(plan: Plan) -> None:
    first = plan.shards[0]
    if first.trial.refused:
        return
    if first.trial.undo is None:
        out.print(f"undo: not possible; {first.trial.why_not}", markup=False)
    elif not first.trial.undo:
        out.print("undo: nothing to take back, the definition stays as it is")
    else:
        lost = f" (loses {'; '.join(plan.undo_loses)})" if plan.undo_loses else ""
        out.print(f"undo: {first.undo()}: {first.trial.undo_level.told}{lost}", markup=False)


def run_json(report: RunReport) -> dict[str, Any]:
    """For programs; definitions are left out."""
    left_out = ("before", "after", "undo", "witness")
    rows = [{key: value for key, value in asdict(row).items() if key not in left_out} for row in report.rows]
    counts = Counter(str(row.stage) for row in report.rows)
    return {**asdict(report.run), "paused": report.paused, "counts": counts, "shards": rows}


def tell_run(report: RunReport, group: GroupProgress | None = None) -> None:
    """Print a run and each of its shard tables. group: that has the statement by it."""
    run = report.run
    out.print(f"run {run.number}: {run.statement}", markup=False)
    for row in report.rows:
        ended = f" at {row.ended:%Y-%m-%d %H:%M:%S} UTC" if row.ended is not None else ""
        detail = f": {row.detail}" if row.detail else ""
        out.print(f"  {row.side} {row}: {row.stage}{ended}{detail}", markup=False)
    out.print(summary(report), markup=False)
    if group is not None and group.left:
        left = some(group.left, _NAMED)
        out.print(f"group {group.name}: the same statement is still to come at {left}", markup=False)


def summary(report: RunReport) -> str:
    """How far a run is, in a line."""
    run = report.run
    told = f"run {run.number}: {report.reached} of {counted(len(report.rows), 'table')} {run.goal}"
    if run.finished is not None:
        return f"{told}, finished at {run.finished:%Y-%m-%d %H:%M:%S} UTC"
    return f"{told}; {way_out(run, report.rows)}"


class Progress:
    """Shard tables as they change: a table on a terminal, elsewhere a line each, on stderr."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._console = console(stderr=True, highlight=False)
        self._rows: dict[int, ShardRow] = {}
        self._live: Live | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and not self._silent:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        if not self._silent:
            self._console.print(line, markup=False, soft_wrap=True)

    def changed(self, row: ShardRow) -> None:
        """Take in what a shard table is now; called by several threads."""
        with self._lock:
            self._rows[row.number] = row
            if self._live is not None:
                self._live.update(Printable(_table([*self._rows.values()])))
            elif row.stage not in (Stage.BEGUN, Stage.UNDOING, Stage.WAITING):
                self.say(f"{row}: {row.stage}{f': {row.detail}' if row.detail else ''}")


def _table(rows: Sequence[ShardRow]) -> Table:
    under_way = [row for row in rows if row.stage in (Stage.BEGUN, Stage.UNDOING)]
    others = [row for row in rows if row not in under_way]
    counts = Counter(str(row.stage) for row in rows)
    table = Table(
        "shard table", "stage", "detail", caption=", ".join(f"{count} {name}" for name, count in counts.items())
    )
    for row in [*others, *under_way][-_SHOWN:]:
        table.add_row(str(row), str(row.stage), row.detail)
    return table
