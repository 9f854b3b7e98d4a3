"""Rows as a DataFrame's batches, and the steps they go through: each takes batches and gives batches (0020).

A frame's columns: `chunk`; `mark`, null for a row, else JSON about the chunk itself (its end, or a problem), which
every step lets through; `place`, index of the row's place, null until routed; `line`, the whole row as the source's
server wrote it; then `c0`, `c1`, …, the columns that steps look at (`carried`), as the server's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from migrate.chunks.column_codecs import Raw, carried, to_text
from migrate.chunks.mark import ChunkMark
from migrate.chunks.outcome import TaskStopped, judged
from migrate.target.groups import refuse_misplaced
from migrate.target.load import Block
from migrate.target.routing import PlannedTable

Batches = Iterable[pa.RecordBatch]
Step = Callable[[Batches], Iterator[pa.RecordBatch]]


def schema(planned: PlannedTable) -> str:
    """Spark's schema of a frame of the table's rows."""
    columns = ["chunk int", "mark string", "place int", "line binary"]
    return ", ".join([*columns, *(f"c{i} binary" for i in range(len(carried(planned))))])


def arrow_schema(planned: PlannedTable) -> pa.Schema:
    fields = [("chunk", pa.int32()), ("mark", pa.string()), ("place", pa.int32()), ("line", pa.binary())]
    return pa.schema([*fields, *((f"c{i}", pa.binary()) for i in range(len(carried(planned))))])


def field(planned: PlannedTable, name: str) -> str:
    """The frame's column of a table's column."""
    return f"c{carried(planned).index(name)}"


def row_batch(planned: PlannedTable, chunk: int, lines: Sequence[bytes], columns: Sequence[Raw]) -> pa.RecordBatch:
    """Rows of a chunk, not routed yet: their lines, and column by column what is carried."""
    count = len(lines)
    leading = [pa.array([chunk] * count, pa.int32()), pa.nulls(count, pa.string()), pa.nulls(count, pa.int32())]
    values = [pa.array(column, pa.binary()) for column in (lines, *columns)]
    return pa.RecordBatch.from_arrays([*leading, *values], schema=arrow_schema(planned))


def mark_batch(planned: PlannedTable, chunk: int, mark: ChunkMark) -> pa.RecordBatch:
    """The chunk's mark as a frame's row."""
    leading = [pa.array([chunk], pa.int32()), pa.array([mark.dump()], pa.string()), pa.nulls(1, pa.int32())]
    values = [pa.nulls(1, pa.binary()) for _ in ("line", *carried(planned))]
    return pa.RecordBatch.from_arrays([*leading, *values], schema=arrow_schema(planned))


def untouched(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The step that does nothing."""
    yield from batches


def blocks(rows: pa.RecordBatch) -> Iterator[tuple[int, Block]]:
    """The lines of routed rows by place, in their order."""
    order = pc.array_sort_indices(rows.column("place"))
    lines = rows.column("line").take(order)
    text, row, at = lines.buffers()[2], 0, 0
    for place in pc.value_counts(rows.column("place").take(order)).to_pylist():
        count = place["counts"]
        size = pc.sum(pc.binary_length(lines.slice(row, count))).as_py()
        yield place["values"], (text.slice(at, size).to_pybytes(), count)
        row, at = row + count, at + size


def numbers(batches: Batches) -> Iterator[int]:
    """The numbers of `spark.range` that a task is given."""
    return (number for batch in batches for number in batch.column(0).to_pylist())


def chained(*steps: Step) -> Step:
    """Steps as one: rows stay inside a worker, where between frames the JVM would take each of them apart."""

    def step(batches: Batches) -> Iterator[pa.RecordBatch]:
        for one in steps:
            batches = one(batches)
        yield from batches

    return step


def deduplicated(planned: PlannedTable) -> Step:
    """One row a key, the first; within a partition, as a chunk's rows are in one: no shuffle."""
    key = [field(planned, name) for name in planned.table.key]

    def step(batches: Batches) -> Iterator[pa.RecordBatch]:
        seen: dict[int, set[object]] = {}
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in key]
            keys = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
            chunk = batch.column("chunk")
            if batch.column("mark").null_count == batch.num_rows and len(pc.unique(chunk)) == 1:
                known = seen.setdefault(chunk[0].as_py(), set())
                if known.isdisjoint(keys) and len(fresh := set(keys)) == len(keys):  # as ever, but for a moved row
                    known |= fresh
                    yield batch
                    continue
            keep = []
            for number, mark, values in zip(chunk.to_pylist(), batch.column("mark").to_pylist(), keys, strict=True):
                known = seen.setdefault(number, set())
                keep.append(mark is not None or values not in known)
                if mark is None:
                    known.add(values)
            yield batch if all(keep) else batch.filter(pa.array(keep))

    return step


def routed(planned: PlannedTable) -> Step:
    """`place` filled by the table's sharding rule. A row that no place takes, or that belongs to another table by the
    sources' own rule, becomes a mark that stops its chunk."""
    table = planned.table
    columns = [(field(planned, name), to_text(table.by_name[name])) for name in planned.rule.columns]
    at_home = planned.home.rule.columns if planned.home is not None else ()
    own = {name: (field(planned, name), to_text(table.by_name[name])) for name in (*table.key, *at_home)}

    def step(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.filter(pc.is_null(batch.column("mark")))
            if rows.num_rows:
                chunk = rows.column("chunk")[0].as_py()
                try:
                    with judged(f"{table.full_name}, chunk {chunk}"):
                        texts = [read(rows.column(name).to_pylist()) for name, read in columns]
                        if planned.home is not None:
                            values = {name: read(rows.column(at).to_pylist()) for name, (at, read) in own.items()}
                            refuse_misplaced(planned, values, rows.num_rows)
                        places = pa.array(planned.rule.route_many(texts, rows=rows.num_rows), pa.int32())
                    yield rows.set_column(2, "place", places)
                except TaskStopped as stopped:
                    yield mark_batch(planned, chunk, ChunkMark(problem=stopped.problem))
            if rows.num_rows < batch.num_rows:
                yield batch.filter(pc.is_valid(batch.column("mark")))

    return step


def map_in_arrow(frame: DataFrame, step: Step, to: str) -> DataFrame:
    """`DataFrame.mapInArrow` without its check for pandas on the driver, which nothing on either side uses."""
    function = UserDefinedFunction(step, to, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
