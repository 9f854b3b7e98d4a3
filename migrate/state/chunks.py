"""One row per chunk of the full copy: its range, its state, what it brought."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from migrate.model.change import Key
from migrate.model.chunk import Chunk, bound_of, bound_text
from migrate.model.errors import OwnershipLost
from migrate.model.table import Table, TableId
from migrate.state import columns, copy_progress, phase
from migrate.state import part as parts
from migrate.state.database import metadata, now


class ChunkState(StrEnum):
    PLANNED = "planned"
    COPYING = "copying"
    DONE = "done"
    VOID = "void"  # of a copy that counts no more; its number is not given again


table = sa.Table(
    "copy_detail",
    metadata,
    *columns.of_table(key=True),
    sa.Column("chunk", sa.Integer, primary_key=True),
    sa.Column("low", sa.Text),
    sa.Column("high", sa.Text),
    sa.Column("state", sa.String(16)),
    sa.Column("attempt", sa.Integer),
    sa.Column("rows_read", sa.BigInteger),
    sa.Column("rows_inserted", sa.BigInteger),
    sa.Column("rows_present", sa.BigInteger),
    sa.Column("conflicts", sa.BigInteger),
    sa.Column("taken_out", sa.BigInteger),
    sa.Column("bytes_read", sa.BigInteger),
    sa.Column("parked", sa.BigInteger),
    sa.Column("part", sa.Integer),
    sa.Column("started", sa.DateTime),
    sa.Column("finished", sa.DateTime),
    sa.Column("checked", sa.DateTime),
    sa.Column("rows_checked", sa.BigInteger),
)


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """What the copy of a chunk, or of several, did: rows, and `bytes_read` in bytes of the server's text.

    What the stream did is an `AppliedCounts`, what the scheduled check did a `CheckCounts`.
    """

    rows_read: int = 0
    rows_inserted: int = 0
    rows_present: int = 0  # the key was there already, newer or as new
    conflicts: int = 0  # another row holds a unique value: left to the stream, or to a refresh (see `copy/conflicts`)
    taken_out: int = 0  # inserted, and taken out again because the ledger says deleted
    bytes_read: int = 0
    parked: int = 0  # refused, and kept beside the rows

    def __sub__(self, other: CopyCounts) -> CopyCounts:
        return CopyCounts(*(getattr(self, name) - getattr(other, name) for name in COUNTS))

    def __add__(self, other: CopyCounts) -> CopyCounts:
        return CopyCounts(*(getattr(self, name) + getattr(other, name) for name in COUNTS))


COUNTS = tuple(CopyCounts.__slots__)


@dataclass(frozen=True, slots=True)
class ChunkCopy:
    """How far the copy of a chunk is: its last attempt, and what that brought."""

    chunk: Chunk
    state: ChunkState
    attempt: int
    counts: CopyCounts


WHOLE = 0
"""Instead of a part's number: the copy of the whole table."""


def load(connection: sa.Connection, migration: str, definition: Table, part: int = WHOLE) -> list[ChunkCopy]:
    """Every planned chunk of a table's copy, or of the copy of a part, in order."""
    wanted = [table.c[name] for name in ("chunk", "low", "high", "state", "attempt", *COUNTS)]
    rows = connection.execute(
        sa.select(*wanted).where(*_of(migration, definition), table.c.part == part).order_by(table.c.chunk)
    )
    return [ChunkCopy(_chunk(row[:3]), ChunkState(row[3]), row[4], CopyCounts(*map(int, row[5:]))) for row in rows]


def next_number(connection: sa.Connection, migration: str, definition: Table) -> int:
    """The number of the next chunk to be planned: above all of them, of parts too."""
    last = connection.execute(sa.select(sa.func.max(table.c.chunk)).where(*_of(migration, definition))).scalar()
    return 0 if last is None else int(last) + 1


