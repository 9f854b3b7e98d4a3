"""One row per chunk of the full copy: its range, its state, what it brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from migrate.model.errors import OwnershipLost
from migrate.model.table import Table
from migrate.state import columns, phase
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
    sa.Column("started", sa.DateTime),
    sa.Column("finished", sa.DateTime),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a chunk brought; rows, but `bytes_read` in bytes of the server's text."""

    rows_read: int = 0
    rows_inserted: int = 0
    rows_present: int = 0
    conflicts: int = 0
    taken_out: int = 0
    bytes_read: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in COUNTS))


COUNTS = tuple(Counts.__slots__)


@dataclass(frozen=True, slots=True)
class Detail:
    chunk: int
    low: str | None  # JSON list of key texts, exclusive
    high: str | None  # inclusive
    state: ChunkState
    attempt: int
    counts: Counts


def load(connection: sa.Connection, migration: str, definition: Table) -> list[Detail]:
    """Every planned chunk of a table, in order."""
    wanted = [table.c[name] for name in ("chunk", "low", "high", "state", "attempt", *COUNTS)]
    rows = connection.execute(sa.select(*wanted).where(*_of(migration, definition)).order_by(table.c.chunk))
    return [Detail(row[0], row[1], row[2], ChunkState(row[3]), row[4], Counts(*map(int, row[5:]))) for row in rows]


def begin(
    connection: sa.Connection,
    migration: str,
    definition: Table,
    run: int,
    chunks: Iterable[tuple[int, str | None, str | None]],
) -> dict[int, int]:
    """Note that chunks (number, low, high) are being copied, each with the next attempt; returns the attempts.

    Args: run: the attempt of the table's phase that the caller began. Raises OwnershipLost when a later run began:
    the phase's row is locked, so attempts are given out by one run at a time.
    """
    current = connection.execute(
        sa.select(phase.table.c.attempt).where(*_of(migration, definition, phase.table)).with_for_update()
    ).scalar()
    if current != run:
        raise OwnershipLost(
            f"copy of {definition.full_name}: run {run} was superseded by run {current}",
            hint="another `migrate copy` goes on with it",
        )
    wanted = {number: (low, high) for number, low, high in chunks}
    known = connection.execute(
        sa.select(table.c.chunk, table.c.attempt).where(*_of(migration, definition), table.c.chunk.in_(wanted))
    )
    attempts = {number: int(attempt) + 1 for number, attempt in known}
    row = {"migration": migration, **phase.key_of(definition), "state": ChunkState.COPYING.value, "started": now}
    for number, (low, high) in wanted.items():
        if number in attempts:
            statement = sa.update(table).where(*_of(migration, definition), table.c.chunk == number)
            values = {"state": ChunkState.COPYING.value, "attempt": attempts[number], "started": now}
            connection.execute(statement.values(values))
        else:
            attempts[number] = 1
            values = {**row, "chunk": number, "low": low, "high": high, "attempt": 1}
            connection.execute(sa.insert(table).values(values))
    return attempts


def finish(
    connection: sa.Connection, migration: str, definition: Table, done: Mapping[int, tuple[int, Counts]]
) -> None:
    """Note chunks as done: number to (attempt, counts). One that has a later attempt by now is left to it."""
    for number, (attempt, counts) in done.items():
        connection.execute(
            sa.update(table)
            .where(*_of(migration, definition), table.c.chunk == number, table.c.attempt == attempt)
            .values(
                state=ChunkState.DONE.value,
                finished=now,
                **{name: getattr(counts, name) for name in COUNTS},
            )
        )


def void(connection: sa.Connection, migration: str, definition: Table) -> None:
    """The copy begins anew, with other chunk numbers, so that no attempt of before can be taken for one of then."""
    connection.execute(
        sa.update(table).where(*_of(migration, definition)).values(state=ChunkState.VOID.value, finished=now)
    )


def totals(connection: sa.Connection, migration: str, definition: Table) -> tuple[int, int, Counts]:
    """(chunks planned so far, chunks done, sums over the done ones) of a table."""
    sums = [sa.func.coalesce(sa.func.sum(table.c[name]), 0) for name in COUNTS]
    done = sa.func.coalesce(sa.func.sum(table.c.state == ChunkState.DONE.value), 0)
    counted = (*_of(migration, definition), table.c.state != ChunkState.VOID.value)
    row = connection.execute(sa.select(sa.func.count(), done, *sums).where(*counted)).one()
    return int(row[0]), int(row[1]), Counts(*map(int, row[2:]))


def _of(migration: str, definition: Table, where: sa.Table = table) -> tuple[sa.ColumnElement[bool], ...]:
    named = {"migration": migration, **phase.key_of(definition)}
    return tuple(where.c[name] == value for name, value in named.items())
