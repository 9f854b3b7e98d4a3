"""Raw events become transactions: what each means, what must stop us (invariants unknown-stops, own-writes-marked)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import structlog

from migrate.model.coordinate import Coordinate, file_number
from migrate.model.errors import Code, StopError
from migrate.model.table import Table
from migrate.publish import own_writes, savepoints
from migrate.publish.decode.rows import DUMMY_TABLE_ID, DecoderCache, RowDecoder, RowEvent
from migrate.publish.decode.tablemap import parse_table_map, peek_table, peek_table_id
from migrate.publish.emit import Transaction
from migrate.publish.log import binlog, payload
from migrate.publish.log.binlog import Event
from migrate.publish.log.gtid_event import gtid_of
from migrate.publish.own_writes import Own
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.statement import Statement, first_word, is_begin, parse_query, savepoint_of
from migrate.target.roles import ROLE, STANDBY

log = structlog.get_logger("migrate.publish")
_NOTHING_TO_US = frozenset(
    {binlog.STOP, binlog.INTVAR, binlog.RAND, binlog.USER_VAR, binlog.BEGIN_LOAD_QUERY, binlog.HEARTBEAT}
    | {binlog.IGNORABLE, binlog.ROWS_QUERY, binlog.PREVIOUS_GTIDS, binlog.TRANSACTION_CONTEXT, binlog.VIEW_CHANGE}
    | {binlog.HEARTBEAT_V2, binlog.ANNOTATE_ROWS, binlog.BINLOG_CHECKPOINT, binlog.GTID_LIST, binlog.FORMAT_DESCRIPTION}
    | {binlog.START_ENCRYPTION}
)
_REPEATED = frozenset({binlog.FORMAT_DESCRIPTION, binlog.HEARTBEAT, binlog.HEARTBEAT_V2})
"""Sent again, or out of turn, with a position from before."""
_STARTS = frozenset({binlog.GTID, binlog.ANONYMOUS_GTID, binlog.GTID_TAGGED, binlog.MARIADB_GTID})
_SET_ROW = (
    "SET GLOBAL binlog_format = 'ROW', let no session set it otherwise; what it changed is lost to this migration:"
    " start a new one and copy again"
)
_KNOWN = 4096
_UNUSUAL = binlog.FLAG_ARTIFICIAL | binlog.FLAG_IGNORABLE
_STANDALONE = 1  # MariaDB: a GTID whose event has no terminating commit
_PREPARED_XA = 64  # and one of an XA transaction that ends with XA PREPARE (MariaDB, "GTID_EVENT")


class Sink(savepoints.Rows, Protocol):
    """What happens with what is read."""

    def begin(self, *, whole: bool) -> None:
        """whole: an XA transaction, of which its end alone says whether it is committed."""
        ...

    def rows(self, table: Table, transaction: Transaction, event: int, rows: RowEvent) -> None: ...
    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        """The side has this role from a coordinate on. gtid, at (seconds since 1970): of the transaction."""
        ...

    def boundary(self, file: str, pos: int, event_time: int, gtid: str | None) -> bool:
        """A place between transactions; returns whether reading goes on from there. `gtid` is that of the transaction
        that ends here: "" for an anonymous one, None where none ends."""
        ...


class TransactionReader:
    """Follows the log event by event. `follow` raises StopError at whatever it does not know."""

    def __init__(
        self,
        source: str,
        incarnation: int,
        file: str,
        schema: Schema,
        charsets: Mapping[int, str],
        sink: Sink,
        side: Own,
        *,
        mariadb: bool,
    ) -> None:
        """side: whose transactions are dropped, and the role that the side has where reading begins."""
        self._side = side
        self._role = side.role
        self._source = source
        self._incarnation = incarnation
        self._file = file
        self._schema = schema
        self._definitions = schema.known
        self._charsets = charsets
        self._mariadb = mariadb
        self._sink = sink
        self._decoders = DecoderCache(
            charsets,
            mariadb=mariadb,
            column_types=lambda database, name: {
                column.name: column.type for column in self._definitions.tables[(database, name)].columns
            },
            complete=self._definitions.complete,
        )
        self._maps: dict[int, tuple[Table, RowDecoder] | str | None] = {}  # str: a table of the service's
        self._known: dict[bytes, tuple[int, tuple[Table, RowDecoder] | str | None]] = {}
        """What was found for a TABLE_MAP event, by its bytes; forgotten at every statement that may be DDL."""
        self._handlers: dict[int, Callable[[Event], None]] = {
            **dict.fromkeys(binlog.ROWS, self._rows),
            **dict.fromkeys(_STARTS, self._open),
            binlog.TABLE_MAP: self._table_map,
            binlog.XID: self._close,
            binlog.QUERY: self._query,
            binlog.ROTATE: self._rotate,
            binlog.XA_PREPARE: self._xa_prepare,
            binlog.PARTIAL_UPDATE_ROWS: self._partial,
            binlog.FORMAT_DESCRIPTION: self._described,
            **dict.fromkeys(binlog.HEARTBEATS, self._beat),
            binlog.TRANSACTION_PAYLOAD: self._payload,
            binlog.QUERY_COMPRESSED: lambda event: self._query(payload.query(event)),
        }
        self._usual = frozenset(self._handlers) - _NOTHING_TO_US - {binlog.ROTATE}
        self.created: dict[str, int] = {}
        """When each file was begun, by its description's header, in seconds since 1970."""
        self._number: int | None = None  # of the file, once it was asked for
        self._transaction_: Transaction | None = None  # as the last row event had it
        self._end = 0  # of the last event of this file
        self._beats, self._beat_end = 0, -1  # heartbeats while the end was there
        self._start: int | None = None  # of the open transaction in its file
        self._block = False  # between BEGIN and its commit, where a statement ends nothing
        self._event = 0  # row events so far in the transaction
        self._gtid = ""
        self._ours = False
        self._selected = False  # rows of a selected table were met
        self._savepoints = savepoints.Savepoints(sink)
        self._begun = self._is_xa = False
        self._is_over = False  # the sink wants no more

    def follow(self, events: Iterable[Event]) -> bool:
        """Take in events one after the other, to the end of them; False where the sink wanted no more of them."""
        handlers, usual = self._handlers, self._usual
        event: Event | None = None
        try:
            for event in events:
                _, kind, _, _, end, flags, _ = event
                if end > self._end and kind in usual and not flags & _UNUSUAL:
                    self._end = end  # as nearly always: the next event of a transaction, or the first of one
                elif not flags & binlog.FLAG_ARTIFICIAL and end and kind != binlog.ROTATE:
                    self._follow(event)
                handler = handlers.get(kind)
                if handler is not None:
                    handler(event)
                else:
                    self._no_handler(event)
                if self._is_over:
                    return False
        except StopError as error:
            if event is None:
                raise
            if error.message.startswith(f"source '{self._source}'"):
                raise
            raise StopError(f"{self._at(event)}: {error.message}", hint=error.hint, code=error.code) from error
        return True

    def _no_handler(self, event: Event) -> None:
        kind = event.type
        if kind == binlog.EXECUTE_LOAD_QUERY:
            raise StopError(
                f"{self._at(event)}: LOAD DATA was logged as a statement", hint=_SET_ROW, code=Code.STATEMENT
            )
        if kind == binlog.INCIDENT:
            hint = "copy again under a new migration"
            raise StopError(f"{self._at(event)}: an incident: the server lost events", hint=hint, code=Code.LOG)
        if kind not in _NOTHING_TO_US and not event.flags & binlog.FLAG_IGNORABLE:
            raise StopError(
                f"{self._at(event)}: event type {kind} is not known",
                hint="this version of the program cannot read it",
                code=Code.LOG,
            )

    def _payload(self, event: Event) -> None:
        self.follow(payload.transaction(event))

    def _beat(self, _event: Event) -> None:
        self._beats = self._beats + 1 if self._end == self._beat_end else 1
        self._beat_end = self._end

    @property
    def began(self) -> tuple[str, int]:
        """File and position at which the transaction that is being read begins."""
        return self._file, self._start if self._start is not None else self._end

    @property
    def idle(self) -> bool:
        """Whether the source said twice that it has nothing more; once may mean that it passes over something."""
        return self._beats > 1 and self._end == self._beat_end

    # -- where we are

    def _described(self, event: Event) -> None:
        if event.timestamp:
            self.created[self._file] = event.timestamp

    def _follow(self, event: Event) -> None:
        """Positions in a file only rise; outside transactions the position moves over events that say nothing to us."""
        if event.end < self._end and event.type not in _REPEATED:
            raise StopError(
                f"{self._at(event)}: positions fall below {self._end}; the file is above 4 GiB",
                hint="end that file with FLUSH BINARY LOGS; start a new migration and copy again",
                code=Code.LOG,
            )
        if event.end > self._end:
            self._end = event.end
            if self._start is None and event.type in _NOTHING_TO_US:
                self._is_over = not self._sink.boundary(self._file, event.end, 0, None)

    def _at(self, event: Event) -> str:
        return f"source '{self._source}' {self._file}:{event.end}"

    def _transaction(self, event: Event) -> Transaction:
        last, es = self._transaction_, event.timestamp * 1000
        if last is None or last.es != es:
            start = self._start if self._start is not None else event.end - event.size
            if self._number is None:
                self._number = file_number(self._file)
            number = self._number
            place = self._incarnation, number, start
            last = self._transaction_ = Transaction(self._source, *place, self._gtid, es, self._role == STANDBY)
        return last

    def _open(self, event: Event) -> None:
        if self._start is not None:
            if self._begun:
                raise StopError(f"{self._at(event)}: a transaction begins inside another one", code=Code.LOG)
            self._reset(None)
        self._start = event.end - event.size
        flags = event.body[12] if event.type == binlog.MARIADB_GTID else _STANDALONE
        self._block, self._is_xa = not flags & _STANDALONE, bool(flags & _PREPARED_XA)
        self._gtid = gtid_of(event.type, event.server_id, event.body)

    def _reset(self, start: int | None) -> None:
        """As between transactions, or with `start` at the beginning of one."""
        self._start = start
        self._transaction_ = None
        self._event = 0
        self._gtid = ""
        self._ours = self._selected = self._begun = self._block = self._is_xa = False
        self._savepoints.clear()

    def _close(self, event: Event) -> None:
        gtid = self._gtid
        self._reset(None)
        self._maps.clear()
        self._is_over = not self._sink.boundary(self._file, event.end, event.timestamp, gtid)

    def _rotate(self, event: Event) -> None:
        name = event.body[8:].decode("ascii")
        pos = int.from_bytes(event.body[:8], "little")
        if name == self._file and (event.flags & binlog.FLAG_ARTIFICIAL or event.timestamp == 0):
            return  # the server says which file it sends
        if self._begun:
            raise StopError(f"{self._at(event)}: the file ends inside a transaction", code=Code.LOG)
        if file_number(name) <= file_number(self._file):
            raise StopError(
                f"source '{self._source}': {name} follows {self._file}",
                hint="RESET MASTER? start a new migration and copy again",
                code=Code.LOG,
            )
        self._file = name
        self._number = None
        self._end = 0
        self._maps.clear()
        self._is_over = not self._sink.boundary(name, pos, event.timestamp, None)

    # -- rows

    def _table_map(self, event: Event) -> None:
        if self._ours:
            return
        known = self._known.get(event.body)
        if known is not None:
            self._maps[known[0]] = known[1]
            return
        table_id, database, name = peek_table(event.body)
        found: tuple[Table, RowDecoder] | str | None
        if name in own_writes.OWN_TABLES:
            found = name if database in self._side.databases else None
        else:
            if (database, name) in self._definitions.watched:
                self._definitions.met(parse_table_map(event.body, mariadb=self._mariadb))
            table = self._definitions.tables.get((database, name))
            found = (table, self._decoders.get(event.body)) if table is not None else None
        self._maps[table_id] = found
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[event.body] = table_id, found

    def _rows(self, event: Event) -> None:
        number, self._event = self._event, self._event + 1
        if self._ours:
            return
        table_id = peek_table_id(event.body)
        try:
            found = self._maps[table_id]
        except KeyError:
            if table_id == DUMMY_TABLE_ID:
                return
            raise StopError(
                f"{self._at(event)}: rows of table id {table_id} without its TABLE_MAP", code=Code.LOG
            ) from None
        if found is None:
            return
        if isinstance(found, str):
            self._own_rows(found, event)
            return
        table, decoder = found
        if not self._begun:
            self._begun = True
            self._sink.begin(whole=self._is_xa)
        self._selected = True
        self._sink.rows(table, self._transaction(event), number, RowEvent(decoder, event.type, event.body))

    def _own_rows(self, name: str, event: Event) -> None:
        """Rows of a table of the service's: the transaction is a stream's, or the side gets another role."""
        if name != ROLE:
            if not self._selected and own_writes.migration_of(event.type, event.body) in self._side.ours:
                self._ours = True
            return
        for migration, role in own_writes.roles_of(event.type, event.body):
            if migration == self._side.writer and role != self._role:
                at = self._transaction(event)
                since = Coordinate(at.incarnation, at.file, at.start, 0)
                self._sink.role(role, since, self._gtid, event.timestamp)
                self._role = role
                self._transaction_ = None

    def _partial(self, event: Event) -> None:
        """JSON differences, which nobody needs of a table that is not selected."""
        if self._ours or self._maps.get(peek_table_id(event.body), event) is None:
            self._event += 1
            return
        hint = "SET GLOBAL binlog_row_value_options = ''; what it changed is lost to this migration: copy again"
        raise StopError(f"{self._at(event)}: a partial JSON update", hint=hint, code=Code.STATEMENT)

    # -- statements

    def _query(self, event: Event) -> None:
        if is_begin(event.body):
            self._begin_block(event)
            return
        statement = parse_query(event.body, self._charsets)
        word = first_word(statement.sql)
        if word == "BEGIN" or statement.sql.upper().startswith("XA START"):
            self._begin_block(event)
            self._is_xa = word == "XA"
            return
        name = savepoint_of(statement.sql) if word in ("SAVEPOINT", "ROLLBACK") else ""
        if word in ("SAVEPOINT", "ROLLBACK") and not self._savepoints.met(word, name, selected=self._selected):
            told = "rows of selected tables were rolled back in the log, and some of them are published already"
            raise StopError(
                f"{self._at(event)}: {told}: it is above publish.transaction_rows", hint=savepoints.HINT, code=Code.LOG
            )
        if word in ("COMMIT", "ROLLBACK") and not name:
            self._close(event)
            return
        if word in ("SAVEPOINT", "ROLLBACK", "RELEASE") or (word == "XA" and self._selected):
            return
        self._statement(event, statement)
        if not self._block:
            self._close(event)

    def _begin_block(self, event: Event) -> None:
        if self._start is None:  # no GTID event came before
            self._reset(event.end - event.size)
        self._block = True

    def _statement(self, event: Event, statement: Statement) -> None:
        self._known.clear()
        why = self._schema.row_statements.why_not(statement)
        if why is not None:
            if why:
                raise StopError(f"{self._at(event)}: {why}", hint=_SET_ROW, code=Code.STATEMENT)
            return
        start = self._start if self._start is not None else event.end - event.size
        since = Coordinate(self._incarnation, file_number(self._file), start, 0)
        if self._schema.statement(statement, since, self._gtid, event.timestamp, standby=self._role == STANDBY):
            self._decoders.clear()
            self._maps.clear()

    def _xa_prepare(self, event: Event) -> None:
        """MySQL's source, XA_prepare_event: the first byte says that it is XA COMMIT … ONE PHASE, so committed."""
        if self._selected and event.body[:1] != b"\1":
            raise StopError(
                f"{self._at(event)}: an XA transaction on selected tables is prepared and may yet be rolled back",
                hint="XA PREPARE is not supported on the migrated tables; XA COMMIT … ONE PHASE is",
                code=Code.LOG,
            )
        self._close(event)
