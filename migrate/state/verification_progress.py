"""How far unfinished verifications came, and whether their processes are still heard of.

A process touches its run now and then. Who goes on with a run raises its `resumed`, so that the former process, should
it wake, notices at the next touch that the run is no longer its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.table import TableId
from migrate.state import columns
from migrate.state.database import metadata, now
from migrate.state.verification import table as run

table = sa.Table(
    "verification_progress",
    metadata,
    sa.Column("verification", sa.BigInteger, primary_key=True),
    sa.Column("migration", sa.String(48)),
    *columns.of_table(key=True)[1:],
    sa.Column("done", sa.Integer),
    sa.Column("progress", sa.Text),
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A verification that was not finished."""

    id: int
    started: datetime  # UTC, as all times of the state
    asked: dict[str, Any]
    sources: dict[str, Any]
    resumed: int  # how many processes went on with it
    touched: datetime | None
    silent: bool  # its process is gone, or was not heard of for long


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a table was compared, or what was found of it."""

    done: bool
    body: dict[str, Any]


def newest(connection: sa.Connection, migration: str, seconds: float) -> Unfinished | None:
    """The newest unfinished run that can be gone on with; silent when not touched for so many seconds."""
    row = connection.execute(
        sa.select(run.c.id, run.c.started, run.c.asked, run.c.sources, run.c.resumed, run.c.touched, _silent(seconds))
        .where(run.c.migration == migration, run.c.finished.is_(None), run.c.asked.is_not(None))
        .order_by(run.c.id.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    return Unfinished(row[0], row[1], json.loads(row[2]), json.loads(row[3]), row[4], row[5], bool(row[6]))


def take(connection: sa.Connection, found: Unfinished) -> bool:
    """Go on with a run as it was seen; False when another process was quicker, or its own is heard of again."""
    as_seen = (run.c.resumed == found.resumed, run.c.touched.is_not_distinct_from(found.touched))
    return bool(
        connection.execute(
            sa.update(run)
            .where(run.c.id == found.id, run.c.finished.is_(None), run.c.asked.is_not(None), *as_seen)
            .values(resumed=found.resumed + 1, touched=now)
        ).rowcount
    )


def touch(connection: sa.Connection, verification: int, resumed: int) -> bool:
    """Say that the run's process is there; False when another one went on with it. Nobody can before the commit."""
    mine = (run.c.id == verification, run.c.resumed == resumed, run.c.finished.is_(None))
    return bool(connection.execute(sa.update(run).where(*mine).values(touched=now)).rowcount)


def leave(connection: sa.Connection, verification: int, resumed: int) -> None:
    """The run's process ends without having finished it: nobody need wait for it to fall silent."""
    mine = (run.c.id == verification, run.c.resumed == resumed, run.c.finished.is_(None))
    connection.execute(sa.update(run).where(*mine).values(touched=None))


def give_up(connection: sa.Connection, migration: str, seconds: float) -> None:
    """Nobody goes on with this migration's silent runs any more."""
    ids = list(
        connection.execute(
            sa.select(run.c.id).where(run.c.migration == migration, run.c.finished.is_(None), _silent(seconds))
        ).scalars()
    )
    if ids:
        connection.execute(sa.update(run).where(run.c.id.in_(ids)).values(asked=None))
        connection.execute(sa.delete(table).where(table.c.verification.in_(ids)))


def save(connection: sa.Connection, migration: str, verification: int, id_: TableId, done: bool, body: str) -> None:
    """Keep how far a table was compared, or what was found of it, as JSON."""
    values = {"verification": verification, **columns.table_row(migration, id_), "done": int(done), "progress": body}
    connection.execute(insert(table).values(values).on_duplicate_key_update(done=int(done), progress=body))


def load(connection: sa.Connection, verification: int) -> dict[TableId, Progress]:
    """All that is kept of a run."""
    names = ("source", "table_schema", "table_name", "done", "progress")
    rows = connection.execute(sa.select(*(table.c[name] for name in names)).where(table.c.verification == verification))
    return {(row[0], row[1], row[2]): Progress(bool(row[3]), json.loads(row[4])) for row in rows}


def drop(connection: sa.Connection, verification: int) -> None:
    connection.execute(sa.delete(table).where(table.c.verification == verification))


def _silent(seconds: float) -> sa.ColumnElement[bool]:
    return sa.or_(
        run.c.touched.is_(None),
        run.c.touched < sa.text(f"NOW(6) - INTERVAL {int(seconds * 1_000_000)} MICROSECOND"),
    )
