"""The steps between reading and writing, on tiny frames."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from jobs.frames import Step, chained, deduplicated, map_in_arrow, routed, schema
from migrate.chunks.mark import ChunkMark, load
from migrate.chunks.outcome import AttemptEnd
from migrate.target.routing import PlannedTable
from tests.helpers import plain_table, plan_of

END = ChunkMark(3, 42)
Values = tuple[bytes | None, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def planned() -> PlannedTable:
    """shop.t (id, shard, v) over two databases by shard and two tables by id."""
    return next(iter(plan_of(plain_table()).tables.values()))


def frame(
    spark: SparkSession, planned: PlannedTable, rows: Sequence[Values], mark: ChunkMark | None = END
) -> DataFrame:
    """One partition with the rows of chunk 7, id and shard carried and v for a line, and its mark."""
    values: list[tuple[object, ...]] = [(7, None, None, line, key, shard) for key, shard, line in rows]
    if mark is not None:
        values.append((7, mark.dump(), None, None, None, None))
    return spark.createDataFrame(values, schema(planned)).coalesce(1)


def through(frame: DataFrame, planned: PlannedTable, *steps: Step) -> DataFrame:
    return map_in_arrow(frame, chained(*steps), schema(planned))


def rows_of(frame: DataFrame) -> list[Row]:
    return [row for row in frame.collect() if row["mark"] is None]


def marks_of(frame: DataFrame) -> list[ChunkMark]:
    return [load(row["mark"]) for row in frame.collect() if row["mark"] is not None]


def test_dedup_keeps_the_first_row_of_a_key(spark: SparkSession, planned: PlannedTable) -> None:
    rows: list[Values] = [(b"1", b"0", b"first"), (b"2", b"0", b"x"), (b"1", b"0", b"second"), (b"2", b"0", b"x")]
    after = through(frame(spark, planned, rows), planned, deduplicated(planned))
    assert [(row["c0"], row["line"]) for row in rows_of(after)] == [(b"1", b"first"), (b"2", b"x")]
    assert marks_of(after) == [END]


def test_routing_gives_each_row_the_place_of_the_rule(spark: SparkSession, planned: PlannedTable) -> None:
    rows: list[Values] = [(str(key).encode(), str(shard).encode(), b"v") for key in range(4) for shard in range(3)]
    after = through(frame(spark, planned, rows), planned, routed(planned))
    for row in rows_of(after):
        place = planned.route({"id": row["c0"].decode(), "shard": row["c1"].decode()})
        assert planned.places[row["place"]] == place
    assert len(rows_of(after)) == 12
    assert marks_of(after) == [END]


def test_a_row_that_no_place_takes_stops_its_chunk_by_name(spark: SparkSession, planned: PlannedTable) -> None:
    after = through(frame(spark, planned, [(b"1", None, b"v")]), planned, routed(planned))
    problem, end = marks_of(after)
    assert rows_of(after) == []
    assert end == END
    assert problem.problem is not None
    assert problem.problem.end is AttemptEnd.FAILED
    assert "copy" not in json.dumps(problem.problem.message)
    assert problem.problem.message.startswith("shop.t, chunk 7: ")


def test_values_pass_every_step_byte_for_byte(spark: SparkSession, planned: PlannedTable) -> None:
    odd = [None, b"", b"\x00\xff", "😀".encode(), b"N" * 100_000]
    rows: list[Values] = [(str(index).encode(), b"1", value) for index, value in enumerate(odd)]
    after = through(frame(spark, planned, rows), planned, deduplicated(planned), routed(planned))
    assert [None if row["line"] is None else bytes(row["line"]) for row in rows_of(after)] == odd


def test_the_steps_need_no_shuffle(spark: SparkSession, planned: PlannedTable) -> None:
    plan = (
        through(frame(spark, planned, []), planned, deduplicated(planned), routed(planned))
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "Exchange" not in plan
