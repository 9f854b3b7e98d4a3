"""One wave of the full copy as a Spark job: chunks of one table or of many, some a task.

A chunk is read → deduplicated → routed → written inside one task, without a shuffle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from jobs.collect import collected
from jobs.frames import (
    Batches,
    Step,
    blocks,
    chained,
    deduplicated,
    map_in_arrow,
    mark_batch,
    numbers,
    routed,
    row_batch,
)
from migrate.chunks.mark import ChunkMark
from migrate.chunks.mark import load as load_mark
from migrate.chunks.outcome import AttemptEnd, Problem
from migrate.copy.table_copy import Attempt, ChunkResult
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.state.chunks import COUNTS, CopyCounts

_RESULT = ", ".join(["chunk int", "attempt int", "`end` string", "message string", "hint string", "seconds double"])
_RESULT += "".join(f", {name} long" for name in COUNTS) + ", places string, left_out string"


class CopyWork(NamedTuple):
    """A chunk to be copied, whose attempt is open, and of which table."""

    job: CopyJob
    attempt: Attempt


def run_wave(spark: SparkSession, wave: Sequence[CopyWork], tasks: int) -> list[ChunkResult]:
    """Copy chunks in so many tasks; a result for each, in their order.

    When Spark loses a worker or an executor, every chunk of the wave gets a new attempt.
    """
    works = list(wave)

    def copy(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            job, attempt = works[number]
            steps = (_read(job, attempt), deduplicated(job.planned), routed(job.planned), _write(job, attempt))
            yield from chained(*steps)(())

    frame = map_in_arrow(spark.range(0, len(works), 1, min(tasks, len(works))), copy, _RESULT)
    rows = collected(frame)
    if isinstance(rows, Problem):
        return [ChunkResult(attempt.chunk.number, attempt.attempt, CopyCounts(), rows) for _, attempt in works]
    return [_result(row.asDict()) for row in rows]


def _read(job: CopyJob, attempt: Attempt) -> Step:
    """The chunk's rows as the source's own text, with its mark at the end; of no batches."""

    def read(_batches: Batches) -> Iterator[pa.RecordBatch]:
        planned, chunk = job.planned, attempt.chunk.number
        if (again := _ran_before(job, chunk)) is not None:
            yield mark_batch(planned, chunk, again)
            return
        for item in read_chunk(job, attempt):
            yield mark_batch(planned, chunk, item) if isinstance(item, ChunkMark) else row_batch(planned, chunk, *item)

    return read


def _ran_before(job: CopyJob, chunk: int) -> ChunkMark | None:
    """A task that Spark runs again shares its attempt with the first run (invariant copy-never-overwrites)."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return None
    return ChunkMark(problem=Problem(AttemptEnd.AGAIN, f"{job.name_of(chunk)}: Spark ran the task again"))


def _write(job: CopyJob, attempt: Attempt) -> Step:
    """Write routed rows; what it gives is one row, what became of the chunk."""

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        writer = WriteChunk(job, attempt)
        for batch in batches:
            for part in _by_mark(batch):
                if (mark := part.column("mark")[0].as_py()) is not None:
                    writer.mark(load_mark(mark))
                else:
                    for place, block in blocks(part):
                        writer.rows(place, block)
        yield _result_batch(writer.result())

    return write


def _by_mark(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of a batch, each mark alone."""
    marks = batch.column("mark").to_pylist()
    start = 0
    for index in range(1, len(marks) + 1):
        if index == len(marks) or marks[index] or marks[start]:
            yield batch.slice(start, index - start)
            start = index


def _result_batch(result: ChunkResult) -> pa.RecordBatch:
    problem = result.problem
    told = (None, None, None) if problem is None else (problem.end.value, problem.message, problem.hint)
    counts = [getattr(result.counts, name) for name in COUNTS]
    texts = [json.dumps(result.places), json.dumps(result.left_out)]
    values = [result.chunk, result.attempt, *told, result.seconds, *counts, *texts]
    types = [pa.int32(), pa.int32(), *[pa.string()] * 3, pa.float64(), *[pa.int64()] * len(COUNTS), *[pa.string()] * 2]
    arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    names = ["chunk", "attempt", "end", "message", "hint", "seconds", *COUNTS, "places", "left_out"]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _result(row: dict[str, object]) -> ChunkResult:
    problem = None
    if row["end"] is not None:
        problem = Problem(AttemptEnd(str(row["end"])), str(row["message"]), str(row["hint"]))
    counts = CopyCounts(*(int(str(row[name])) for name in COUNTS))
    seconds = float(str(row["seconds"]))
    places = {int(place): int(rows) for place, rows in json.loads(str(row["places"])).items()}
    left_out = [tuple(key) for key in json.loads(str(row["left_out"]))]
    return ChunkResult(int(str(row["chunk"])), int(str(row["attempt"])), counts, problem, seconds, places, left_out)
