"""Raw events become transactions: what each means, what must stop us (invariants unknown-stops, own-writes-marked)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import structlog

from migrate.model.coordinate import Coordinate, file_number
from migrate.model.errors import Code, LogPlace, StopError
from migrate.publish import own_writes, savepoints
from migrate.publish.decode.rows import DUMMY_TABLE_ID, RowEvent
from migrate.publish.decode.tablemap import peek_table_id
from migrate.publish.emit import Transaction
from migrate.publish.log import binlog, payload
from migrate.publish.log.binlog import Event
from migrate.publish.log.gtid_event import gtid_of
from migrate.publish.log.progress import Progress
from migrate.publish.open_transaction import OpenTransaction
from migrate.publish.own_writes import OwnWrites
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.statement import Statement, first_word, is_begin, parse_query, savepoint_of
from migrate.publish.sink import Sink
from migrate.publish.table_maps import TableMaps
from migrate.target.roles import ROLE, STANDBY

log = structlog.get_logger("migrate.publish")
_NOTHING_TO_US = frozenset(
    {binlog.STOP, binlog.INTVAR, binlog.RAND, binlog.USER_VAR, binlog.BEGIN_LOAD_QUERY, binlog.HEARTBEAT}
    | {binlog.IGNORABLE, binlog.ROWS_QUERY, binlog.PREVIOUS_GTIDS, binlog.TRANSACTION_CONTEXT, binlog.VIEW_CHANGE}
    | {binlog.HEARTBEAT_V2, binlog.ANNOTATE_ROWS, binlog.BINLOG_CHECKPOINT, binlog.GTID_LIST, binlog.FORMAT_DESCRIPTION}
    | {binlog.START_ENCRYPTION, binlog.EXECUTE_LOAD_QUERY}
)
_REPEATED = frozenset({binlog.FORMAT_DESCRIPTION, binlog.HEARTBEAT, binlog.HEARTBEAT_V2})
"""Sent again, or out of turn, with a position from before."""
_STARTS = frozenset({binlog.GTID, binlog.ANONYMOUS_GTID, binlog.GTID_TAGGED, binlog.MARIADB_GTID})
_SET_ROW = (
    "SET GLOBAL binlog_format = 'ROW', let no session set it otherwise; to go on behind it, set `publish.statements:"
    " verify`, start again, and run `migrate verify --repair` of all tables (docs/operations.md)"
)
_BROKEN_OFF = "the file ends inside a transaction"
_TAKEN_BACK = (
    "rows of selected tables were rolled back in the log, and some of them are published already: it is above"
    " publish.transaction_rows"
)
_CREATED = slice(52, 56)
"""Of the body of a FORMAT_DESCRIPTION event: when the server was started, where the file is its first one; else 0."""
_UNUSUAL = binlog.FLAG_ARTIFICIAL | binlog.FLAG_IGNORABLE
_STANDALONE = 1  # MariaDB: a GTID whose event has no terminating commit
_PREPARED_XA = 64  # and one of an XA transaction that ends with XA PREPARE (MariaDB, "GTID_EVENT")


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
        side: OwnWrites,
        *,
        mariadb: bool,
    ) -> None:
        """side: whose transactions are dropped, and the role that the side has where reading begins."""
        self._side = side
        self._role = side.role
        self._source = source
        self._incarnation = incarnation
        self._schema = schema
        self._charsets = charsets
        self._sink = sink
        self._progress = Progress(file)
        self._tables = TableMaps(schema.known, charsets, side.databases, mariadb=mariadb)
        self._open: OpenTransaction | None = None
        self._mariadb = mariadb
        self._broken_off = False  # the file before ends inside the transaction that is open
        self._is_over = False  # the sink wants no more
        self._handlers: dict[int, Callable[[Event], None]] = {
            **dict.fromkeys(binlog.ROWS, self._rows),
            **dict.fromkeys(_STARTS, self._begin),
            binlog.TABLE_MAP: self._table_map,
            binlog.XID: self._close,
            binlog.QUERY: self._query,
            **dict.fromkeys((binlog.ROTATE, binlog.TORN), self._rotate),
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

    def follow(self, events: Iterable[Event]) -> bool:
        """Take in events one after the other, to the end of them; False where the sink wanted no more of them."""
        handlers, usual, progress = self._handlers, self._usual, self._progress
        event: Event | None = None
        try:
            for event in events:
                _, kind, _, _, end, flags, _ = event
                if end > progress.end and kind in usual and not flags & _UNUSUAL:
                    progress.end = end  # as nearly always: the next event of a transaction, or the first of one
                elif not flags & binlog.FLAG_ARTIFICIAL and end and kind != binlog.ROTATE:
                    self._move(event)
                handler = handlers.get(kind)
                if handler is not None:
                    handler(event)
                else:
                    self._no_handler(event)
                if self._is_over:
                    return False
        except StopError as error:
            if event is not None and error.where is None:
                error.place(LogPlace(self._source, progress.file, event.end))
            raise
        return True

    def _no_handler(self, event: Event) -> None:
        kind = event.type
        if kind == binlog.EXECUTE_LOAD_QUERY and (why := self._schema.row_statements.load_stops(event.body)):
            raise StopError(why, hint=_SET_ROW, code=Code.STATEMENT)
        if kind == binlog.INCIDENT:
            hint = "copy again under a new migration"
            raise StopError("an incident: the server lost events", hint=hint, code=Code.LOG)
        if kind not in _NOTHING_TO_US and not event.flags & binlog.FLAG_IGNORABLE:
            raise StopError(
                f"event type {kind} is not known", hint="this version of the program cannot read it", code=Code.LOG
            )

    def _payload(self, event: Event) -> None:
        self.follow(payload.transaction(event))

    @property
    def began(self) -> tuple[str, int]:
        """File and position at which the transaction that is being read begins."""
        transaction = self._open
        return self._progress.file, transaction.start if transaction is not None else self._progress.end

    @property
    def idle(self) -> bool:
        """Whether the source said twice that it has nothing more."""
        return self._progress.idle

    # -- where we are

    def _described(self, event: Event) -> None:
        if event.timestamp:
            self.created[self._progress.file] = event.timestamp
        if self._broken_off:
            self._take_back(event)

    def _take_back(self, event: Event) -> None:
        """A MariaDB server that dies while it writes a transaction into its log rolls that back at its start, and
        leaves what it had written there (MDEV-6608). The next file begins with the time of a start then."""
        if not int.from_bytes(event.body[_CREATED], "little"):
            raise StopError(_BROKEN_OFF, code=Code.LOG)
        if self._open is not None and self._open.has_rows and not self._sink.rolled_back(""):
            raise StopError(_TAKEN_BACK, hint=savepoints.HINT, code=Code.LOG)
        log.warning("the server died while it logged a transaction, which it rolled back", source=self._source)
        self._open, self._broken_off = None, False
        self._is_over = not self._sink.boundary(self._progress.file, event.end, event.timestamp, None)

    def _beat(self, event: Event) -> None:
        if self._is_ours(event):
            self._progress.beat()

    def _is_ours(self, heartbeat: Event) -> bool:
        """Whether it is about the file that is being read: until the server opens the next one, it gives the end of the
        last one, also behind the event that says which is next."""
        return binlog.file_of_heartbeat(heartbeat) == self._progress.file

    def _move(self, event: Event) -> None:
        """Positions in a file only rise; outside transactions the position moves over events that say nothing to us."""
        end = self._progress.end
        if event.type in binlog.HEARTBEATS and not self._is_ours(event):
            return
        if event.end < end and event.type not in _REPEATED:
            raise StopError(
                f"positions fall below {end}; the file is above 4 GiB",
                hint="end that file with FLUSH BINARY LOGS; start a new migration and copy again",
                code=Code.LOG,
            )
        if event.end > end:
            self._progress.end = event.end
            if self._open is None and event.type in _NOTHING_TO_US and not self._broken_off:
                self._is_over = not self._sink.boundary(self._progress.file, event.end, 0, None)

    def _rotate(self, event: Event) -> None:
        name, file = event.body[8:].decode("ascii"), self._progress.file
        pos = int.from_bytes(event.body[:8], "little")
        if name == file and (event.flags & binlog.FLAG_ARTIFICIAL or event.timestamp == 0):
            return  # the server says which file it sends
        self._broken_off = event.type == binlog.TORN or (self._open is not None and self._open.has_rows)
        if self._broken_off and not (self._mariadb and event.flags & binlog.FLAG_ARTIFICIAL):
            raise StopError(_BROKEN_OFF, code=Code.LOG)
        if file_number(name) <= self._progress.number:
            raise StopError(
                f"source '{self._source}': {name} follows {file}",
                hint="RESET MASTER? start a new migration and copy again",
                code=Code.LOG,
                where=LogPlace(self._source, file, event.end),
            )
        self._progress.enter(name)
        self._tables.end()
        if not self._broken_off:
            self._open = None
            self._is_over = not self._sink.boundary(name, pos, event.timestamp, None)

    # -- transactions

    def _begin(self, event: Event) -> None:
        if self._open is not None and self._open.has_rows:
            raise StopError("a transaction begins inside another one", code=Code.LOG)
        flags = event.body[12] if event.type == binlog.MARIADB_GTID else _STANDALONE
        self._open = OpenTransaction(
            event.end - event.size,
            gtid_of(event.type, event.server_id, event.body),
            in_block=not flags & _STANDALONE,
            is_xa=bool(flags & _PREPARED_XA),
        )

    def _opened(self, event: Event) -> OpenTransaction:
        """The transaction that an event is in: it begins with the event where no GTID event came before."""
        transaction = self._open
        if transaction is None:
            transaction = self._open = OpenTransaction(event.end - event.size)
        return transaction

    def _close(self, event: Event) -> None:
        transaction, self._open = self._open, None
        self._tables.end()
        gtid = transaction.gtid if transaction is not None else ""
        self._is_over = not self._sink.boundary(self._progress.file, event.end, event.timestamp, gtid)

    def _rows_at(self, transaction: OpenTransaction, event: Event) -> Transaction:
        """Where the rows of an event stand."""
        last, es = transaction.rows_at, event.timestamp * 1000
        if last is None or last.es != es:
            place = self._incarnation, self._progress.number, transaction.start
            last = Transaction(self._source, *place, transaction.gtid, es, self._role == STANDBY)
            transaction.rows_at = last
        return last

    # -- rows

    def _table_map(self, event: Event) -> None:
        if self._open is None or not self._open.is_ours:
            self._tables.add(event.body)

    def _rows(self, event: Event) -> None:
        transaction = self._open
        if transaction is None:
            transaction = self._opened(event)
        number = transaction.row_events
        transaction.row_events = number + 1
        if transaction.is_ours:
            return
        table_id = peek_table_id(event.body)
        try:
            found = self._tables.by_id[table_id]
        except KeyError:
            if table_id == DUMMY_TABLE_ID:
                return
            raise StopError(f"rows of table id {table_id} without its TABLE_MAP", code=Code.LOG) from None
        if found is None:
            return
        if isinstance(found, str):
            self._own_rows(transaction, found, event)
            return
        table, decoder = found
        if not transaction.has_rows:
            transaction.has_rows = True
            self._sink.begin(whole=transaction.is_xa)
        self._sink.rows(table, self._rows_at(transaction, event), number, RowEvent(decoder, event.type, event.body))

    def _own_rows(self, transaction: OpenTransaction, name: str, event: Event) -> None:
        """Rows of a table of the service's: the transaction is a stream's, or the side gets another role."""
        if name != ROLE:
            if not transaction.has_rows and own_writes.migration_of(event.type, event.body) in self._side.ours:
                transaction.is_ours = True
            return
        for migration, role in own_writes.roles_of(event.type, event.body):
            if migration == self._side.writer and role != self._role:
                at = self._rows_at(transaction, event)
                since = Coordinate(at.incarnation, at.file, at.start, 0)
                self._sink.role(role, since, transaction.gtid, event.timestamp)
                self._role = role
                transaction.rows_at = None

    def _partial(self, event: Event) -> None:
        """JSON differences, which nobody needs of a table that is not selected."""
        transaction = self._opened(event)
        if transaction.is_ours or self._tables.by_id.get(peek_table_id(event.body), "") is None:
            transaction.row_events += 1
            return
        hint = "SET GLOBAL binlog_row_value_options = ''; what it changed is lost to this migration: copy again"
        raise StopError("a partial JSON update", hint=hint, code=Code.STATEMENT)

    # -- statements

    def _query(self, event: Event) -> None:
        transaction = self._opened(event)
        if is_begin(event.body):
            transaction.in_block = True
            return
        statement = parse_query(event.body, self._charsets, temporary=bool(event.flags & binlog.FLAG_THREAD_SPECIFIC))
        word = first_word(statement.sql)
        if word == "BEGIN" or statement.sql.upper().startswith("XA START"):
            transaction.in_block = True
            transaction.is_xa = word == "XA"
            return
        name = savepoint_of(statement.sql) if word in ("SAVEPOINT", "ROLLBACK") else ""
        if word in ("SAVEPOINT", "ROLLBACK") and not transaction.savepoint(word, name, self._sink):
            raise StopError(_TAKEN_BACK, hint=savepoints.HINT, code=Code.LOG)
        if word in ("COMMIT", "ROLLBACK") and not name:
            self._close(event)
            return
        if word in ("SAVEPOINT", "ROLLBACK", "RELEASE") or (word == "XA" and transaction.has_rows):
            return
        self._statement(transaction, statement, event)
        if not transaction.in_block:
            self._close(event)

    def _statement(self, transaction: OpenTransaction, statement: Statement, event: Event) -> None:
        self._tables.doubt()
        why = self._schema.row_statements.stops(statement)
        if why is not None:
            if why:
                raise StopError(why, hint=_SET_ROW, code=Code.STATEMENT)
            return
        since = Coordinate(self._incarnation, self._progress.number, transaction.start, 0)
        standby = self._role == STANDBY
        if self._schema.statement(statement, since, transaction.gtid, event.timestamp, standby=standby):
            self._tables.forget()

    def _xa_prepare(self, event: Event) -> None:
        """MySQL's source, XA_prepare_event: the first byte says that it is XA COMMIT … ONE PHASE, so committed."""
        if self._open is not None and self._open.has_rows and event.body[:1] != b"\1":
            raise StopError(
                "an XA transaction on selected tables is prepared and may yet be rolled back",
                hint="XA PREPARE is not supported on the migrated tables; XA COMMIT … ONE PHASE is",
                code=Code.LOG,
            )
        self._close(event)
