"""Runs of the verification, their certificates, and the differences they named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from migrate.model.change import Key, key_json
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.state import columns, consumed_total, reached
from migrate.state import migration as migrations
from migrate.state.database import metadata, now
from migrate.state.reached import LostMessages

table = sa.Table(
    "verification",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("migration", sa.String(48)),
    sa.Column("started", sa.DateTime),
    sa.Column("finished", sa.DateTime),
    sa.Column("tables_compared", sa.Integer),
    sa.Column("rows_compared", sa.BigInteger),
    sa.Column("differences", sa.BigInteger),
    sa.Column("in_motion", sa.BigInteger),
    sa.Column("report", sa.Text),
    sa.Column("asked", sa.Text),
    sa.Column("sources", sa.Text),
    sa.Column("touched", sa.DateTime),
    sa.Column("resumed", sa.Integer),
    sa.Column("consumed", sa.Text),
)
difference = sa.Table(
    "verification_difference",
    metadata,
    sa.Column("verification", sa.BigInteger),
    *columns.of_table(key=False),
    sa.Column("key_text", sa.Text),
    sa.Column("kind", sa.String(16)),
    sa.Column("detail", sa.Text),
)
_ALL = sa.func.json_unquote(sa.func.json_extract(table.c.report, "$.all_tables")) == "true"
_OF_TABLE = ("source", "table", "differences", "in_motion")
_CLEAN = (table.c.differences == 0, table.c.in_motion == 0, _ALL)


@dataclass(frozen=True, slots=True)
class FinishedVerification:
    """A finished verification."""

    id: int
    started: datetime
    finished: datetime
    tables: int
    rows: int
    differences: int
    in_motion: int


def start(connection: sa.Connection, migration: str, asked: str | None = None, sources: str | None = None) -> int:
    """Note that a verification began, and what was consumed by then; returns its number.

    asked, sources: JSON, what another process must have in common with it to go on (`verification_progress`).
    """
    consumed = [
        [part.topic_id, part.number, end] for part, end in consumed_total.prefixes(connection, migration).items()
    ]
    values = {"migration": migration, "asked": asked, "sources": sources, "touched": now}
    values["consumed"] = json.dumps(consumed)
    result = connection.execute(sa.insert(table).values(values))
    key = result.inserted_primary_key
    return int(key[0]) if key else 0


def started(connection: sa.Connection, verification: int) -> datetime:
    """When it began, UTC."""
    moment: datetime = connection.execute(sa.select(table.c.started).where(table.c.id == verification)).scalar_one()
    return moment


def consumed(connection: sa.Connection, migration: str, verification: int) -> dict[Partition, int]:
    """The end of each partition's consumed prefix when it began; empty for one of before version 20 of the state."""
    text = connection.execute(sa.select(table.c.consumed).where(table.c.id == verification)).scalar()
    return {Partition(migration, topic, number): end for topic, number, end in json.loads(text or "[]")}


def add_difference(
    connection: sa.Connection,
    migration: str,
    verification: int,
    place: TableId,
    found: Iterable[tuple[Key, str, str]],
) -> None:
    """Name differences of one table (source, database, name): (key, kind, detail)."""
    of_table = dict(zip(("source", "table_schema", "table_name"), place, strict=True))
    rows = [
        {
            "migration": migration,
            "verification": verification,
            **of_table,
            "key_text": key_json(key),
            "kind": kind,
            "detail": detail,
        }
        for key, kind, detail in found
    ]
    if rows:
        connection.execute(sa.insert(difference), rows)


def named(connection: sa.Connection, migration: str, id_: TableId, key: Key) -> list[dict[str, str]]:
    """What finished and unfinished verifications said of a key of a table (source, database, name), oldest first."""
    rows = connection.execute(
        sa.select(difference.c.verification, table.c.started, difference.c.kind, difference.c.detail)
        .join(table, table.c.id == difference.c.verification)
        .where(*columns.is_table(difference, migration, id_), difference.c.key_text == key_json(key))
        .order_by(difference.c.verification)
    )
    return [
        {"verification": str(row[0]), "started": str(row[1]), "kind": row[2], "detail": row[3] or ""} for row in rows
    ]


