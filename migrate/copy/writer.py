"""One chunk's rows into the target: what is absent is inserted, and what was deleted meanwhile is taken out again
(invariants copy-never-overwrites, tombstone-under-open-chunk)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import pymysql

from migrate.chunks.column_codecs import text_of, to_parameters
from migrate.chunks.line import split, typed
from migrate.copy import refused_rows
from migrate.model.change import Key, key_json
from migrate.model.errors import Code, ServerError, StopError
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import DUPLICATE_KEY, LOAD_FORBIDDEN, number
from migrate.mysql.values import Parameter, from_server
from migrate.settings import Settings
from migrate.state.chunks import CopyCounts
from migrate.target import chunk_fence, ledger, parked
from migrate.target.load import Block, PlaceLoader
from migrate.target.parked import SetAside
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable, TargetDatabase
from migrate.target.rows import PlaceWriter

Row = TypeVar("Row")
Values = Sequence[Parameter]
"""A row's values in the order of `Table.stored`."""
RawRow = Sequence[bytes | None]
"""The same, as the source's server gave them."""

_TRIES = 5
_CAREFUL_ROWS = 200


class _Appeared(Exception):  # noqa: N818 - inside this module: a key was there at the insert
    pass


class _Refused(Exception):  # noqa: N818 - inside this module: a load did not take a row as it is
    pass


@dataclass(slots=True)
class Written:
    """What a writer did with the rows that it was given."""

    counts: CopyCounts = field(default_factory=CopyCounts)  # without what was read
    left: list[Key] = field(default_factory=list)  # the keys of the conflicts

    def add(self, other: Written) -> None:
        self.counts += other.counts
        self.left += other.left


