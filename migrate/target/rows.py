"""Statements on target rows: look up and lock, insert, update, delete. The only place that builds them.

Every value is a parameter; every warning is an error (invariant unknown-stops, see `Connection`), unless what was sent
is there to the last value (see `non_strict`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

import pymysql
import structlog

from migrate.model.change import Key
from migrate.model.errors import Code, StopError
from migrate.model.message import Row
from migrate.model.table import Column, Table, TableId
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.errors import DUPLICATE_KEY, number
from migrate.mysql.keys import among
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.typed_json import JsonValue
from migrate.mysql.values import Parameter, compared, from_server, parameter, placeholder
from migrate.target import literals, non_strict, unique_holders
from migrate.target.equal_keys import EqualKeys
from migrate.target.home import Home
from migrate.target.literals import RowLiterals
from migrate.target.unique_holders import Holder

log = structlog.get_logger("migrate.target")
T = TypeVar("T")
STATEMENT_BYTES = 1_000_000
"""Aimed size of one statement, far below max_allowed_packet's smallest default (16 MiB)."""


class PlaceWriter:
    """Writes rows of one source table into one physical table.

    noted_as: the table as the delete ledger knows it. members: the tables whose rows go there, by id.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        lookup_keys: int = 200,
        write_rows: int = 1000,
        noted_as: Table | None = None,
        members: Iterable[TableId] = (),
        kept: Iterable[str] = (),
        alike: EqualKeys | None = None,
        home: Home | None = None,
        update_time: str | None = None,
        absent: Iterable[str] = (),
    ) -> None:
        """home: of the group, where its rows tell which source table they are of, and their keys do not. kept: columns
        that are returned with the key of a row whose unique value another one takes. alike: asked whether what the
        target takes for one key or unique value is one; without it that counts as so. update_time: as in the config.
        absent: columns that rows of other tables have there: a row of this one has their default."""
        self.reset = [f"{quote(name)} = DEFAULT" for name in sorted(absent)]
        self.update_time = table.by_name.get(update_time) if update_time is not None else None
        self._kept = tuple(table.by_name[name] for name in sorted({*kept} - {*table.key}) if name in table.by_name)
        self.table = table
        self.noted_as = noted_as or table
        self.members = frozenset(members) or frozenset({table.id})
        self.name = name
        self._lookup_keys = lookup_keys
        self._write_rows = write_rows
        self._literals: dict[str, RowLiterals] = {}  # by flavour
        self._alike = alike
        self.home = home

    # -- reading

    def present(self, connection: Connection, keys: Sequence[Key]) -> set[Key]:
        """Which of these keys are there, their rows locked; looked up `lookup_keys` at a time.

        Raises StopError where a key finds the row of another one.
        """
        found: set[Key] = set()
        for part in slices(keys, self._lookup_keys):
            there = self._keys(connection, *among(self.table, part))
            if not self.table.key_is_exact:
                found.update(part[:1] if there else ())  # looked up one by one: the server's equality decides
                alike = self._alike
                differ = there and there[0] != part[0]
                if differ and alike is not None and not self._is_as_source(connection, self.table.key_columns):
                    alike.refuse_others(self.table, part[0], there[0])
                continue
            found.update(there)
        return found

    def owned(self, connection: Connection, keys: Sequence[Key], home: Home) -> dict[Key, TableId]:
        """As `present`, with the source table that each row belongs to by its values here."""
        found = self.values(connection, keys, [self.table.by_name[name] for name in home.rule.columns])
        return {key: home.of(dict(zip(home.rule.columns, values, strict=True))) for key, values in found.items()}

    def values(
        self, connection: Connection, keys: Sequence[Key], columns: Sequence[Column]
    ) -> dict[Key, tuple[str | None, ...]]:
        """As `present`, with what each row has in these columns."""
        table, found = self.table, dict[Key, tuple[str | None, ...]]()
        if not table.key_is_exact:
            for key in self.present(connection, keys):
                found.update((key, values) for values in self._rows(connection, columns, *among(table, [key])))
            return found
        width = len(table.key)
        for part in slices(keys, self._lookup_keys):
            for values in self._rows(connection, (*table.key_columns, *columns), *among(table, part)):
                found[tuple(map(str, values[:width]))] = values[width:]
        return found

    def _is_as_source(self, connection: Connection, columns: Iterable[Column]) -> bool:
        """Whether the physical table has columns under the source's own collations by now: what is one here is one
        there too, and the source, which may be away, need not be asked."""
        found = dict(
            connection.query(
                "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
                " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
                (self.name,),
            )
        )
        return all(found.get(one.name) == one.collation for one in columns if one.collation)

    def _keys(self, connection: Connection, where: str, arguments: Sequence[Parameter]) -> list[Key]:
        """The keys of some rows, which are locked."""
        rows = self._rows(connection, self.table.key_columns, where, arguments)
        return [tuple(map(str, values)) for values in rows]

    def _rows(
        self, connection: Connection, columns: Sequence[Column], where: str, arguments: Sequence[Parameter]
    ) -> list[tuple[str | None, ...]]:
        """Columns of some rows, which are locked (invariant locked-decision)."""
        fields = ", ".join(compared(column) for column in columns)
        readers = [from_server(column) for column in columns]
        rows = connection.query(f"SELECT {fields} FROM {quote(self.name)} WHERE {where} FOR UPDATE", arguments)
        return [tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in rows]

    # -- writing

    def insert(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Insert rows whose keys are absent. Raises the driver's IntegrityError when one is not."""
        self._write_rows_of(connection, rows, "")

    def insert_values(self, connection: Connection, rows: Iterable[Sequence[Parameter]]) -> None:
        """As `insert`, of rows that are parameters already, in the order of `Table.stored`."""
        for part, arguments in self._batches(rows):
            self._write(connection, f"{self._insert} {self._marks(part)}", arguments)

    def insert_taking(self, connection: Connection, rows: Sequence[Row]) -> list[Row]:
        """Insert rows, and delete rows of other keys that hold one of their unique values; returns of those the key and
        the columns that are kept.

        Such a row came from the copy, which read the source later than the stream has come: its taking of the value is
        still to come in the stream, with a full image (docs/decisions/0003). The caller has it refreshed all the same.
        """
        connection.execute("SAVEPOINT taking")
        try:
            self.insert(connection, rows)
        except pymysql.err.IntegrityError as error:
            if number(error) != DUPLICATE_KEY:
                raise
            connection.execute("ROLLBACK TO SAVEPOINT taking")
            return [one for row in rows for one in self._take(connection, row)]
        return []

    def _take(self, connection: Connection, row: Row) -> list[Row]:
        try:
            self.insert(connection, [row])
            return []
        except pymysql.err.IntegrityError as error:
            if number(error) != DUPLICATE_KEY:
                raise
        evicted: list[Row] = []
        columns = (*self.table.key_columns, *self._kept)
        replaces = f"REPLACE{self._insert.removeprefix('INSERT')} {self._row_mark}"
        write = partial(self._write, connection, replaces, self._values(row))
        for holder in unique_holders.conditions(connection, self.table, self.name, row, write):
            held = self.table.stored if holder.computed else [part.column for part in holder.written]
            wanted = [*dict.fromkeys((*columns, *held))]
            rows = self._rows(connection, wanted, *holder.condition)
            found = [dict(zip([column.name for column in wanted], one, strict=True)) for one in rows]
            if found:
                self._refuse_evicting(connection, holder, row, found)
                self.delete(connection, [self.key_of(one) for one in found])
                log.warning("a row made way for a unique value, and is refreshed", table=self.name, rows=len(found))
            evicted += [{column.name: one[column.name] for column in columns} for one in found]
        self.insert(connection, [row])
        return evicted

    def _refuse_evicting(self, connection: Connection, holder: Holder, row: Row, found: Sequence[Row]) -> None:
        """Raise StopError where the source does not take the values for one that a row, and those that hold them, have.

        found: of each its key and what it has in the unique key's columns; all columns where some are computed.
        """
        if self._alike is None:
            return
        if holder.computed:
            for one in found:
                self._alike.refuse_both(self.table, self.key_of(row), row, self.key_of(one), one)
        if not holder.written or self._is_as_source(connection, [part.column for part in holder.written]):
            return
        wanted = [row[part.column.name] for part in holder.written]
        for one in found:
            stored = [one[part.column.name] for part in holder.written]
            self._alike.refuse_evicting(
                self.table, holder.written, (self.key_of(row), wanted), (self.key_of(one), stored)
            )

    def update(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Overwrite rows whose keys are present and locked.

        With further unique keys, rows are deleted and inserted again, so that values swapped among them never
        collide and no other row is hit.
        """
        if self.table.unique_keys or not self.table.key_is_exact:
            self.delete(connection, [self.key_of(row) for row in rows])
            self.insert(connection, rows)
            return
        self._write_rows_of(connection, rows, self._upsert(can(connection, Capability.ROW_ALIAS)))

    def change(self, connection: Connection, row: Row) -> None:
        """Change a row whose key is present and locked, by an UPDATE.

        Raises the driver's IntegrityError when a unique value is another row's, or a foreign key does not hold.
        """
        stored = (f"{quote(column.name)} = {placeholder(column)}" for column in self.table.stored)
        sets = ", ".join([*stored, *self.reset])
        where, arguments = among(self.table, [self.key_of(row)])
        values = self._values(row)
        non_strict.write(
            connection,
            lambda: connection.execute(f"UPDATE {quote(self.name)} SET {sets} WHERE {where}", [*values, *arguments]),
            lambda: self._holds(connection, [values]),
        )

    def delete(self, connection: Connection, keys: Sequence[Key]) -> int:
        """Delete what is there of these keys; returns how many rows."""
        deleted = 0
        for part in slices(keys, self._lookup_keys):
            deleted += non_strict.delete(connection, self.table, partial(self._delete, connection, part), len(part))
        return deleted

    def _delete(self, connection: Connection, keys: Sequence[Key]) -> int:
        where, arguments = among(self.table, keys)
        return connection.execute(f"DELETE FROM {quote(self.name)} WHERE {where}", arguments)

    def key_of(self, row: Row) -> Key:
        return tuple(str(row[name]) for name in self.table.key)

    # -- statements

    def _write_rows_of(self, connection: Connection, rows: Sequence[Row], tail: str) -> None:
        if not literals.suits(connection):
            for part, arguments in self._batches(map(self._values, rows)):
                self._write(connection, f"{self._insert} {self._marks(part)}{tail}", arguments)
            return
        made = self._literals.get(connection.flavour)
        if made is None:
            made = self._literals[connection.flavour] = RowLiterals(self.table, connection)
        texts: list[str] = []
        size = first = 0
        for index, row in enumerate(rows, 1):
            try:
                text = made.text(row)
            except KeyError:
                self._values(row)  # names the column
                raise
            texts.append(text)
            size += len(text)
            if len(texts) >= self._write_rows or size >= STATEMENT_BYTES or index == len(rows):
                self._write_literals(connection, ",".join(texts), tail, rows[first:index])
                texts, size, first = [], 0, index

    def _write_literals(self, connection: Connection, values: str, tail: str, rows: Sequence[Row]) -> None:
        non_strict.write(
            connection,
            lambda: connection.write(self._insert, values, tail),
            lambda: self._holds(connection, [self._values(row) for row in rows]),
        )

    def _write(self, connection: Connection, statement: str, arguments: list[Parameter]) -> None:
        width = len(self.table.stored)
        non_strict.write(
            connection,
            lambda: connection.execute(statement, arguments),
            lambda: self._holds(connection, [arguments[at : at + width] for at in range(0, len(arguments), width)]),
        )

    def _holds(self, connection: Connection, rows: Sequence[Sequence[Parameter]]) -> bool:
        return non_strict.holds(connection, self.table, self.name, rows)

    @cached_property
    def _parameters(self) -> list[tuple[str, Callable[[str | None], Parameter]]]:
        return [(column.name, parameter(column)) for column in self.table.stored]

    @cached_property
    def _insert(self) -> str:
        names = quote_all(column.name for column in self.table.stored)
        return f"INSERT INTO {quote(self.name)} ({names}) VALUES"

    @cached_property
    def _row_mark(self) -> str:
        return "(" + ", ".join(placeholder(column) for column in self.table.stored) + ")"

    def _marks(self, rows: int) -> str:
        return ", ".join([self._row_mark] * rows)

    def _upsert(self, aliased: bool) -> str:
        others = [one.name for one in self.table.stored if one.name not in self.table.key] or [*self.table.key]
        alias = "_row" if self.name.lower() == "_new" else "_new"  # a table must have another name
        value = f"{alias}.{{}}" if aliased else "VALUES({})"  # which is deprecated where aliases are, and warns
        sets = ", ".join([*(f"{quote(name)} = {value.format(quote(name))}" for name in others), *self.reset])
        return f"{f' AS {alias}' if aliased else ''} ON DUPLICATE KEY UPDATE {sets}"

    def _values(self, row: Row) -> list[Parameter]:
        return [convert(_value(row, name, self.table)) for name, convert in self._parameters]

    def _batches(self, rows: Iterable[Sequence[Parameter]]) -> Iterator[tuple[int, list[Parameter]]]:
        arguments: list[Parameter] = []
        count = size = 0
        for values in rows:
            arguments += values
            count += 1
            size += sum([len(value) if isinstance(value, str | bytes | JsonValue) else 8 for value in values])
            if count >= self._write_rows or size >= STATEMENT_BYTES:
                yield count, arguments
                arguments, count, size = [], 0, 0
        if count:
            yield count, arguments


def _value(row: Row, name: str, table: Table) -> str | None:
    try:
        return row[name]
    except KeyError:
        raise StopError(
            f"{table.full_name}: column {name} is missing in a row image",
            hint="the source's columns changed: docs/operations.md#altering-a-table says how to alter the targets",
            code=Code.TARGET,
        ) from None


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Pieces of so many."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
