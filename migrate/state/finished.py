"""A finished migration in the state: marked, summed up, and without the details that only its processes need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from migrate.state import chunks
from migrate.state.database import now
from migrate.state.migration import table, topics
from migrate.state.record import consumed

DETAILS = (
    *("record", "consumed", "watermark", "copy_detail", "copy_progress", "copy_place", "copy_part"),
    *(
        "verification_progress",
        "check_run",
        "check_rest",
        "check_difference",
        "outstanding",
        "halt",
        "ending",
        "skip_request",
    ),
    *("throttle", "compared", "waiting_marker", "alarm", "alarm_sent", "alarm_seen", "status_history"),
)
"""What only running processes need, or only those that would go on with a copy. What is kept tells an auditor what was
compared, when applications moved, from which position on, under which definitions and rules, and what was left out."""


@dataclass(frozen=True, slots=True)
class Finished:
    """at: UTC, when it was begun; summary: what its details added up to; done: whether all of it is cleaned."""

    at: datetime
    summary: dict[str, Any]
    done: bool


def find(connection: sa.Connection, migration: str) -> Finished | None:
    """None while it is not finished, or unknown."""
    row = connection.execute(
        sa.select(table.c.finished, table.c.summary).where(table.c.name == migration)
    ).one_or_none()
    if row is None or row[0] is None:
        return None
    summary = json.loads(row[1] or "{}")
    return Finished(row[0], summary, bool(summary.get("cleaned")))


def mark(connection: sa.Connection, migration: str, summary: Mapping[str, Any]) -> None:
    """From here on no command but `finish`, `status`, `switch` and `web` takes it."""
    connection.execute(
        sa.update(table).where(table.c.name == migration).values(finished=now, summary=json.dumps(summary))
    )


def clean(engine: sa.Engine, migration: str, rows: int = 10_000) -> int:
    """Remove the details of a marked one, so many rows a transaction; returns how many there were."""
    removed = 0
    for name in DETAILS:
        statement = sa.text(f"DELETE FROM {name} WHERE migration = :migration LIMIT {rows:d}")
        while True:
            with engine.begin() as connection:
                count = connection.execute(statement, {"migration": migration}).rowcount
            removed += count
            if count < rows:
                break
    with engine.begin() as connection:
        found = find(connection, migration)
        summary = json.dumps({**(found.summary if found else {}), "cleaned": True})
        connection.execute(sa.update(table).where(table.c.name == migration).values(summary=summary))
    return removed


def shared(connection: sa.Connection, migrations: list[str]) -> set[str]:
    """The names of topics of these migrations that another one, which is not finished, has too."""
    mine = sa.select(topics.c.topic_id).where(topics.c.migration.in_(migrations))
    rows = connection.execute(
        sa.select(topics.c.name)
        .join(table, table.c.name == topics.c.migration)
        .where(topics.c.topic_id.in_(mine), topics.c.migration.not_in(migrations), table.c.finished.is_(None))
    )
    return {str(row[0]) for row in rows}


def totals(connection: sa.Connection, migration: str) -> dict[str, Any]:
    """What the details add up to: of each table its chunks, and the changes that were applied."""
    of_tables = connection.execute(
        sa.select(
            chunks.table.c.table_schema,
            chunks.table.c.table_name,
            sa.func.count(),
            sa.func.sum(chunks.table.c.rows_read),
            sa.func.sum(chunks.table.c.rows_inserted),
            sa.func.min(chunks.table.c.started),
            sa.func.max(chunks.table.c.finished),
        )
        .where(chunks.table.c.migration == migration)
        .group_by(chunks.table.c.table_schema, chunks.table.c.table_name)
    )
    applied = connection.execute(
        sa.select(sa.func.sum(consumed.c.messages), sa.func.sum(consumed.c.row_count)).where(
            consumed.c.migration == migration
        )
    ).one()
    return {
        "copied": [
            {
                "table": f"{row[0]}.{row[1]}",
                "chunks": int(row[2]),
                "rows_read": int(row[3]),
                "rows_inserted": int(row[4]),
                "began": str(row[5]),
                "ended": str(row[6]),
            }
            for row in of_tables
        ],
        "messages": int(applied[0] or 0),
        "changes": int(applied[1] or 0),
    }
