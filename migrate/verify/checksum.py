"""A chunk compared as a whole: each side's rows as one sum, computed in the servers (docs/decisions/0024).

A side's sum is its count of rows and the XOR of their SHA-256 digests. Digests of different rows cancel out only by
chance; a row that is there twice cancels itself out, and the count tells. What is equal by this has the same rows on
both sides; whether each is in the table where it belongs either side says, or its sharding columns do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.chunks import line
from migrate.chunks.column_codecs import to_text
from migrate.chunks.keyrange import condition
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.columns import stream
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import compared, portable, selected
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable
from migrate.verify.digest import Sources

_BATCH_ROWS = 20_000
_BATCH_BYTES = 4 * 1024 * 1024
_TAB = "X'09'"
_HEX = 64
"""Digits of a whole digest."""


@dataclass(frozen=True, slots=True)
class ChunkSum:
    """What one side has of a chunk, to be held against the other side's: how many rows, and their digests."""

    rows: int = 0
    digests: int = 0  # their XOR

    def __add__(self, other: ChunkSum) -> ChunkSum:
        return ChunkSum(self.rows + other.rows, self.digests ^ other.digests)


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are written before they are digested; the same on both sides."""

    flavours: frozenset[str]  # of the servers on both sides, see `Sessions.flavours`
    json_types: bool = False
    """Whether a JSON document is its text and the types of its scalars; else its text and the size it is stored in."""

    @property
    def mixed(self) -> bool:
        return len(self.flavours) > 1

    def total(self, table: Table) -> str:
        """SQL for a side's sum: the count, and the XOR as text in hexadecimal."""
        digest = f"SHA2({self._row(table)}, 256)"
        digest = f"IFNULL({digest}, SHA2(UUID(), 256))"  # too large for the server: equal to nothing, so looked into
        if self._by_bytes:
            return f"COUNT(*), HEX(BIT_XOR(UNHEX({digest})))"
        return f"COUNT(*), HEX(BIT_XOR(CAST(CONV(LEFT({digest}, 16), 16, 10) AS UNSIGNED)))"  # numbers alone: 64 bits

    def read(self, planned: PlannedTable, rows: int | bytes, digests: str | bytes) -> ChunkSum:
        """What `total` gave. Raises StopError where a server takes texts of bytes for numbers, as MySQL 5 does."""
        if self._by_bytes and int(rows) and len(digests) != _HEX:
            raise StopError(
                f"{planned.table.full_name}: a server that calls itself MySQL 8 or later has no BIT_XOR of bytes",
                hint="connect to the servers themselves, not to a proxy that speaks for another version",
                code=Code.VALUE,
            )
        return ChunkSum(int(rows), int(digests, 16))

    @property
    def _by_bytes(self) -> bool:
        return self.flavours == {"mysql"}

    def _row(self, table: Table) -> str:
        """SQL for the row: its fields with tabs between, then the lengths of those that may have tabs inside.

        One such field needs none: it is what is left between the others.
        """
        free = [column for column in table.stored if not (line.plain(column) or self._is_json(column))]
        if certain := [column for column in free if not column.nullable]:
            free.remove(certain[0])
        fields = [self._field(column) for column in table.stored]
        return f"CONCAT({f', {_TAB}, '.join([*fields, *map(_length, free)])})"

    def _field(self, column: Column) -> str:
        if self._is_json(column) and not self.json_types:
            name = quote(column.name)  # it has no tab, as MySQL prints it
            size = f"JSON_STORAGE_SIZE({name}) - JSON_STORAGE_FREE({name})"  # from MySQL 8 on
            return line.or_null(column, f"CONCAT(CAST({name} AS BINARY) /*!50799 , {_TAB}, {size} */)")
        return line.or_null(column, portable(column) if self.mixed else compared(column))

    def _is_json(self, column: Column) -> bool:
        """Whether it is binary JSON on both sides."""
        return column.kind is Kind.JSON and self.flavours == {"mysql"}


def forms(table: Table, flavours: frozenset[str], *, json_types: bool) -> list[Form]:
    """The forms that rows are compared in, one after the other until they are equal in one.

    A document's types cost as much as all else of a row, its stored size next to nothing; but of a DECIMAL inside the
    size depends on how the document was made.

    json_types: only what is equal by type is equal.
    """
    exact = Form(flavours, json_types=True)
    quick = flavours == {"mysql"} and not json_types and any(column.kind is Kind.JSON for column in table.stored)
    return [Form(flavours), exact] if quick else [exact]


def _length(column: Column) -> str:
    name = quote(column.name)
    return f"IF({name} IS NULL, '-', LENGTH({name}))" if column.nullable else f"LENGTH({name})"


