"""Rows of a range that stand at a source table where they do not belong, by the sources' own rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrate.chunks.column_codecs import carried, to_text
from migrate.chunks.keyrange import condition
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import StopError
from migrate.model.message import Row
from migrate.mysql.columns import stream
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import selected
from migrate.target.routing import PlannedTable
from migrate.verify.digest import Sources

_BATCH_ROWS = 5000
_BATCH_BYTES = 4 * 1024 * 1024


def keys(source: Sources, tables: Sequence[PlannedTable], chunk: Chunk) -> set[Key]:
    """Their keys, as the server writes them. tables: all that share their places.

    By the server, where it computes the rule; else by the columns of the rule, row by row.
    """
    return {key for planned in tables if planned.home is not None for key in _of(source, planned, chunk)}


def _of(source: Sources, planned: PlannedTable, chunk: Chunk) -> Iterator[Key]:
    table, names = planned.table, carried(planned)
    where, arguments = and_rows(*condition(table, chunk.low, chunk.high), planned.rows)
    if (here := planned.own_rows) is not None:
        where = f"({where}) AND NOT COALESCE({here}, FALSE)"
    fields = ", ".join(selected(table.by_name[name]) for name in names)
    statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
    readers = [to_text(table.by_name[name]) for name in names]
    for raw in stream(source(table.source), statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
        texts = (read(values) for read, values in zip(readers, raw, strict=True))
        rows = [dict(zip(names, values, strict=True)) for values in zip(*texts, strict=True)]
        for row in _strays(planned, rows):
            yield tuple(str(row[name]) for name in table.key)


def _strays(planned: PlannedTable, rows: Sequence[Row]) -> Iterator[Row]:
    try:
        found = planned.misplaced(rows)
    except StopError:  # one of them belongs to no table at all
        if len(rows) == 1:
            yield rows[0]
        else:
            for row in rows:
                yield from _strays(planned, [row])
        return
    yield from (row for row, belongs in zip(rows, found, strict=True) if belongs is not None)
