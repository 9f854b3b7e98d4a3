"""One chunk's rows into the target: what is absent is inserted, nothing is overwritten (rules 10 and 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from itertools import chain
from typing import TypeVar

import pymysql

from migrate.model.change import Key
from migrate.model.errors import ServerError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import DUPLICATE_KEY, LOAD_FORBIDDEN, number
from migrate.mysql.values import Parameter
from migrate.scroll.carry import text_of, to_parameters
from migrate.scroll.line import split, typed
from migrate.settings import Settings
from migrate.target import chunk_fence, ledger
from migrate.target.load import Block, PlaceLoader
from migrate.target.plan import PlannedTable, TargetDatabase, TargetPool
from migrate.target.rows import PlaceWriter

Row = TypeVar("Row")
Values = Sequence[Parameter]
"""A row's values in the order of `Table.stored`."""

_TRIES = 5
_CAREFUL_ROWS = 200


class _Appeared(Exception):  # noqa: N818 - inside this module: a key was there at the insert
    pass


class _Refused(Exception):  # noqa: N818 - inside this module: a load did not take a row as it is
    pass


@dataclass(slots=True)
class Written:
    """Counts of what happened to rows."""

    inserted: int = 0
    present: int = 0  # the key was there already, newer or as new
    conflicts: int = 0  # another row holds a unique value: left to the stream, which has the row's own change
    taken_out: int = 0  # inserted, and taken out again because the ledger says deleted

    def add(self, other: Written) -> None:
        self.inserted += other.inserted
        self.present += other.present
        self.conflicts += other.conflicts
        self.taken_out += other.taken_out

    def counts(self) -> tuple[int, int, int, int]:
        inserted, present, conflicts, taken_out = astuple(self)
        return inserted, present, conflicts, taken_out