def source_total(
    source: Sources, tables: Sequence[PlannedTable], chunk: Chunk, form: Form
) -> tuple[ChunkSum, bool | None]:
    """The sum over all tables that share their places, and whether every row is in the one where it belongs.

    The latter is None where no server computes the rule.
    """
    total, placed, computed = ChunkSum(), True, True
    for planned in tables:
        table, own = planned.table, planned.own_rows
        where, arguments = and_rows(*condition(table, chunk.low, chunk.high), planned.rows)
        columns = f"{form.total(table)}, COUNT(IF({own or 'NULL'}, 1, NULL))"
        statement = f"SELECT {columns} FROM {full_name(table.database, table.name)} WHERE {where}"
        ((rows, digests, at_home),) = source(table.source).query(statement, arguments)
        total += form.read(planned, rows, digests)
        placed, computed = placed and int(rows) == int(at_home), computed and own is not None
    return total, placed if computed else None


def target_total(pool: TargetPool, planned: PlannedTable, chunk: Chunk, form: Form) -> tuple[ChunkSum, bool | None]:
    """The sum over all places, and whether every row is where the table's rule routes it; as `target_sums`."""
    sums, placed = target_sums(pool, planned, chunk, form)
    return sum(sums, ChunkSum()), placed


def target_sums(
    pool: TargetPool, planned: PlannedTable, chunk: Chunk, form: Form
) -> tuple[list[ChunkSum], bool | None]:
    """The sum of each place, and whether every row is where the table's rule routes it; one statement a database.

    The latter is None where no server computes the rule.
    """
    where, arguments = condition(planned.table, chunk.low, chunk.high)
    sums, placed, columns = list[ChunkSum](), True, form.total(planned.table)
    conditions = planned.conditions
    for database in planned.databases:
        there = [
            (place, sql) for place, sql in zip(planned.places, conditions, strict=True) if place.database == database
        ]
        parts = [
            f"SELECT {columns}, COUNT(IF({sql or 'NULL'}, 1, NULL)) FROM {quote(place.table)} WHERE {where}"
            for place, sql in there
        ]
        for rows, digests, at_home in pool.get(database).query(" UNION ALL ".join(parts), arguments * len(parts)):
            sums.append(form.read(planned, rows, digests))
            placed = placed and rows == at_home
    return sums, placed if all(conditions) else None


def mirror_sums(source: Sources, planned: PlannedTable, chunk: Chunk, form: Form) -> list[ChunkSum]:
    """Of a broadcast table that is read, the sum of each node but the first."""
    where, arguments = condition(planned.table, chunk.low, chunk.high)
    found = []
    for one in planned.mirror_tables:
        statement = f"SELECT {form.total(one)} FROM {full_name(one.database, one.name)} WHERE {where}"
        ((rows, digests),) = source(one.source).query(statement, arguments)
        found.append(form.read(planned, rows, digests))
    return found


def all_in_place(pool: TargetPool, planned: PlannedTable, chunk: Chunk) -> bool:
    """Whether the target's rows of a range are where the table's rule routes them, by their sharding columns."""
    table, rule = planned.table, planned.rule
    columns = [table.by_name[name] for name in rule.columns]
    readers, fields = [to_text(column) for column in columns], ", ".join(map(compared, columns))
    where, arguments = condition(table, chunk.low, chunk.high)
    for index, place in enumerate(planned.places):
        statement = f"SELECT {fields} FROM {quote(place.table)} WHERE {where}"
        for raw in stream(pool.get(place.database), statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
            texts = [read(values) for read, values in zip(readers, raw, strict=True)]
            try:
                routed: Sequence[int] = rule.route_many(texts, rows=len(raw[0]))
            except StopError:
                return False  # a row that no place takes
            if routed.count(index) < len(routed):
                return False
    return True


def sources_in_place(source: Sources, tables: Sequence[PlannedTable], chunk: Chunk) -> bool:
    """Whether the sources' rows of a range are in the tables where they belong, by their columns for that."""
    for planned in tables:
        table, columns = planned.table, planned.belongs_by
        if not columns:
            continue
        readers, fields = [to_text(column) for column in columns], ", ".join(map(selected, columns))
        where, arguments = and_rows(*condition(table, chunk.low, chunk.high), planned.rows)
        statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
        for raw in stream(source(table.source), statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
            texts = [read(values) for read, values in zip(readers, raw, strict=True)]
            if any(planned.elsewhere(texts, len(raw[0]))):
                return False
    return True


def keys_twice(source: Sources, tables: Sequence[PlannedTable], chunk: Chunk) -> set[Key]:
    """Keys of a range that more than one of the tables has, as the server writes them.

    They are not looked for where the key alone says the place, as it is unique there: then the sums differ.
    """
    first = tables[0]
    seen: set[Key] = set()
    twice: set[Key] = set()
    if len(tables) == 1 or set(first.rule.columns) <= set(first.table.key):
        return twice
    for planned in tables:
        table = planned.table
        where, arguments = and_rows(*condition(table, chunk.low, chunk.high), planned.rows)
        fields, readers = ", ".join(map(selected, table.key_columns)), [to_text(column) for column in table.key_columns]
        statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
        mine: list[Key] = []
        for raw in stream(source(table.source), statement, arguments, _BATCH_ROWS, _BATCH_BYTES):
            texts = (map(str, read(values)) for read, values in zip(readers, raw, strict=True))
            mine += zip(*texts, strict=True)
        twice |= seen.intersection(mine)
        seen.update(mine)
    return twice
