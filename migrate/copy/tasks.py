"""What the tasks of a full copy do with one chunk. Plain Python: Spark and Arrow are the caller's."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from migrate.chunks import line
from migrate.chunks.column_codecs import Raw, carried
from migrate.chunks.keyrange import added, condition
from migrate.chunks.mark import ChunkMark
from migrate.chunks.outcome import Problem, TaskStopped, judged
from migrate.chunks.sessions import forget, kept, open_source
from migrate.chunks.task_settings import for_tasks
from migrate.copy.table_copy import Attempt, ChunkResult
from migrate.copy.writer import ChunkWriter, Written
from migrate.model.change import Key
from migrate.mysql import whole_values
from migrate.mysql.columns import stream as columns_of
from migrate.mysql.connection import Connection
from migrate.mysql.keys import among
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import from_server, selected
from migrate.settings import Settings
from migrate.state.chunks import CopyCounts
from migrate.target.load import Block
from migrate.target.routing import PlannedTable

BATCH_ROWS = 5000
BATCH_BYTES = 4 * 1024 * 1024
FLUSH_BYTES = 64 * 1024 * 1024
"""A chunk with more bytes is written in several transactions a database, so that memory stays bounded."""


@dataclass(frozen=True)
class CopyJob:
    """What tasks need to copy chunks of one table; travels in their closure.

    aside: keys that a person said to set aside if they are refused, and why; part: SQL that chooses the rows.
    """

    settings: Settings
    planned: PlannedTable
    aside: Mapping[Key, str] = field(default_factory=dict)
    part: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", for_tasks(self.settings))

    def name_of(self, chunk: int) -> str:
        return f"copy of {self.planned.table.full_name}, chunk {chunk}"


Lines = Sequence[bytes]


class Batch(NamedTuple):
    """Some rows of a chunk."""

    lines: Lines
    carried: Sequence[Raw]  # column by column


def read_chunk(job: CopyJob, attempt: Attempt) -> Iterator[Batch | ChunkMark]:
    """The chunk's rows in batches; then its mark.

    One SELECT, so one view of the table; the attempt must be open in every target database before.
    """
    table, chunk = job.planned.table, attempt.chunk
    where, arguments = and_rows(*condition(table, chunk.low, chunk.high), job.planned.rows)
    where = added(where, job.part)
    rows = size = 0
    try:
        with judged(job.name_of(chunk.number)):
            source = kept(job.settings).source(table.source)
            fields = f"{line.expression(table, source.flavour)}, {_carried(job)}"
            statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
            for lines, *columns in columns_of(source, statement, arguments, BATCH_ROWS, BATCH_BYTES):
                for batch in _with_lines(job, lines, columns):
                    rows += len(batch.lines)
                    size += sum(map(len, batch.lines))
                    yield batch
        yield ChunkMark(rows, size)
    except TaskStopped as stopped:
        forget()  # rows may still be under way on that session
        yield ChunkMark(problem=stopped.problem)


def _carried(job: CopyJob) -> str:
    return ", ".join(selected(job.planned.table.by_name[name]) for name in carried(job.planned))


def _with_lines(job: CopyJob, lines: Raw, columns: Sequence[Raw]) -> Iterator[Batch]:
    """The rows, also those whose line the server does not make: these are read again by their keys.

    A row that is gone meanwhile is left out, as if the chunk had been read now: its attempt is open.
    """
    if None not in lines:
        if lines:
            yield Batch(cast("Lines", lines), columns)
        return
    found: list[tuple[Any, ...]] = []
    size = 0
    with closing(open_source(job.settings, job.planned.table.source)) as session:
        for text, *values in zip(lines, *columns, strict=True):
            row = (text, *values) if text is not None else _read_again(job, session, values)
            if row is not None:
                found.append(row)
                size += len(row[0])
            if size >= BATCH_BYTES:
                yield _batch(found)
                found, size = [], 0
    if found:
        yield _batch(found)


def _batch(rows: Sequence[tuple[Any, ...]]) -> Batch:
    lines, *columns = zip(*rows, strict=True)
    return Batch(lines, columns)


def _read_again(job: CopyJob, session: Connection, values: Sequence[bytes | None]) -> tuple[Any, ...] | None:
    """A row's line and what it carries, as they are now; None when it is gone.

    Args: values: what it carried, its key first.
    """
    table = job.planned.table
    readers = [from_server(column) for column in table.key_columns]
    key = tuple(str(read(value)) for read, value in zip(readers, values, strict=False))
    where, arguments = and_rows(*among(table, [key]), job.planned.rows)
    name, fields = full_name(table.database, table.name), whole_values.fields(table.stored)
    found = session.one(f"SELECT {_carried(job)}, {fields} FROM {name} WHERE {where}", arguments)
    if found is None:
        return None
    whole = whole_values.values(table.stored, found[len(values) :])
    return line.build(table, whole), *found[: len(values)]


class WriteChunk:
    """Takes a chunk's routed rows in batches and writes them; `result` says what became of the attempt."""

    def __init__(self, job: CopyJob, attempt: Attempt) -> None:
        self._job = job
        self._attempt = attempt
        self._rows: dict[int, list[Block]] = {}
        self._places: Counter[int] = Counter()
        self._bytes = 0
        self._done = Written()
        self._end: ChunkMark | None = None
        self._began = time.monotonic()
        self._problem: Problem | None = None
        self._writer: ChunkWriter | None = None  # one for all transactions: it knows how many it committed, and where

    def rows(self, place: int, block: Block) -> None:
        """Take rows that are routed to a place, by its index; those of a broadcast table are for every place."""
        if self._problem is not None:
            return
        self._bytes += len(block[0])
        for at in self._job.planned.indexes(place):
            self._places[at] += block[1]
            self._rows.setdefault(at, []).append(block)
        if self._bytes >= FLUSH_BYTES:
            self._write(last=False)

    def mark(self, mark: ChunkMark) -> None:
        """Take the chunk's mark: at its end everything is written and the chunk closed."""
        self._problem = self._problem or mark.problem
        self._end = mark
        if self._problem is None:
            self._write(last=True)

    def result(self) -> ChunkResult:
        """What became of the attempt, once all batches were taken."""
        number, attempt = self._attempt.chunk.number, self._attempt.attempt
        if self._problem is not None:
            return ChunkResult(number, attempt, CopyCounts(), self._problem)
        if self._end is None:
            raise RuntimeError(f"{self._job.name_of(number)}: its rows ended without a mark")
        counts = self._done.counts + CopyCounts(rows_read=self._end.rows, bytes_read=self._end.bytes)
        seconds, left = time.monotonic() - self._began, self._done.left
        return ChunkResult(number, attempt, counts, seconds=seconds, places=self._places, left_out=left)

    def _write(self, *, last: bool) -> None:
        rows, self._rows, self._bytes = self._rows, {}, 0
        number = self._attempt.chunk.number
        try:
            with judged(self._job.name_of(number)):
                self._writer = self._writer or self._new_writer()
                self._done.add(self._writer.write(rows, last=last))
        except TaskStopped as stopped:
            kept(self._job.settings).targets.close()  # not the source's session: the chunk may still be read on it
            self._problem = stopped.problem

    def _new_writer(self) -> ChunkWriter:
        job, attempt = self._job, self._attempt
        pool = kept(job.settings).targets
        return ChunkWriter(job.settings, job.planned, pool, attempt.chunk.number, attempt.attempt, job.aside)
