"""Rows as digests, computed in the servers and read one by one, of chunks that `migrate.verify.checksum` finds unequal.

A row's digest is SHA-256 over its fields as `migrate.chunks.line` writes them, so that no two different rows give one
text (NULL is not '', 'a','bc' is not 'ab','c').
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from migrate.chunks import line
from migrate.chunks.column_codecs import to_text
from migrate.chunks.keyrange import condition
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.columns import stream as columns_of
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import compared, portable, selected
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable

DIGEST_HEX = 32
"""Hex digits of a digest that are compared: 128 bits."""
_LARGE = ("mediumtext", "longtext", "mediumblob", "longblob", "json", "vector")
_BATCH_ROWS = 5000
_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Suspects:
    """Keys of a chunk that differ at a first look; `more` of them are not named."""

    keys: dict[Key, None] = field(default_factory=dict)  # in the order they were found
    more: int = 0

    def add(self, key: Key, limit: int) -> None:
        if key in self.keys or len(self.keys) < limit:
            self.keys[key] = None
        else:
            self.more += 1


def row_digest(table: Table, mixed: bool = False) -> str:
    """The SQL expression of a row's digest, the same text on both sides.

    mixed: one side is MySQL and the other MariaDB (`Sessions.mixed`).
    """
    fields = [_field(column, value(column, mixed)) for column in table.stored]
    return f"LEFT(SHA2({line.joined(fields)}, 256), {DIGEST_HEX})"


def value(column: Column, mixed: bool) -> str:
    """The SQL expression of a column's bytes, as both sides give them."""
    return portable(column) if mixed else compared(column)


def _field(column: Column, value: str) -> str:
    """A field for the digest; of a large value its own digest: CONCAT gives NULL beyond max_allowed_packet."""
    if column.kind is Kind.GEOMETRY or column.type.lower().startswith(_LARGE):
        return line.or_null(column, f"SHA2({value}, 256)")
    return line.of_value(column, value)


def source_rows(
    connection: Connection, planned: PlannedTable, chunk: Chunk, mixed: bool = False
) -> Iterator[tuple[list[Key], list[int], list[bytes], list[str]]]:
    """The source's rows of a range in batches: keys, indexes of the places they route to, digests; and, as
    `PlannedTable.elsewhere`, where they belong instead of where they are.

    Raises StopError for a row that no place takes, or that has no digest.
    """
    table, columns = planned.table, told_by(planned)
    fields = ", ".join(map(selected, columns))
    where, arguments = and_rows(*condition(table, chunk.low, chunk.high), planned.rows)
    name = full_name(table.database, table.name)
    statement = f"SELECT {fields}, {row_digest(table, mixed)} FROM {name} WHERE {where}"
    for *raw, digests in columns_of(connection, statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
        texts = {column.name: to_text(column)(values) for column, values in zip(columns, raw, strict=True)}
        keys: list[Key] = list(zip(*(map(str, texts[name]) for name in table.key), strict=True))
        places = planned.rule.route_many([texts[name] for name in planned.rule.columns], rows=len(digests))
        found = [digest for digest in digests if digest is not None]
        if len(found) < len(digests):
            raise no_digest(table)
        yield keys, places, found, planned.elsewhere([texts[one.name] for one in planned.belongs_by], len(digests))


def told_by(planned: PlannedTable) -> list[Column]:
    """The columns that tell of a row what its key is, and where it belongs at either side."""
    table = planned.table
    names = (*table.key, *planned.rule.columns, *(column.name for column in planned.belongs_by))
    return [table.by_name[name] for name in dict.fromkeys(names)]


Sources = Callable[[str], Connection]
"""A session on a source, by its name."""


def suspects(
    source: Sources,
    pool: TargetPool,
    tables: Sequence[PlannedTable],
    chunk: Chunk,
    limit: int,
    mixed: bool = False,
) -> Suspects:
    """The keys of a range that differ at some place; memory is bounded by the sources' rows in the range.

    tables: all that share the places.
    """
    expected: dict[tuple[int, Key], bytes] = {}
    found = Suspects()
    for planned in tables:
        for keys, routed, digests, belongs in source_rows(source(planned.table.source), planned, chunk, mixed):
            for key, routed_to, digest, elsewhere in zip(keys, routed, digests, belongs, strict=True):
                for place in planned.indexes(routed_to):
                    if elsewhere or (place, key) in expected:  # in another table than its own; in two tables
                        found.add(key, limit)
                    expected[place, key] = digest
    for key in _at_mirrors(source, tables[0], chunk, {key: one for (_, key), one in expected.items()}, mixed):
        found.add(key, limit)
    for place in range(len(tables[0].places)):
        for key, there in target_rows(pool, tables[0], chunk, place, mixed):
            if expected.pop((place, key), None) != there or there is None:  # too large a row is equal to nothing
                found.add(key, limit)
    for _, key in expected:
        found.add(key, limit)
    return found


def _at_mirrors(
    source: Sources, planned: PlannedTable, chunk: Chunk, first: Mapping[Key, bytes], mixed: bool
) -> Iterator[Key]:
    """Keys that another node of a broadcast table has otherwise than the first one, whose digests these are."""
    for one in planned.mirror_tables:
        left = dict(first)
        mirror = replace(planned, table=one, belongs=None)
        for keys, _, digests, _ in source_rows(source(one.source), mirror, chunk, mixed):
            yield from (key for key, digest in zip(keys, digests, strict=True) if left.pop(key, None) != digest)
        yield from left


def target_rows(
    pool: TargetPool, planned: PlannedTable, chunk: Chunk, place: int, mixed: bool = False
) -> Iterator[tuple[Key, bytes | None]]:
    """Keys and digests of a place's rows in a range; None for a row too large for the server to digest."""
    table = planned.table
    where, arguments = condition(table, chunk.low, chunk.high)
    fields = ", ".join(compared(column) for column in table.key_columns)
    readers = [to_text(column) for column in table.key_columns]
    statement = f"SELECT {fields}, {row_digest(table, mixed)} FROM {quote(planned.places[place].table)} WHERE {where}"
    connection = pool.get(planned.places[place].database)
    for *raw, digests in columns_of(connection, statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
        texts = (map(str, read(column)) for read, column in zip(readers, raw, strict=True))
        yield from zip(zip(*texts, strict=True), digests, strict=True)


def no_digest(table: Table) -> StopError:
    """The server gave NULL for a row's digest."""
    return StopError(
        f"{table.full_name}: a row is too large for the server to digest",
        hint="raise max_allowed_packet on both sides",
        code=Code.VALUE,
    )