def finish(connection: sa.Connection, verification: int, certificate: Mapping[str, Any]) -> None:
    """Store the outcome."""
    connection.execute(
        sa.update(table)
        .where(table.c.id == verification)
        .values(
            finished=now,
            tables_compared=len(certificate["tables"]),
            rows_compared=certificate["rows"],
            differences=certificate["differences"],
            in_motion=certificate["in_motion"],
            report=json.dumps(certificate, ensure_ascii=False),
        )
    )


def latest(connection: sa.Connection, migration: str) -> FinishedVerification | None:
    """The newest finished verification."""
    names = ("id", "started", "finished", "tables_compared", "rows_compared", "differences", "in_motion")
    row = connection.execute(
        sa.select(*(table.c[name] for name in names))
        .where(table.c.migration == migration, table.c.finished.is_not(None))
        .order_by(table.c.id.desc())
        .limit(1)
    ).one_or_none()
    return FinishedVerification(*row) if row else None


def recent(connection: sa.Connection, migration: str, most: int) -> list[dict[str, Any]]:
    """The certificates of the newest finished verifications, newest first."""
    rows = connection.execute(
        sa.select(table.c.report)
        .where(table.c.migration == migration, table.c.finished.is_not(None))
        .order_by(table.c.id.desc())
        .limit(most)
    ).scalars()
    return [json.loads(text) for text in rows if text]


def equal_since(connection: sa.Connection, migration: str) -> int | None:
    """The number of the newest verification of all tables that was clean: the two sides were equal once it had begun,
    whichever of the two streams between them it was of."""
    names = migrations.both_ways(connection, migration)
    found: int | None = connection.execute(
        sa.select(sa.func.max(table.c.id)).where(table.c.migration.in_(names), table.c.finished.is_not(None), *_CLEAN)
    ).scalar()
    return found


def differing_since(connection: sa.Connection, migration: str, since: int | None) -> int:
    """How many differences verifications found, of either stream: of each table those of its newest run, which may have
    been of some tables only. since: as `equal_since`, the run behind which they count."""
    entries = [sa.func.json_extract(table.c.report, f"$.tables[*].{name}") for name in _OF_TABLE]
    runs = connection.execute(
        sa.select(table.c.differences, *entries)
        .where(
            table.c.migration.in_(migrations.both_ways(connection, migration)),
            table.c.id > (since or 0),
            table.c.finished.is_not(None),
        )
        .order_by(table.c.id)
    ).all()
    if not any(run.differences for run in runs):
        return 0
    found: dict[tuple[str, str], int] = {}
    for _, *texts in runs:
        for source, name, differences, moving in zip(*(json.loads(text or "[]") for text in texts), strict=True):
            if differences or not moving:  # keys in motion were not seen to be equal
                found[source, name] = differences
    return sum(found.values())


def is_fresh(connection: sa.Connection, migration: str, hours: float) -> bool:
    """Whether the newest verification of all tables that was clean began so many hours ago at most; no, where by the
    server's clock, which was set back, it is yet to begin."""
    if (found := equal_since(connection, migration)) is None:
        return False
    age = sa.select(sa.func.timestampdiff(sa.text("SECOND"), table.c.started, now)).where(table.c.id == found)
    return 0 <= int(connection.execute(age).scalar_one()) <= hours * 3600


def certificate(connection: sa.Connection, verification: int) -> dict[str, Any] | None:
    """The certificate of a finished verification."""
    text = connection.execute(sa.select(table.c.report).where(table.c.id == verification)).scalar()
    return json.loads(text) if text else None


def lost(connection: sa.Connection, migration: str) -> list[LostMessages]:
    """What databases lost, as was found since the last clean verification of all tables began, which settles it."""
    return reached.lost_since(connection, migration, equal_since(connection, migration))
