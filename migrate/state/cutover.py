"""Cutovers and rollbacks: each run with its journal, and the blocks on writes that are in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.errors import PreflightError
from migrate.state.database import metadata, now
from migrate.state.switch import Side


class SwitchDirection(StrEnum):
    """Which side applications are to be at."""

    TO_TARGETS = "there"
    TO_SOURCES = "back"


class Outcome(StrEnum):
    RUNNING = "running"
    ABORTING = "aborting"  # it will not switch; writes are being given back
    SWITCHED = "switched"  # applications are told; what is left must be done
    DONE = "done"
    ABORTED = "aborted"


class StepState(StrEnum):
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"


runs = sa.Table(
    "cutover",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("direction", sa.String(8)),
    sa.Column("outcome", sa.String(12)),
    sa.Column("started", sa.DateTime),
    sa.Column("finished", sa.DateTime),
    sa.Column("freeze_seconds", sa.Double),
)
steps = sa.Table(
    "cutover_step",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("entry", sa.Integer, primary_key=True),
    sa.Column("step", sa.String(64)),
    sa.Column("stage", sa.String(8)),
    sa.Column("at", sa.DateTime),
    sa.Column("detail", sa.Text),
)
blocks = sa.Table(
    "write_block",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("side", sa.String(8), primary_key=True),
    sa.Column("server", sa.String(48), primary_key=True),
    sa.Column("method", sa.String(16)),
    sa.Column("ending", sa.Text),
    sa.Column("run", sa.Integer),
)


_WITHOUT = "without "


@dataclass(frozen=True, slots=True)
class CutoverRun:
    number: int
    direction: SwitchDirection
    outcome: Outcome
    started: datetime
    finished: datetime | None
    freeze_seconds: float | None

    @property
    def open(self) -> bool:
        return self.outcome in (Outcome.RUNNING, Outcome.ABORTING, Outcome.SWITCHED)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of a run's journal."""

    step: str
    stage: StepState
    at: datetime
    detail: str


@dataclass(frozen=True, slots=True)
class Block:
    """What keeps applications from writing at a server of one side, and the statements that end it.

    run: that noted it last.
    """

    side: Side
    server: str
    method: str
    ending: Sequence[str]
    run: int = 0


def begin(connection: sa.Connection, migration: str, direction: SwitchDirection) -> int:
    """Note a new run; returns its number. The caller holds the lease."""
    last = connection.execute(sa.select(sa.func.max(runs.c.run)).where(runs.c.migration == migration)).scalar()
    number = int(last or 0) + 1
    values = {"direction": direction.value, "outcome": Outcome.RUNNING.value}
    connection.execute(sa.insert(runs).values(migration=migration, run=number, **values))
    return number


def latest(
    connection: sa.Connection, migration: str, number: int | None = None, outcome: Outcome | None = None
) -> CutoverRun | None:
    """The newest run, or the one of a number, or the newest that came to an outcome."""
    names = ("run", "direction", "outcome", "started", "finished", "freeze_seconds")
    row = connection.execute(
        sa.select(*(runs.c[name] for name in names))
        .where(
            runs.c.migration == migration,
            runs.c.run == number if number is not None else sa.true(),
            runs.c.outcome == outcome.value if outcome is not None else sa.true(),
        )
        .order_by(runs.c.run.desc())
        .limit(1)
    ).one_or_none()
    return CutoverRun(int(row[0]), SwitchDirection(row[1]), Outcome(row[2]), *row[3:]) if row else None


def freezes(connection: sa.Connection, migration: str) -> dict[str, float]:
    """How long nobody could write at the last switch in each direction, seconds."""
    rows = connection.execute(
        sa.select(runs.c.direction, runs.c.freeze_seconds)
        .where(runs.c.migration == migration, runs.c.freeze_seconds.is_not(None))
        .order_by(runs.c.run)
    )
    return {str(direction): float(seconds) for direction, seconds in rows}


def came_to(
    connection: sa.Connection, migration: str, run: int, outcome: Outcome, freeze_seconds: float | None = None
) -> bool:
    """Note a run's outcome; False when it is over already."""
    finished = None if outcome in (Outcome.SWITCHED, Outcome.ABORTING) else now
    values: dict[str, Any] = {"outcome": outcome.value, "finished": finished}
    if freeze_seconds is not None:
        values["freeze_seconds"] = freeze_seconds
    found = connection.execute(
        sa.update(runs)
        .where(runs.c.migration == migration, runs.c.run == run, runs.c.finished.is_(None))
        .values(values)
    )
    return bool(found.rowcount)


