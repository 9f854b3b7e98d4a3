"""Statements over shard tables: each run, and a row of state for each shard table, written before and after."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.state.database import metadata, now

_MARK = re.compile(r"/\* migrate (\S+) (\d+\.\d+\.\d+\.\d+) \*/")


class Goal(StrEnum):
    NEW = "new"  # every shard table is to be as after the statement
    OLD = "old"  # as before it


class Stage(StrEnum):
    WAITING = "waiting"  # nothing was sent yet
    BEGUN = "begun"  # the statement is sent, or was about to be
    NEW = "new"  # the table is as after the statement
    UNDOING = "undoing"  # the compensating statement is sent, or was about to be
    OLD = "old"  # the table is as before the statement
    FAILED = "failed"  # the server refused, and the table is as it was
    ALTERED = "altered"  # the table is neither: somebody else altered it


runs = sa.Table(
    "ddl_run",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("statement", sa.Text),
    sa.Column("goal", sa.String(8)),
    sa.Column("allowed", sa.String(64)),
    sa.Column("undo_loses", sa.Text),
    sa.Column("started", sa.DateTime),
    sa.Column("finished", sa.DateTime),
)
shards = sa.Table(
    "ddl_shard",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True),
    sa.Column("side", sa.String(8)),
    sa.Column("server", sa.String(48)),
    sa.Column("database_name", sa.String(64)),
    sa.Column("table_name", sa.String(64)),
    sa.Column("undo_clauses", sa.Text),
    sa.Column("before_definition", sa.Text),
    sa.Column("after_definition", sa.Text),
    sa.Column("witness", sa.String(64)),
    sa.Column("algorithm", sa.String(8)),
    sa.Column("lock_mode", sa.String(10)),
    sa.Column("stage", sa.String(10)),
    sa.Column("attempts", sa.Integer),
    sa.Column("began", sa.DateTime),
    sa.Column("ended", sa.DateTime),
    sa.Column("detail", sa.Text),
)


@dataclass(frozen=True, slots=True)
class DdlRun:
    """allowed: the algorithm and lock that it may take at most; undo_loses: what of the values goes where it is taken
    back, "" for nothing. Times are UTC."""

    number: int
    statement: str
    goal: Goal
    allowed: str
    undo_loses: str
    started: datetime
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard table of a run.

    undo: the clauses of the compensating statement; None where there is none. before, after: its definition in normal
    form, "" where it is not there. witness: of a TRUNCATE, the engine's number of the table before it.
    """

    number: int
    side: str
    server: str
    database: str
    table: str
    undo: tuple[str, ...] | None
    before: str
    after: str
    witness: str
    algorithm: str
    lock: str
    stage: Stage = Stage.WAITING
    attempts: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.server}/{self.database}.{self.table}"


def create(
    connection: sa.Connection, migration: str, statement: str, allowed: str, undo_loses: str, rows: Sequence[ShardRow]
) -> int:
    """A new run, with all of its shard tables; returns its number. The caller holds the lease."""
    last = connection.execute(sa.select(sa.func.max(runs.c.run)).where(runs.c.migration == migration)).scalar()
    number = int(last or 0) + 1
    values = {"statement": statement, "goal": Goal.NEW.value, "allowed": allowed, "undo_loses": undo_loses}
    connection.execute(sa.insert(runs).values(migration=migration, run=number, **values))
    connection.execute(sa.insert(shards), [{"migration": migration, "run": number, **_values(row)} for row in rows])
    return number


def _values(row: ShardRow) -> dict[str, Any]:
    return {
        "shard": row.number,
        "side": row.side,
        "server": row.server,
        "database_name": row.database,
        "table_name": row.table,
        "undo_clauses": None if row.undo is None else json.dumps(row.undo),
        "before_definition": row.before,
        "after_definition": row.after,
        "witness": row.witness,
        "algorithm": row.algorithm,
        "lock_mode": row.lock,
        "stage": row.stage.value,
        "attempts": row.attempts,
        "detail": row.detail,
    }


