"""One wave of the verification as a Spark job: chunks of one table or of many, some a task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.collect import collected
from jobs.frames import Batches, map_in_arrow, numbers
from migrate.chunks.outcome import AttemptEnd, Problem
from migrate.copy.governor import most_chunks
from migrate.model.chunk import Chunk
from migrate.settings import Settings
from migrate.verify.chunk_check import Checked, CheckJob, check_chunk
from migrate.verify.digest import Suspects

_RESULT = "chunk int, body string"


class CheckWork(NamedTuple):
    """A chunk to be compared, and of which tables."""

    job: CheckJob
    chunk: Chunk


def tasks_of(spark: SparkSession, settings: Settings) -> int:
    """How many tasks a wave has at most: each has a session at every server."""
    return min(int(spark.sparkContext.defaultParallelism), most_chunks(settings))


def run_wave(spark: SparkSession, wave: Sequence[CheckWork], tasks: int) -> list[Checked]:
    """Compare chunks in so many tasks; a result for each, in their order."""
    works = list(wave)

    def check(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            checked = check_chunk(*works[number])
            arrays = [pa.array([checked.chunk], pa.int32()), pa.array([_dump(checked)], pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, names=["chunk", "body"])

    frame = map_in_arrow(spark.range(0, len(works), 1, min(tasks, len(works))), check, _RESULT)
    rows = collected(frame)
    if isinstance(rows, Problem):
        return [Checked(work.chunk.number, problem=rows) for work in works]
    return [_load(row["chunk"], row["body"]) for row in rows]


def _dump(checked: Checked) -> str:
    problem = None if checked.problem is None else asdict(checked.problem)
    keys = [list(key) for key in checked.suspects.keys]
    return json.dumps([checked.rows, checked.target_rows, keys, checked.suspects.more, problem])


def _load(chunk: int, body: str) -> Checked:
    rows, target_rows, keys, more, problem = json.loads(body)
    suspects = Suspects({tuple(key): None for key in keys}, more)
    if problem is None:
        return Checked(chunk, rows, target_rows, suspects)
    return Checked(chunk, problem=Problem(AttemptEnd(problem["end"]), problem["message"], problem["hint"]))