def left_open(connection: sa.Connection, migration: str, definition: Table) -> list[tuple[int, int]]:
    """(number, attempt) of chunks that count no more and were not done: somebody may still be writing them."""
    wanted = sa.select(table.c.chunk, table.c.attempt).where(
        *_of(migration, definition), table.c.state == ChunkState.VOID.value, table.c.finished.is_(None)
    )
    return [(int(row[0]), int(row[1])) for row in connection.execute(wanted)]


def begin(
    connection: sa.Connection,
    migration: str,
    definition: Table,
    run: int,
    chunks: Iterable[Chunk],
    part: int = WHOLE,
    above: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Note that chunks are being copied, each with the next attempt; returns the attempts.

    Args: above: attempts, by chunk, that a target knows; run: the attempt of the table's phase that the caller began.
    Raises OwnershipLost when a later run began: the phase's row is locked, so attempts are given out by one run at a
    time.
    """
    current = connection.execute(
        sa.select(phase.table.c.attempt).where(*_of(migration, definition, phase.table)).with_for_update()
    ).scalar()
    if current != run:
        raise OwnershipLost(
            f"copy of {definition.full_name}: run {run} was superseded by run {current}",
            hint="another `migrate copy` continues it",
        )
    wanted = {chunk.number: chunk for chunk in chunks}
    known = connection.execute(
        sa.select(table.c.chunk, table.c.attempt).where(*_of(migration, definition), table.c.chunk.in_(wanted))
    )
    attempts = {number: int(attempt) + 1 for number, attempt in known}
    later = {number: known + 1 for number, known in (above or {}).items()}
    row = {"migration": migration, **phase.key_of(definition), "state": ChunkState.COPYING.value, "started": now}
    row["part"] = part
    for number, chunk in wanted.items():
        if number in attempts:
            attempts[number] = max(attempts[number], later.get(number, 0))
            statement = sa.update(table).where(*_of(migration, definition), table.c.chunk == number)
            values = {"state": ChunkState.COPYING.value, "attempt": attempts[number], "started": now}
            connection.execute(statement.values(values))
        else:
            attempts[number] = later.get(number, 1)
            bounds = {"low": bound_text(chunk.low), "high": bound_text(chunk.high)}
            values = {**row, "chunk": number, **bounds, "attempt": attempts[number]}
            connection.execute(sa.insert(table).values(values))
    return attempts


def finish(
    connection: sa.Connection, migration: str, definition: Table, done: Mapping[int, tuple[int, CopyCounts]]
) -> list[int]:
    """Note chunks as done: number to (attempt, counts); returns their numbers.

    One that has a later attempt by now is left to it, and one that counts no more stays so.
    """
    noted: list[int] = []
    for number, (attempt, counts) in done.items():
        changed = connection.execute(
            sa.update(table)
            .where(*_of(migration, definition), table.c.chunk == number, table.c.attempt == attempt)
            .where(table.c.state == ChunkState.COPYING.value)
            .values(
                state=ChunkState.DONE.value,
                finished=now,
                checked=None,
                **{name: getattr(counts, name) for name in COUNTS},
            )
        )
        noted += [number] if changed.rowcount else []
    return noted


def take_back(connection: sa.Connection, migration: str, definition: Table, chunks: Collection[int]) -> None:
    """Chunks that were done are to be copied again: a target lost them."""
    connection.execute(
        sa.update(table)
        .where(*_of(migration, definition), table.c.chunk.in_(chunks), table.c.state == ChunkState.DONE.value)
        .values(state=ChunkState.PLANNED.value, finished=None)
    )


def void(connection: sa.Connection, migration: str, definition: Table) -> None:
    """The copy begins anew, with other chunk numbers, so that no attempt of before can be taken for one of then.

    What was done keeps the time of it (`left_open`). A part that was being copied again counts no more either.
    """
    connection.execute(sa.update(table).where(*_of(migration, definition)).values(state=ChunkState.VOID.value))
    parts.end(connection, migration, definition)
    copy_progress.forget(connection, migration, definition.id)


def totals(connection: sa.Connection, migration: str, definition: Table) -> tuple[int, int, CopyCounts]:
    """(chunks planned so far, chunks done, sums over the done ones) of a table."""
    sums = [sa.func.coalesce(sa.func.sum(table.c[name]), 0) for name in COUNTS]
    done = sa.func.count(sa.case((table.c.state == ChunkState.DONE.value, 1)))  # a sum would come as a truth value
    counted = (*_of(migration, definition), table.c.state != ChunkState.VOID.value, table.c.part == WHOLE)
    row = connection.execute(sa.select(sa.func.count(), done, *sums).where(*counted)).one()
    return int(row[0]), int(row[1]), CopyCounts(*map(int, row[2:]))


def by_state(connection: sa.Connection, migration: str) -> dict[str, int]:
    """How many chunks of all tables are in each state."""
    wanted = sa.select(table.c.state, sa.func.count()).where(table.c.migration == migration).group_by(table.c.state)
    return {str(state): int(count) for state, count in connection.execute(wanted)}


def due(
    connection: sa.Connection, migration: str, definition: Table, limit: int
) -> list[tuple[Chunk, datetime | None]]:
    """Finished chunks, and when each was checked, those that were not checked for longest first."""
    wanted = (table.c.chunk, table.c.low, table.c.high, table.c.checked)
    rows = connection.execute(
        sa.select(*wanted).where(*_done(migration, definition)).order_by(table.c.checked, table.c.chunk).limit(limit)
    )
    return [(_chunk(row[:3]), row[3]) for row in rows]


def sample(connection: sa.Connection, migration: str, definition: Table, limit: int) -> list[Chunk]:
    """Finished chunks chosen at random."""
    rows = connection.execute(
        sa.select(table.c.chunk, table.c.low, table.c.high)
        .where(*_done(migration, definition))
        .order_by(sa.func.rand())
        .limit(limit)
    )
    return [_chunk(row[:3]) for row in rows]


def mark_checked(connection: sa.Connection, migration: str, definition: Table, chunk: int, rows: int) -> None:
    """Note that a chunk was compared, and how many rows the source had."""
    statement = sa.update(table).where(*_of(migration, definition), table.c.chunk == chunk)
    connection.execute(statement.values(checked=now, rows_checked=rows))


def last_bound(connection: sa.Connection, migration: str, definition: Table) -> Key | None:
    """The upper bound of the last finished chunk; None when there is none."""
    found = connection.execute(
        sa.select(table.c.high).where(*_done(migration, definition)).order_by(table.c.chunk.desc()).limit(1)
    ).scalar()
    return bound_of(found)


def unchecked(
    connection: sa.Connection, migration: str, but: Collection[TableId] = ()
) -> tuple[int, int, datetime | None]:
    """(finished chunks, those never checked, the longest time ago that one was); but: tables that are left out."""
    wanted = [table.c.migration == migration, table.c.state == ChunkState.DONE.value, table.c.part == WHOLE]
    if but:
        wanted.append(sa.tuple_(table.c.source, table.c.table_schema, table.c.table_name).not_in(sorted(but)))
    row = connection.execute(
        sa.select(sa.func.count(), sa.func.count(table.c.checked), sa.func.min(table.c.checked)).where(*wanted)
    ).one()
    return int(row[0]), int(row[0]) - int(row[1]), row[2]


def _chunk(row: Sequence[Any]) -> Chunk:
    """Of a row with number, low and high."""
    return Chunk(int(row[0]), bound_of(row[1]), bound_of(row[2]))


def _done(migration: str, definition: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Of the table's own copy: parts overlap with it."""
    return (*_of(migration, definition), table.c.state == ChunkState.DONE.value, table.c.part == WHOLE)


def _of(migration: str, definition: Table, where: sa.Table = table) -> tuple[sa.ColumnElement[bool], ...]:
    named = {"migration": migration, **phase.key_of(definition)}
    return tuple(where.c[name] == value for name, value in named.items())