def latest(connection: sa.Connection, migration: str, number: int | None = None) -> DdlRun | None:
    """The newest run, or the one of a number."""
    names = ("run", "statement", "goal", "allowed", "undo_loses", "started", "finished")
    row = connection.execute(
        sa.select(*(runs.c[name] for name in names))
        .where(runs.c.migration == migration, runs.c.run == number if number is not None else sa.true())
        .order_by(runs.c.run.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else DdlRun(int(row[0]), row[1], Goal(row[2]), *row[3:])


def mark(source: str, since: Coordinate) -> str:
    """A comment before a statement that stands in a source's log (`tables[].ddl: apply`)."""
    return f"/* migrate {source} {'.'.join(map(str, since))} */"


def applied(connection: sa.Connection, migration: str, source: str) -> frozenset[Coordinate]:
    """Where the statements of a source's log stand that finished runs brought to the targets."""
    ours = runs.c.statement.contains(f"/* migrate {source} ", autoescape=True)
    rows = connection.execute(
        sa.select(runs.c.statement).where(
            runs.c.migration == migration, ours, runs.c.goal == Goal.NEW.value, runs.c.finished.is_not(None)
        )
    )
    places = (brought_from(str(statement)) for (statement,) in rows)
    return frozenset(place[1] for place in places if place is not None)


def brought_from(statement: str) -> tuple[str, Coordinate] | None:
    """The source of a statement that a run brings to the targets, and its place in the log; None for any other."""
    found = _MARK.match(statement.lstrip())
    return None if found is None else (found[1], Coordinate(*map(int, found[2].split("."))))


def brought(connection: sa.Connection, migration: str, sql: str, table: tuple[str, str]) -> bool:
    """Whether a statement on a table at a target is that of a run that brings a source's statement to it."""
    if (found := _MARK.match(sql.lstrip())) is None:
        return False
    here = (shards.c.migration == runs.c.migration, shards.c.run == runs.c.run)
    ours = (shards.c.database_name == table[0], shards.c.table_name == table[1])
    wanted = sa.select(runs.c.run).where(
        runs.c.migration == migration, runs.c.statement.startswith(found[0], autoescape=True), *here, *ours
    )
    return connection.execute(wanted.limit(1)).first() is not None


def of_run(connection: sa.Connection, migration: str, run: int) -> list[ShardRow]:
    """The shard tables of a run, in its order."""
    names = (
        *(
            "shard",
            "side",
            "server",
            "database_name",
            "table_name",
            "undo_clauses",
            "before_definition",
            "after_definition",
        ),
        *("witness", "algorithm", "lock_mode", "stage", "attempts", "began", "ended", "detail"),
    )
    rows = connection.execute(
        sa.select(*(shards.c[name] for name in names))
        .where(shards.c.migration == migration, shards.c.run == run)
        .order_by(shards.c.shard)
    )
    return [_row(row) for row in rows]


def _row(row: Any) -> ShardRow:
    """row: in the order of the columns of `of_run`."""
    undo = None if row[5] is None else tuple(json.loads(row[5]))
    stage, attempts, began, ended, detail = row[11:]
    side, server, where, table = row[1:5]
    before, after, witness, algorithm, lock = row[6:11]
    return ShardRow(
        *(int(row[0]), side, server, where, table, undo, before, after, witness, algorithm, lock),
        *(Stage(stage), int(attempts), began, ended, detail),
    )


def begin(connection: sa.Connection, migration: str, run: int, row: ShardRow) -> None:
    """Before a statement is sent to a shard table: row has the stage BEGUN or UNDOING, and its witness of now."""
    values = {"stage": row.stage.value, "witness": row.witness}
    _change(connection, migration, run, row.number, **values, attempts=shards.c.attempts + 1, began=now, ended=None)


def end(connection: sa.Connection, migration: str, run: int, shard: int, stage: Stage, detail: str = "") -> None:
    """What a shard table was seen to be afterwards."""
    _change(connection, migration, run, shard, stage=stage.value, ended=now, detail=detail)


def _change(connection: sa.Connection, migration: str, run: int, shard: int, **values: Any) -> None:
    where = (shards.c.migration == migration, shards.c.run == run, shards.c.shard == shard)
    connection.execute(sa.update(shards).where(*where).values(**values))


def aim(connection: sa.Connection, migration: str, run: int, goal: Goal, allowed: str | None = None) -> None:
    """What the run is to come to from now on, and what it may take for that; it is not finished."""
    values: dict[str, Any] = {"goal": goal.value, "finished": None}
    if allowed is not None:
        values["allowed"] = allowed
    connection.execute(sa.update(runs).where(runs.c.migration == migration, runs.c.run == run).values(**values))


def finish(connection: sa.Connection, migration: str, run: int) -> None:
    """Every shard table is as the goal says."""
    connection.execute(sa.update(runs).where(runs.c.migration == migration, runs.c.run == run).values(finished=now))
