"""What the tasks of a full copy do with one chunk. Plain Python: Spark and Arrow are the caller's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import selected
from migrate.scroll.carry import Raw, to_parameters
from migrate.scroll.keyrange import condition
from migrate.scroll.marks import Mark
from migrate.scroll.outcome import Problem, Stopped, judged
from migrate.scroll.sessions import forget, kept
from migrate.scroll.table_copy import Attempt, ChunkResult
from migrate.scroll.writer import ChunkWriter, Values, Written
from migrate.settings import Settings
from migrate.state.detail import Counts
from migrate.target.plan import PlannedTable

BATCH_ROWS = 2000
BATCH_BYTES = 4 * 1024 * 1024
FLUSH_BYTES = 64 * 1024 * 1024
"""A chunk with more bytes is written in several transactions a database, so that memory stays bounded."""


@dataclass(frozen=True)
class CopyJob:
    """What tasks need to copy chunks of one table; travels in their closure."""

    settings: Settings
    planned: PlannedTable

    def name_of(self, chunk: int) -> str:
        return f"copy of {self.planned.table.full_name}, chunk {chunk}"


def read_chunk(job: CopyJob, attempt: Attempt) -> Iterator[list[Raw] | Mark]:
    """The chunk's rows in batches, column by column, as the server's own text; then its mark.

    One SELECT, so one view of the table; the attempt must be open in every target database before.
    """
    table, key_range = job.planned.table, attempt.range
    fields = ", ".join(selected(column) for column in table.stored)
    where, arguments = and_rows(*condition(table, key_range.low, key_range.high), job.planned.rows)
    statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
    rows = size = 0
    try:
        with judged(job.name_of(key_range.number)):
            stream = kept(job.settings).source(table.source).stream(statement, arguments, BATCH_ROWS)
            wanted = 100
            while batch := list(islice(stream, wanted)):
                columns: list[Raw] = list(zip(*batch, strict=True))
                rows += len(batch)
                size += (weight := sum(_bytes(column) for column in columns))
                wanted = max(1, min(BATCH_ROWS, BATCH_BYTES * len(batch) // max(1, weight)))
                yield columns
        yield Mark(rows, size)
    except Stopped as stopped:
        forget()  # rows may still be under way on that session
        yield Mark(problem=stopped.problem)


def _bytes(column: Raw) -> int:
    return sum([len(value) for value in column if value is not None])


class WriteChunk:
    """Takes a chunk's routed rows in batches and writes them; `result` says what became of the attempt."""

    def __init__(self, job: CopyJob, attempt: Attempt) -> None:
        self._job = job
        self._attempt = attempt
        self._converts = [to_parameters(column) for column in job.planned.table.stored]
        self._rows: dict[int, list[Values]] = {}
        self._bytes = 0
        self._done = Written()
        self._end: Mark | None = None
        self._problem: Problem | None = None

    def rows(self, places: Sequence[int], columns: Sequence[Raw]) -> None:
        """Take rows: the index of each one's place, and the columns in the table's order."""
        if self._problem is not None:
            return
        self._bytes += sum(_bytes(column) for column in columns)
        with_values = zip(
            *(convert(column) for convert, column in zip(self._converts, columns, strict=True)), strict=True
        )
        kept_rows = self._rows
        for place, values in zip(places, with_values, strict=True):
            kept_rows.setdefault(place, []).append(values)
        if self._bytes >= FLUSH_BYTES:
            self._write(last=False)

    def mark(self, mark: Mark) -> None:
        """Take the chunk's mark: at its end everything is written and the chunk closed."""
        self._problem = self._problem or mark.problem
        self._end = mark
        if self._problem is None:
            self._write(last=True)

    def result(self) -> ChunkResult:
        """What became of the attempt, once all batches were taken."""
        number, attempt = self._attempt.range.number, self._attempt.attempt
        if self._problem is not None:
            return ChunkResult(number, attempt, Counts(), self._problem)
        if self._end is None:
            raise RuntimeError(f"{self._job.name_of(number)}: its rows ended without a mark")
        return ChunkResult(number, attempt, Counts(self._end.rows, *self._done.counts(), self._end.bytes))

    def _write(self, *, last: bool) -> None:
        rows, self._rows, self._bytes = self._rows, {}, 0
        number = self._attempt.range.number
        try:
            with judged(self._job.name_of(number)):
                pool = kept(self._job.settings).targets
                writer = ChunkWriter(self._job.settings, self._job.planned, pool, number, self._attempt.attempt)
                self._done.add(writer.write(rows, last=last))
        except Stopped as stopped:
            forget()
            self._problem = stopped.problem