def lock(connection: sa.Connection, migration: str, run: int) -> Outcome:
    """A run's outcome; nobody changes it until the transaction ends."""
    found = connection.execute(
        sa.select(runs.c.outcome).where(runs.c.migration == migration, runs.c.run == run).with_for_update()
    ).scalar_one()
    return Outcome(found)


def write(connection: sa.Connection, migration: str, run: int, step: str, stage: StepState, detail: str = "") -> None:
    """A line of the journal."""
    last = connection.execute(
        sa.select(sa.func.max(steps.c.entry)).where(steps.c.migration == migration, steps.c.run == run)
    ).scalar()
    values = {"entry": int(last or 0) + 1, "step": step, "stage": stage.value, "detail": detail}
    connection.execute(sa.insert(steps).values(migration=migration, run=run, **values))


def journal(connection: sa.Connection, migration: str, run: int) -> list[JournalEntry]:
    """Every line of a run's journal, in order."""
    rows = connection.execute(
        sa.select(steps.c.step, steps.c.stage, steps.c.at, steps.c.detail)
        .where(steps.c.migration == migration, steps.c.run == run)
        .order_by(steps.c.entry)
    )
    return [JournalEntry(row[0], StepState(row[1]), row[2], row[3] or "") for row in rows]


def without(server: str) -> str:
    """The step of the journal that says that a run goes without a server."""
    return f"{_WITHOUT}{server}"


def given_up(connection: sa.Connection, migration: str, direction: SwitchDirection) -> frozenset[str]:
    """The servers that the run under way in a direction goes without; none once it gives writes back, or is over."""
    run = latest(connection, migration)
    if run is None or run.direction is not direction or run.outcome not in (Outcome.RUNNING, Outcome.SWITCHED):
        return frozenset()
    named = [one.step for one in journal(connection, migration, run.number)]
    return frozenset(step.removeprefix(_WITHOUT) for step in named if step.startswith(_WITHOUT))


def blocked(connection: sa.Connection, migration: str, side: Side) -> list[Block]:
    """What is in place at the servers of a side, or was about to be."""
    rows = connection.execute(
        sa.select(blocks.c.server, blocks.c.method, blocks.c.ending, blocks.c.run).where(
            blocks.c.migration == migration, blocks.c.side == side.value
        )
    )
    return [Block(side, row[0], row[1], json.loads(row[2]), int(row[3])) for row in rows]


def note_block(connection: sa.Connection, migration: str, block: Block) -> None:
    """Before it is put in place. What was noted first stays, as it says how it was before anything was done, and what
    this one's ending has beside it is added; it is this run's from now on.

    Raises PreflightError where an earlier run stopped writes there in another way: one note cannot end both.
    """
    row = {"migration": migration, "side": block.side.value, "server": block.server}
    values = {**row, "method": block.method, "ending": json.dumps([]), "run": block.run}
    connection.execute(insert(blocks).values(values).on_duplicate_key_update(run=blocks.c.run))  # holds the row
    named = [blocks.c[name] == value for name, value in row.items()]
    found = connection.execute(sa.select(blocks.c.method, blocks.c.ending).where(*named)).one()
    if found.method != block.method:
        raise PreflightError(
            f"run {block.run} would stop writes at '{block.server}' by {block.method}, and an earlier one stopped them"
            f" by {found.method}",
            hint="`migrate cutover --abort` gives back what that one stopped; then run the same command again",
        )
    first = json.loads(found.ending)
    ending = [*first, *(statement for statement in block.ending if statement not in first)]
    connection.execute(sa.update(blocks).where(*named).values(ending=json.dumps(ending), run=block.run))


def drop_block(connection: sa.Connection, migration: str, block: Block) -> None:
    """Once it has been ended; not where a later run has noted it meanwhile."""
    connection.execute(
        sa.delete(blocks).where(
            blocks.c.migration == migration,
            blocks.c.side == block.side.value,
            blocks.c.server == block.server,
            blocks.c.run == block.run,
        )
    )