class ChunkWriter:
    """Writes the rows of one attempt at one chunk; one or more transactions a database.

    aside: keys that a person said to set aside if they are refused, and why.
    """

    def __init__(
        self,
        settings: Settings,
        planned: PlannedTable,
        pool: TargetPool,
        chunk: int,
        attempt: int,
        aside: Mapping[Key, str] | None = None,
    ) -> None:
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
        self._aside = aside or {}
        self._parks = copy.refused == "park"
        stored = [column.name for column in planned.table.stored]
        self._key = [(stored.index(column.name), text_of(column)) for column in planned.table.key_columns]
        self._committed: Counter[tuple[str, str]] = Counter()  # transactions of this attempt, by server and database
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
                return self._transaction(connection, rows, last, self._load, self._values)
        values = {place: self._values(blocks) for place, blocks in rows.items()}
        raw: dict[int, list[RawRow]] = {}
        done = Written()
        write = self._insert
        for _ in range(_TRIES):
            try:
                done.add(self._transaction(connection, values, last, write, list))
            except _Appeared:
                write = self._insert_absent
            except (pymysql.MySQLError, Warned) as error:
                if not refused_rows.is_of_a_row(error):
                    raise
                raw = raw or {place: _split(blocks) for place, blocks in rows.items()}
                self._set_aside(connection, values, raw, done)
                write = self._insert_absent  # of a row that is there the server would say the same
            else:
                return done
        raise ServerError(f"{database.target}: rows of {self._table.full_name} kept changing while they were copied")

    def _set_aside(
        self,
        connection: Connection,
        values: Mapping[int, list[Values]],
        raw: Mapping[int, list[RawRow]],
        done: Written,
    ) -> None:
        """Park the rows that the target refuses, and take them out of these. Raises StopError when one shall not be."""
        refusals: dict[int, dict[int, str]] = {}
        for place, some in values.items():
            keys = [self._key_of(row) for row in some]
            there = self._present(connection, self._writers[place], keys)
            known = {index for index, key in enumerate(keys) if key in there}
            refusals[place] = found = refused_rows.find(connection, self._writers[place], some, known)
            for index, told in found.items():
                if self._reason(keys[index]) is None:
                    raise self._refusal(place, keys[index], told)
        readers = [(column.name, from_server(column)) for column in self._table.stored]
        with self._fenced(connection):
            for place, found in refusals.items():
                rows = []
                for index, told in found.items():
                    row = {name: read(value) for (name, read), value in zip(readers, raw[place][index], strict=True)}
                    key = self._key_of(values[place][index])
                    rows.append((key, row, SetAside(told, self._reason(key) or "")))
                done.counts += refused_rows.park(
                    connection, self._migration, self._noted_as, self._writers[place], rows, self._present
                )
        for place, found in refusals.items():
            for index in sorted(found, reverse=True):
                del values[place][index], raw[place][index]

    def _reason(self, key: Key) -> str | None:
        """Why a row with this key is parked when it is refused; None: the copy stops."""
        return self._aside.get(key) or (refused_rows.BY_CONFIG if self._parks else None)

    def _refusal(self, place: int, key: Key, told: str) -> StopError:
        name, text = self._table.full_name, key_json(key)
        return StopError(
            f"{self._places[place]} refuses {name} key {text}: {told}",
            hint=f"fix the target table and run the copy again; or set the row aside: `migrate parked skip {name}"
            f" '{text}' --reason …`, or every such row: `copy.refused: park`",
            code=Code.TARGET,
        )

    def _values(self, blocks: Sequence[Block]) -> list[Values]:
        columns = zip(*_split(blocks), strict=True)
        converted = (convert(column) for convert, column in zip(self._converts, columns, strict=True))
        return list(zip(*converted, strict=True))

    def _transaction(
        self,
        connection: Connection,
        rows: Mapping[int, Sequence[Row]],
        last: bool,
        write: Callable[[Connection, int, Sequence[Row], Written], int],
        values: Callable[[Sequence[Row]], list[Values]],
    ) -> Written:
        """Lock and check the fence; write, which says how many rows it inserted; close the chunk; commit.

        values: of rows.
        """
        done = Written()
        with self._fenced(connection):
            for place, some in rows.items():
                inserted = write(connection, place, some, done)
                done.counts += CopyCounts(rows_inserted=inserted)
            self._end_parked(connection, rows, values)
            if last:
                chunk_fence.close(connection, self._migration, self._table, [self._chunk], self._attempt)
        return done

    @contextmanager
    def _fenced(self, connection: Connection) -> Iterator[None]:
        """A transaction of this attempt, which finds all that it committed there before."""
        where = connection.name, connection.database
        with connection.transaction():
            chunk_fence.check(
                connection, self._migration, self._table, self._chunk, self._attempt, self._committed[where]
            )
            yield
        self._committed[where] += 1

    def _end_parked(
        self,
        connection: Connection,
        rows: Mapping[int, Sequence[Row]],
        values: Callable[[Sequence[Row]], list[Values]],
    ) -> None:
        """What an earlier attempt parked is settled: the target has been mended."""
        known = parked.copied(connection, self._migration, self._table)
        for place, some in rows.items():
            if there := known.get(self._places[place].table):
                keys = [self._key_of(row) for row in values(some)]
                hashes = ledger.key_hashes(connection, self._table, keys)
                settled = [key for key, key_hash in zip(keys, hashes, strict=True) if key_hash in there]
                name = self._places[place].table
                parked.remove(connection, self._migration, self._table, name, settled, copied_only=True)

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
        done.counts += CopyCounts(rows_present=sum(count for _, count in blocks) - inserted)
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
        done.counts += CopyCounts(rows_present=len(values) - len(absent))
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
                    done.counts += CopyCounts(conflicts=1)
                    done.left.append(self._key_of(row))
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
        done.counts += CopyCounts(taken_out=taken)
        return taken

    def _present(self, connection: Connection, writer: PlaceWriter, keys: Sequence[Key]) -> set[Key]:
        if self._table.key_is_exact:
            return writer.present(connection, keys)
        return {found for key in keys for found in writer.present(connection, [key])}

    def _key_of(self, row: Values) -> Key:
        return tuple(read(row[index]) for index, read in self._key)


def _split(blocks: Sequence[Block]) -> list[RawRow]:
    return [row for lines, _ in blocks for row in split(lines)]


def _inserted(connection: Connection, writer: PlaceWriter, rows: Sequence[Values]) -> bool:
    """Insert rows; False when one of them is a duplicate."""
    try:
        writer.insert_values(connection, rows)
    except pymysql.err.IntegrityError as error:
        if number(error) == DUPLICATE_KEY:
            return False
        raise
    return True
