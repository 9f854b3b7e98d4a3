"""The sharding rule of one table: which place (physical table in one database) a row belongs to.

The same steps as ShardingSphere's standard routing: the database's algorithm picks among the databases, the
table's among the tables of that database; without an algorithm there must be only one to pick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from migrate.model.errors import Code, ConfigError, StopError
from migrate.mysql.quoting import quote
from migrate.sharding.columns import ValueReader
from migrate.sharding.in_server import InServer
from migrate.sharding.javatypes import JavaError


@dataclass(frozen=True, slots=True)
class Place:
    """One physical table in one database; the database by its name in the rule, which settings map."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One level's algorithm, over the columns at `positions`.

    `bucket` gives what the algorithm computes for a Java value (of several columns, a tuple of them), `ordinals` the
    number of the name that stands for it. Both raise JavaError: the algorithm fails, or the name is not there.
    """

    level: str
    algorithm: str
    positions: tuple[int, ...]
    bucket: Callable[[Any], Any]
    ordinals: Mapping[Any, int]
    in_server: InServer | None = None

    def condition(self, column: str, ordinal: int) -> str | None:
        """SQL that is true for the values whose name has that number; None where no server computes it."""
        if self.in_server is None:
            return None
        buckets = [str(bucket) for bucket in self.in_server.buckets if self._ordinal(bucket) == ordinal]
        return f"{self.in_server.expression.format(column)} IN ({', '.join(buckets) or 'NULL'})"

    def _ordinal(self, bucket: int) -> int | None:
        try:
            return self.ordinals[bucket]
        except JavaError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class TableRule:
    """Routes rows of one logical table. Made by build_rule(); can be pickled, and used by several threads.

    `columns` are the sharding columns as the table spells them, the database's first, none twice.
    `places` are all places in the order of the rule. `notes` are things a person should read before relying
    on the rule, such as a Java type that was assumed. `broadcast`: each row is at every place.
    """

    table: str
    columns: tuple[str, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...]
    _readers: tuple[ValueReader, ...] = field(repr=False)
    _choices: tuple[Choice, ...] = field(repr=False)
    _cells: Mapping[int, int] = field(repr=False)  # database * width + table -> place
    _width: int = field(repr=False)
    _made_by: tuple[Any, ...] = field(repr=False)  # build_rule and its arguments
    broadcast: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_by

    def route(self, values: Mapping[str, str | None]) -> Place:
        """The place of a row, given the canonical text of (at least) its sharding columns; where it is at every place,
        the first.

        Raises StopError naming table, column and kind of value, never the value, when the row has no place.
        """
        missing = next((column for column in self.columns if column not in values), None)
        if missing is not None:
            raise StopError(f"table {self.table}: a row without its sharding column {missing}", code=Code.ROUTE)
        return self.places[self.route_many([[values[column]] for column in self.columns], rows=1)[0]]

    def route_many(self, columns: Sequence[Sequence[str | None]], *, rows: int | None = None) -> list[int]:
        """The index into `places` for each row of a batch, given one list of texts per sharding column.

        `rows` is needed only where there is no sharding column to count. Raises StopError as route() does.
        """
        if len(columns) != len(self.columns):
            raise ValueError(f"table {self.table} has {len(self.columns)} sharding columns, not {len(columns)}")
        if not self._choices:
            if rows is None:
                raise ValueError("the number of rows, for a table that is not sharded")
            return [0] * rows
        values = [self._read(reader, texts) for reader, texts in zip(self._readers, columns, strict=True)]
        picked = [self._pick(choice, [values[position] for position in choice.positions]) for choice in self._choices]
        return self._combine(*picked)

    def condition(self, place: int) -> str | None:
        """SQL that is true for the rows of one place, and false or NULL for others; None where no server computes it.

        place: its index in `places`.
        """
        (cell,) = (cell for cell, found in self._cells.items() if found == place)
        ordinals = divmod(cell, self._width) if len(self._choices) == 2 else (cell,)
        conditions = [
            choice.condition(quote(self.columns[choice.positions[0]]), ordinal)
            for choice, ordinal in zip(self._choices, ordinals, strict=True)
        ]
        known = [condition for condition in conditions if condition is not None]
        return " AND ".join(known) if len(known) == len(conditions) else None

    def routes_alike(self, column: str, column_type: str) -> bool:
        """Whether each row would have the same place if that column, with the same texts, were of another type.

        column_type: as columns.type_text() gives it.
        """
        build, (spec, table, types, *more) = self._made_by
        try:
            other: TableRule = build(spec, table, {**types, column: column_type}, *more)
        except ConfigError:
            return False
        return all(
            self._readers[position].java is other._readers[position].java
            or (one.in_server is not None and one.in_server == two.in_server)
            for one, two in zip(self._choices, other._choices, strict=True)
            for position in one.positions
            if self.columns[position] == column
        )

    def _read(self, reader: ValueReader, texts: Sequence[str | None]) -> list[Any]:
        if None in texts:
            raise StopError(
                f"table {self.table}: NULL in the sharding column {reader.column}",
                hint="a row without a sharding value has no place; ShardingSphere refuses it too",
                code=Code.ROUTE,
            )
        try:
            return reader.read(texts)  # type: ignore[arg-type]  # there is no None
        except JavaError as error:
            message = f"table {self.table}: column {reader.column} (Java {reader.java}): {error}"
            raise StopError(message, code=Code.ROUTE) from None

    def _pick(self, choice: Choice, columns: list[list[Any]]) -> list[int]:
        """columns: the Java values of each of the choice's columns."""
        bucket, ordinals = choice.bucket, choice.ordinals
        values = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
        try:
            return [ordinals[bucket(value)] for value in values]
        except (ValueError, ArithmeticError) as error:
            readers = [self._readers[position] for position in choice.positions]
            which = ", ".join(f"{reader.column} (Java {reader.java})" for reader in readers)
            # only a JavaError's text is known to be free of values
            reason = str(error) if isinstance(error, JavaError) else "the computation failed"
            raise StopError(
                f"table {self.table}: column{'s' if readers[1:] else ''} {which}: no {choice.level} by "
                f"{choice.algorithm}: {reason}",
                code=Code.ROUTE,
            ) from None

    def _combine(self, databases: list[int], tables: list[int] | None = None) -> list[int]:
        cells, width = self._cells, self._width
        try:
            if tables is None:
                return [cells[database] for database in databases]
            return [cells[database * width + table] for database, table in zip(databases, tables, strict=True)]
        except KeyError:
            raise StopError(
                f"table {self.table}: columns {', '.join(self.columns)}: the rule picks a database and a "
                "table that are not together among its nodes",
                code=Code.ROUTE,
            ) from None
