"""What the status of each migration was, once a minute: a bounded table, for plots and for the list of migrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata, now

table = sa.Table(
    "status_history",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("minute", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.DateTime),
    sa.Column("stage", sa.String(16)),
    sa.Column("lag_seconds", sa.Double),
    sa.Column("changes", sa.BigInteger),
    sa.Column("waiting", sa.BigInteger),
    sa.Column("blockers", sa.Integer),
    sa.Column("verdict", sa.String(8)),
    sa.Column("next_command", sa.String(255)),
)
KEPT_MINUTES = 7 * 24 * 60
"""Of each migration there are so many rows at most: one a minute."""
_LAST_MINUTES = 2
_MINUTE = sa.func.timestampdiff(sa.text("MINUTE"), sa.text("'1970-01-01'"), now)


@dataclass(frozen=True, slots=True)
class StatusSample:
    """The status at one time.

    stage: "" of a reverse stream. changes: that were applied since init. waiting: messages that are not consumed yet.
    """

    stage: str
    lag_seconds: float
    changes: int
    waiting: int
    blockers: int
    verdict: str
    next_command: str


@dataclass(frozen=True, slots=True)
class PastStatus:
    """A sample with its time: minute since 1970, and UTC."""

    minute: int
    at: datetime
    sample: StatusSample


def note(connection: sa.Connection, migration: str, sample: StatusSample) -> None:
    """Keep it as that of this minute, unless there is one, and remove what is too old."""
    minute = int(connection.execute(sa.select(_MINUTE)).scalar_one())
    values = {"migration": migration, "minute": minute, "at": now, **asdict(sample)}
    connection.execute(insert(table).values(values).on_duplicate_key_update(migration=table.c.migration))
    connection.execute(sa.delete(table).where(table.c.migration == migration, table.c.minute <= minute - KEPT_MINUTES))


def every(connection: sa.Connection, migration: str, after: int = 0) -> list[PastStatus]:
    """Oldest first. after: a minute; only later ones."""
    rows = connection.execute(
        sa.select(*_COLUMNS).where(table.c.migration == migration, table.c.minute > after).order_by(table.c.minute)
    )
    return [_past(row) for row in rows]


def latest(connection: sa.Connection) -> dict[str, list[PastStatus]]:
    """Those of the last minutes before each migration's newest, oldest first, by its name."""
    last = sa.select(table.c.migration, sa.func.max(table.c.minute).label("minute")).group_by(table.c.migration)
    newest = last.subquery()
    same = (table.c.migration == newest.c.migration) & (table.c.minute >= newest.c.minute - _LAST_MINUTES)
    found: dict[str, list[PastStatus]] = {}
    rows = connection.execute(sa.select(table.c.migration, *_COLUMNS).join(newest, same).order_by(table.c.minute))
    for row in rows:
        found.setdefault(str(row[0]), []).append(_past(row[1:]))
    return found


_COLUMNS = (table.c.minute, table.c.at, *(table.c[name] for name in StatusSample.__slots__))


def _past(row: Sequence[object]) -> PastStatus:
    minute, at, *values = row
    assert isinstance(minute, int)  # noqa: S101 - a column of that type
    assert isinstance(at, datetime)  # noqa: S101
    return PastStatus(minute, at, StatusSample(*values))  # type: ignore[arg-type]
