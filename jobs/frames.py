"""Rows as DataFrames, and the steps they go through: each takes a frame and gives a frame.

A frame's columns: `chunk`; `mark`, null for a row, else JSON about the chunk itself (its end, or a problem), which
every step lets through; `place`, index of the row's place, null until routed; then `c0`, `c1`, …, the table's stored
columns as the server's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from migrate.model.table import Table
from migrate.scroll.carry import to_text
from migrate.scroll.marks import Mark
from migrate.scroll.outcome import Stopped, judged
from migrate.target.plan import PlannedTable

Batches = Iterable[pa.RecordBatch]
Step = Callable[[Batches], Iterator[pa.RecordBatch]]


def schema(table: Table) -> str:
    """Spark's schema of a frame of the table's rows."""
    return ", ".join(["chunk int", "mark string", "place int", *(f"c{i} binary" for i in range(len(table.stored)))])


def arrow_schema(table: Table) -> pa.Schema:
    fields = [("chunk", pa.int32()), ("mark", pa.string()), ("place", pa.int32())]
    return pa.schema([*fields, *((f"c{i}", pa.binary()) for i in range(len(table.stored)))])


def field(table: Table, name: str) -> str:
    """The frame's column of a table's column."""
    return f"c{[column.name for column in table.stored].index(name)}"


def row_batch(table: Table, chunk: int, columns: Sequence[Sequence[bytes | None]]) -> pa.RecordBatch:
    """Rows of a chunk, given column by column, not routed yet."""
    count = len(columns[0])
    leading = [pa.array([chunk] * count, pa.int32()), pa.nulls(count, pa.string()), pa.nulls(count, pa.int32())]
    values = [pa.array(column, pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays([*leading, *values], schema=arrow_schema(table))


def mark_batch(table: Table, chunk: int, mark: Mark) -> pa.RecordBatch:
    """The chunk's mark as a frame's row."""
    leading = [pa.array([chunk], pa.int32()), pa.array([mark.dump()], pa.string()), pa.nulls(1, pa.int32())]
    values = [pa.nulls(1, pa.binary()) for _ in table.stored]
    return pa.RecordBatch.from_arrays([*leading, *values], schema=arrow_schema(table))


def filtered(frame: DataFrame, condition: Column | None) -> DataFrame:
    """Only the rows that fulfil the condition; marks pass."""
    return frame if condition is None else frame.where(F.col("mark").isNotNull() | condition)


def deduplicated(frame: DataFrame, table: Table) -> DataFrame:
    """One row a key, the first; within a partition, as a chunk's rows are in one: no shuffle."""
    return map_in_arrow(frame, _dedup(table), schema(table))


def routed(frame: DataFrame, planned: PlannedTable) -> DataFrame:
    """`place` filled by the table's sharding rule. A row that no place takes becomes a mark that stops its chunk."""
    return map_in_arrow(frame, _route(planned), schema(planned.table))


def transformed(frame: DataFrame, planned: PlannedTable, condition: Column | None = None) -> DataFrame:
    """Filter, dedup and routing, the last two in one pass through Python."""
    dedup, route = _dedup(planned.table), _route(planned)
    return map_in_arrow(filtered(frame, condition), lambda batches: route(dedup(batches)), schema(planned.table))


def _dedup(table: Table) -> Step:
    key = [field(table, name) for name in table.key]

    def step(batches: Batches) -> Iterator[pa.RecordBatch]:
        seen: set[tuple[object, ...]] = set()
        for batch in batches:
            names = [batch.column(name).to_pylist() for name in ("chunk", "mark", *key)]
            keep = []
            for values in zip(*names, strict=True):
                keep.append(values not in seen)
                seen.add(values)
            yield batch if all(keep) else batch.filter(pa.array(keep))

    return step


def _route(planned: PlannedTable) -> Step:
    table = planned.table
    columns = [(field(table, name), to_text(table.by_name[name])) for name in planned.rule.columns]

    def step(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.filter(pc.is_null(batch.column("mark")))
            if rows.num_rows:
                chunk = rows.column("chunk")[0].as_py()
                try:
                    with judged(f"{table.full_name}, chunk {chunk}"):
                        texts = [read(rows.column(name).to_pylist()) for name, read in columns]
                        places = pa.array(planned.rule.route_many(texts, rows=rows.num_rows), pa.int32())
                    yield rows.set_column(2, "place", places)
                except Stopped as stopped:
                    yield mark_batch(table, chunk, Mark(problem=stopped.problem))
            if rows.num_rows < batch.num_rows:
                yield batch.filter(pc.is_valid(batch.column("mark")))

    return step


def map_in_arrow(frame: DataFrame, step: Step, to: str) -> DataFrame:
    """`DataFrame.mapInArrow` without its check for pandas on the driver, which nothing on either side uses."""
    function = UserDefinedFunction(step, to, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
