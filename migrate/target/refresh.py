"""Refresh: a key's row is read at the source again, written or deleted everywhere (invariant refresh-settles-doubt).

A refresh travels as a message in the key's own partition, so its owner carries it out, between the key's changes. The
read takes a lock: it waits for a commit in flight, whose event may have come before the row can be seen. What is read
is as new as everything that stands before the message, or newer; changes still to come repeat themselves up to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

import pymysql

from migrate.model.change import Key, NoChange, key_of, stored
from migrate.model.coordinate import Coordinate, file_number
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.message import REFRESH, Message, Row
from migrate.model.table import Column, Table, TableId
from migrate.mysql import errors as mysql_errors
from migrate.mysql import whole_values
from migrate.mysql.capabilities import read_lock
from migrate.mysql.connection import Connection, connect
from migrate.mysql.foreign_keys import logs_cascades
from migrate.mysql.keys import Condition, among
from migrate.mysql.quoting import table as full_name
from migrate.mysql.readable import log_end
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import from_server
from migrate.settings import Settings
from migrate.target.pool import SILENT_SECONDS
from migrate.target.routing import PlannedTable

T = TypeVar("T")
_KEYS = 200
_LOCK_SECONDS = 5
"""Of waiting for an open transaction at the source; the partition is stopped then, and tried again."""
_LOCKED = "it is tried again by itself; if a row stays locked, end the transaction that locks it"
_GONE = (
    "the source table was renamed or dropped: give it its name back, or take it out of the config"
    " (docs/operations.md#adding-and-removing-tables); waiting alone does not help"
)
_UNREAD = {
    mysql_errors.NO_SUCH_COLUMN: "the source table was altered, and its publisher is not past the statement: where"
    " `migrate status` has it stopped there, make the target tables the same by hand, set tables[].ddl: ignore and"
    " start it again, or undo the statement at the source; the row is read by itself once the columns fit",
    mysql_errors.NO_SUCH_TABLE: _GONE,
    mysql_errors.UNKNOWN_DATABASE: _GONE,  # MySQL, where the table went with its database
}
"""The way out by the server's error; of others it is `_LOCKED`."""
_REQUEUED = 1
"""By which `migrate.model.message_reader.senders` knows who sends it."""


def refresh_message(table: Table, keys: Sequence[Key]) -> Message:
    """The request to read these keys again."""
    return refresh_of(table, [dict(zip(table.key, key, strict=True)) for key in keys])


def requeued_refresh(table: Table, keys: Sequence[Key]) -> Message:
    """As `refresh_message`, as the requeue process sends it: `senders` of a message tells it from another's by this."""
    return replace(refresh_message(table, keys), id=_REQUEUED)


def refresh_of(table: Table, rows: Sequence[Row]) -> Message:
    """As `refresh_message`, of rows of which more is known than their key: as they were."""
    nowhere = stored(NoChange.REFRESH)
    return Message(
        database=table.database,
        table=table.name,
        type=REFRESH,
        data=tuple(rows),
        source=table.source,
        incarnation=nowhere.incarnation,
        file=nowhere.file,
        transaction=nowhere.transaction,
        rows=tuple(range(len(rows))),
        pk_names=table.key,
        ts=int(time.time() * 1000),
    )


_LOOKS_SECONDS = (0.05, 0.1, 0.2, 0.4)
"""Between looks at a row that two tables of a group have: it may be on its way from one to the other."""

HeldRows = list[tuple[PlannedTable, Row]]
"""A row, in each table of a group that has it."""


class SourcesNow(NamedTuple):
    """What the state says of the sources, in one look: the settings with each where its publisher reads it, and the
    names of those that a cutover goes without."""

    settings: Settings
    given_up: frozenset[str] = frozenset()