class ChunkWriter:
    """Writes the rows of one attempt at one chunk; one or more transactions a database."""

    def __init__(self, settings: Settings, planned: PlannedTable, pool: TargetPool, chunk: int, attempt: int) -> None:
        self._migration = settings.name
        self._table = planned.table
        self._noted_as = planned.noted_as
        self._pool = pool
        self._chunk = chunk
        self._attempt = attempt
        self._places = planned.places
        self._databases = planned.databases
        consume, copy = settings.consume, settings.copy_
        self._writers = [
            PlaceWriter(planned.table, place.table, consume.lookup_keys, copy.write_rows) for place in planned.places
        ]
        self._loaders = [PlaceLoader(planned.table, place.table) for place in planned.places]
        self._loads = copy.load != "insert"
        stored = [column.name for column in planned.table.stored]
        self._key = [(stored.index(column.name), text_of(column)) for column in planned.table.key_columns]
        self._converts = [to_parameters(column) for column in planned.table.stored]

    def write(self, rows: dict[int, list[Block]], *, last: bool) -> Written:
        """Write rows by place (index in the plan's places); with `last` close the chunk everywhere.

        Raises: OwnershipLost, StopError, ServerError, the driver's error. Some databases may be written then;
        the next attempt finds those rows there.
        """
        done = Written()
        for database in self._databases:
            mine = {place: found for place, found in rows.items() if self._places[place].database == database}
            if mine or last:
                done.add(self._write_database(database, mine, last))
        return done

    def _write_database(self, database: TargetDatabase, rows: dict[int, list[Block]], last: bool) -> Written:
        connection = self._pool.get(database)
        if self._loads and not any(typed(lines) for lines, _ in chain.from_iterable(rows.values())):
            with suppress(_Refused):
                return self._transaction(connection, rows, last, self._load)
        values = {place: self._values(blocks) for place, blocks in rows.items()}
        write = self._insert
        for _ in range(_TRIES):
            try:
                return self._transaction(connection, values, last, write)
            except _Appeared:
                write = self._insert_absent
        raise ServerError(f"{database.target}: rows of {self._table.full_name} kept appearing while they were copied")

    def _values(self, blocks: Sequence[Block]) -> list[Values]:
        columns = zip(*(row for lines, _ in blocks for row in split(lines)), strict=True)
        converted = (convert(column) for convert, column in zip(self._converts, columns, strict=True))
        return list(zip(*converted, strict=True))

    def _transaction(
        self,
        connection: Connection,
        rows: Mapping[int, Sequence[Row]],
        last: bool,
        write: Callable[[Connection, int, Sequence[Row], Written], int],
    ) -> Written:
        """Lock and check the fence; write, which says how many rows it inserted; close the chunk; commit."""
        done = Written()
        with connection.transaction():
            chunk_fence.check(connection, self._migration, self._table, self._chunk, self._attempt)
            for place, some in rows.items():
                done.inserted += write(connection, place, some, done)
            if last:
                chunk_fence.close(connection, self._migration, self._table, [self._chunk], self._attempt)
        return done

    def _load(self, connection: Connection, place: int, blocks: Sequence[Block], done: Written) -> int:
        """Let the server skip the rows whose keys are there. Raises _Refused when it says anything else of one."""
        try:
            inserted = self._loaders[place].load(connection, blocks)
        except pymysql.MySQLError as error:
            if number(error) in LOAD_FORBIDDEN:
                raise _Refused from None
            raise
        if inserted is None:
            raise _Refused
        done.present += sum(count for _, count in blocks) - inserted
        return inserted - self._take_out(connection, self._writers[place], lambda: self._values(blocks), done)

    def _insert(self, connection: Connection, place: int, values: Sequence[Values], done: Written) -> int:
        """Insert rows none of which is there. Raises _Appeared when one is."""
        writer = self._writers[place]
        if not _inserted(connection, writer, values):
            raise _Appeared
        return len(values) - self._take_out(connection, writer, lambda: values, done)

    def _insert_absent(self, connection: Connection, place: int, values: Sequence[Values], done: Written) -> int:
        """Look first, and insert the rows whose keys are absent. Raises _Appeared when one appears meanwhile."""
        writer = self._writers[place]
        inserted = self._absent_inserted(connection, writer, values, done)
        return len(inserted) - self._take_out(connection, writer, lambda: inserted, done)

    def _absent_inserted(
        self, connection: Connection, writer: PlaceWriter, values: Sequence[Values], done: Written
    ) -> list[Values]:
        present = self._present(connection, writer, [self._key_of(row) for row in values])
        absent = [row for row in values if self._key_of(row) not in present]
        done.present += len(values) - len(absent)
        if not self._table.unique_keys:
            if not _inserted(connection, writer, absent):
                raise _Appeared
            return absent
        return self._insert_unless_taken(connection, writer, absent, done)

    def _insert_unless_taken(
        self, connection: Connection, writer: PlaceWriter, values: list[Values], done: Written
    ) -> list[Values]:
        """Insert rows of a table with further unique keys, whose values another row may hold at the target."""
        inserted: list[Values] = []
        for start in range(0, len(values), _CAREFUL_ROWS):
            part = values[start : start + _CAREFUL_ROWS]
            connection.execute("SAVEPOINT part")
            if _inserted(connection, writer, part):
                inserted += part
                continue
            connection.execute("ROLLBACK TO SAVEPOINT part")
            for row in part:
                if _inserted(connection, writer, [row]):
                    inserted.append(row)
                elif self._present(connection, writer, [self._key_of(row)]):
                    raise _Appeared
                else:
                    done.conflicts += 1
        return inserted

    def _take_out(
        self, connection: Connection, writer: PlaceWriter, values: Callable[[], Sequence[Values]], done: Written
    ) -> int:
        """Delete what was just inserted and the ledger says is deleted; returns how many rows.

        values: the rows that were inserted, and perhaps some that were there: of those the ledger names none.

        The reads lock, so they wait for a delete in flight; one that comes later finds our row and waits for us.
        """
        table, place = self._table, writer.name
        if not ledger.any_locked(connection, self._migration, self._noted_as, place):
            return 0
        if table.key_is_exact:
            keys = [self._key_of(row) for row in values()]
            hashes = ledger.key_hashes(connection, table, keys)
            found = ledger.find(connection, self._migration, self._noted_as, place, hashes)
            gone = [key for key, key_hash in zip(keys, hashes, strict=True) if key_hash in found]
        else:  # only the server can tell which keys are one; a key the ledger names may not stay in any case
            gone = [entry.key for entry in ledger.locked(connection, self._migration, self._noted_as, place)]
        taken = writer.delete(connection, gone)
        done.taken_out += taken
        return taken

    def _present(self, connection: Connection, writer: PlaceWriter, keys: Sequence[Key]) -> set[Key]:
        if self._table.key_is_exact:
            return writer.present(connection, keys)
        return {found for key in keys for found in writer.present(connection, [key])}

    def _key_of(self, row: Values) -> Key:
        return tuple(read(row[index]) for index, read in self._key)


def _inserted(connection: Connection, writer: PlaceWriter, rows: Sequence[Values]) -> bool:
    """Insert rows; False when one of them is a duplicate."""
    try:
        writer.insert_values(connection, rows)
    except pymysql.err.IntegrityError as error:
        if number(error) == DUPLICATE_KEY:
            return False
        raise
    return True