class SourceRows:
    """Rows as the sources hold them now, read with locks. Not shared between threads."""

    def __init__(self, settings: Settings, sources_now: Callable[[], SourcesNow] | None = None) -> None:
        """sources_now: asked once with each question; without it the sources are as the settings have them."""
        self._settings = settings
        self._sources_now = sources_now
        self.given_up: frozenset[str] = frozenset()
        """Those that the last read did not ask: it says nothing of their rows."""
        self._open: dict[str, Connection] = {}
        self._used: dict[str, float] = {}
        self._logs: dict[str, bool] = {}  # by source, whether cascades are in its log

    def read(self, planned: PlannedTable, keys: Sequence[Key]) -> dict[Key, Row | None]:
        """The row of each key as canonical texts; None where there is none that belongs to the migration.

        Raises: StopError when the source does not give them now.
        """
        self._follow()
        return self._read(planned, keys)

    def _read(self, planned: PlannedTable, keys: Sequence[Key]) -> dict[Key, Row | None]:
        table = planned.table
        found: dict[Key, Row | None] = dict.fromkeys(keys)
        if table.source in self.given_up:
            return found
        size = _KEYS if table.key_is_exact else 1  # else only the server can tell which row is meant
        try:
            for start in range(0, len(keys), size):
                part = keys[start : start + size]
                for row in self._rows(planned, part):
                    found[key_of(row, table.key, table.full_name) if size > 1 else part[0]] = row
        except (pymysql.MySQLError, OSError, ServerError) as error:
            raise self._unread(table, error) from error
        return found

    def read_group(
        self, tables: Sequence[PlannedTable], keys: Mapping[Key, Collection[TableId] | None]
    ) -> dict[Key, HeldRows]:
        """The rows of each key in the tables of a group; those that more than one has are looked at again for a while.

        keys: with the tables at which each is asked for; None: at all. Raises: StopError when a source does not give
        them now.
        """
        found: dict[Key, HeldRows] = {key: [] for key in keys}
        wanted = list(keys)
        for pause in (*_LOOKS_SECONDS, None):
            self._follow()
            found.update((key, []) for key in wanted)
            for planned in tables:
                id_ = planned.table.id
                here = [key for key in wanted if (at := keys[key]) is None or id_ in at]
                for key, row in (self._read(planned, here) if here else {}).items():
                    if row is not None:
                        found[key].append((planned, row))
            wanted = [key for key in wanted if len(found[key]) > 1]
            if not wanted or pause is None:
                break
            time.sleep(pause)
        return found

    def _rows(self, planned: PlannedTable, keys: Sequence[Key]) -> list[Row]:
        return self._where(planned, among(planned.table, keys))

    def _where(self, planned: PlannedTable, condition: Condition, columns: Sequence[Column] = ()) -> list[Row]:
        """Rows that belong to the migration, which are locked for reading. columns: those wanted; none: all stored, and
        the generated ones that tell where a row belongs."""
        table = planned.table
        columns = columns or [one for one in table.columns if not one.generated or one.name in planned.routing]
        connection = self._connection(table.source)
        where, arguments = and_rows(*condition, planned.rows)
        there = full_name(table.database, table.name)
        fields, lock = whole_values.fields(columns), read_lock(connection)
        rows = connection.query(f"SELECT {fields} FROM {there} WHERE {where} {lock}", arguments)
        readers = [(column.name, from_server(column)) for column in columns]
        try:
            whole = [whole_values.values(columns, row) for row in rows]
        except StopError:
            self.close()  # another session may print it
            raise
        return [{name: read(value) for (name, read), value in zip(readers, row, strict=True)} for row in whole]

    def keys_with(self, planned: PlannedTable, condition: Condition) -> list[Key]:
        """The keys of rows that belong to the migration and of which a condition holds.

        Raises: StopError when the source does not give them now.
        """
        self._follow()
        table = planned.table
        if table.source in self.given_up:
            return []
        try:
            return [
                key_of(row, table.key, table.full_name) for row in self._where(planned, condition, table.key_columns)
            ]
        except (pymysql.MySQLError, OSError, ServerError) as error:
            raise self._unread(table, error) from error

    def logs_cascades(self, source: str) -> bool:
        """Whether a source's log has what its foreign keys change; not known of one that is given up. Raises StopError
        when it does not answer."""
        self._follow()
        if source in self.given_up:
            return False
        if source not in self._logs:
            self._logs[source] = self._asked(source, logs_cascades, "for its foreign keys")
        return self._logs[source]

    def log_end(self, source: str, incarnation: int) -> Coordinate | None:
        """Behind which a source's log has nothing; None: it is given up, and no more of it is published. Raises
        StopError when it does not answer."""
        self._follow()
        if source in self.given_up:
            return None
        end = self._asked(source, log_end, "where its log ends")
        return Coordinate(incarnation, file_number(end.file), end.pos - 1, 0)

    def _asked(self, source: str, question: Callable[[Connection], T], what: str) -> T:
        """In a session of its own, whose answers are not raw bytes."""
        try:
            with closing(connect(self._settings.source(source), f"source '{source}'")) as connection:
                return question(connection)
        except (pymysql.MySQLError, OSError, ServerError) as error:
            self.close()
            told = f"source '{source}' cannot be asked {what}: {mysql_errors.text(error)}"
            raise StopError(told, hint="it is tried again by itself", code=Code.SOURCE) from error

    def _unread(self, table: Table, error: Exception) -> StopError:
        self.close()
        return StopError(
            f"source '{table.source}': {table.full_name} cannot be read for a refresh: {mysql_errors.text(error)}",
            hint=_UNREAD.get(mysql_errors.number(error), _LOCKED),
            code=Code.SOURCE,
        )

    def _follow(self) -> None:
        """Ask the servers that the changes come from: another one may have more, or less. And none that is given up, as
        the state says now: what is read behind that is read by it."""
        if self._sources_now is None:
            return
        now = self._sources_now()
        self.given_up = now.given_up
        if now.settings.sources != self._settings.sources:
            self.close()
            self._settings = now.settings

    def _connection(self, source: str) -> Connection:
        began = time.monotonic()
        if began - self._used.get(source, began) > SILENT_SECONDS / 2:
            self.close()  # the server may have ended it
        self._used[source] = began
        connection = self._open.get(source)
        if connection is None or not connection.open:
            session = {"innodb_lock_wait_timeout": _LOCK_SECONDS}
            server = self._settings.source(source)
            connection = self._open[source] = connect(server, f"source '{source}'", raw_results=True, session=session)
        return connection

    def close(self) -> None:
        """Forget the sessions: the state of one is unknown, or they are not needed any more. And what the servers log:
        one that was started again may log something else."""
        self._logs.clear()
        while self._open:
            connection = self._open.popitem()[1]
            with suppress(pymysql.MySQLError, OSError):
                connection.close()
