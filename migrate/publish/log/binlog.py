"""The source's binlog as raw events.

mysql-replication connects, registers and asks for the dump; its packets are taken raw from there, because its own
decoding is not exact (zero dates become None, SET an unordered set) and slow. Event layout: MySQL source documentation,
"Binary Log Event Structure"; MariaDB knowledge base, "Replication Protocol".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import pymysql
import structlog
from pymysql.err import raise_mysql_exception
from pymysqlreplication import BinLogStreamReader

from migrate.model.errors import Code, MigrateError, ServerError, StopError
from migrate.mysql import channel
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explain, number, text
from migrate.mysql.server_start import started
from migrate.mysql.session import state_session
from migrate.publish.log import dump
from migrate.publish.log.gtid import GtidSet
from migrate.publish.log.packets import Pause, packets, patient
from migrate.publish.log.refused import Why, file_behind_torn, why
from migrate.settings import Source

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR, FORMAT_DESCRIPTION, XID = 2, 3, 4, 5, 13, 14, 15, 16
BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP, INCIDENT, HEARTBEAT = 17, 18, 19, 26, 27
IGNORABLE, ROWS_QUERY, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 28, 29, 33, 34, 35
TRANSACTION_CONTEXT, VIEW_CHANGE, XA_PREPARE, PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD = 36, 37, 38, 39, 40
HEARTBEAT_V2, GTID_TAGGED = 41, 42
HEARTBEATS = frozenset({HEARTBEAT, HEARTBEAT_V2})
ANNOTATE_ROWS, BINLOG_CHECKPOINT, MARIADB_GTID, GTID_LIST, START_ENCRYPTION = 160, 161, 162, 163, 164
QUERY_COMPRESSED = 165
ROWS = frozenset({23, 24, 25, 30, 31, 32, 166, 167, 168, 169, 170, 171})

FLAG_THREAD_SPECIFIC = 0x4  # of a statement: it, or one of its procedure, met a temporary table
FLAG_ARTIFICIAL = 0x20  # made up by the server for this connection; not in the log
FLAG_IGNORABLE = 0x80

_HEADER = struct.Struct("<IBIIIH")  # timestamp, type, server id, size, end position, flags
_CHECKSUM_CRC32 = 1
_READ_BINLOG_FAILED = 1236
_ABOUT_CHECKSUMS = frozenset({FORMAT_DESCRIPTION, ROTATE})
_ERROR = b"\xff"
_FILE_FIELD = 1  # of a heartbeat of version 2
_SLOW_READER_SECONDS = 3600
TORN = 256
"""The type of an event that no server sends, as a type has one byte: the file before breaks off in the middle of an
event. Its body is that of a ROTATE event."""
_FIRST = 4
"""The position of the first event of a file."""
log = structlog.get_logger("migrate.publish")

# The CRC-32 of bytes followed by their own CRC-32 is always the same number; and the zero byte before an event in its
# packet changes nothing when CRC-32 starts with this one. So an event is checked without a copy of it.
_WITH_ITSELF = 0x2144DF1C
_BEFORE_ZERO = 0x0F6A7026  # crc32(b"\0", this) == 0


class Event(NamedTuple):
    timestamp: int  # seconds since 1970
    type: int
    server_id: int
    size: int  # bytes in the log, header and checksum included
    end: int  # position behind it in its file, modulo 2^32
    flags: int
    body: bytes  # without header and checksum


class NotByGtid(ServerError):  # noqa: N818 - what it says is the finding
    """Asked by GTID, the source cannot go on: there are transactions without one. By file it can."""


def file_of_heartbeat(event: Event) -> str:
    """The file of which a heartbeat gives the position; "" where it does not say.

    MySQL, "Heartbeat_event" and "Heartbeat_event_v2"; MariaDB knowledge base, "HEARTBEAT_LOG_EVENT".
    """
    if event.type == HEARTBEAT:
        return event.body.decode("ascii", "replace")
    at = 0
    while at + 2 <= len(event.body):  # fields of a type, a length and a value; all are short
        kind, start = event.body[at], at + 2
        at = start + event.body[at + 1]
        if kind == _FILE_FIELD:
            return event.body[start:at].decode("ascii", "replace")
    return ""


class BinlogReader:
    """Events from (file, position) or from a GTID set on, as they come, with heartbeats while the source is idle.

    server: the id and UUID that a place by file is of. since: when that was started, in seconds since 1970. The address
    may lead elsewhere since they were looked at.
    """

    def __init__(
        self,
        source: Source,
        replica_id: int,
        heartbeat_seconds: float,
        file: str,
        position: int,
        gtids: GtidSet | None = None,
        server: tuple[int, str] | None = None,
        since: int | None = None,
    ) -> None:
        self._where = f"source '{source.name}'"
        self._source = source
        self._file, self._at = file, position  # behind the last event that came
        self._session = 0  # its number at the server
        self._from = f"{file}:{position}" + (f", GTID set {str(gtids)[:500]}" if gtids is not None else "")
        self._gtids, self._replica_id, self._heartbeat = gtids, replica_id, heartbeat_seconds
        self._server, self._since = server, since
        self._silent_seconds = max(30.0, heartbeat_seconds * 10)
        self._stream = self._new_stream()
        self._checksum = False  # of the file being read; its FORMAT_DESCRIPTION event says so

    def _new_stream(self) -> BinLogStreamReader:
        return BinLogStreamReader(
            connection_settings={"charset": "utf8mb4"},  # it has one of its own otherwise
            server_id=self._replica_id,
            log_file=self._file,
            log_pos=self._at,
            resume_stream=True,
            blocking=True,
            slave_heartbeat=self._heartbeat,
            enable_logging=False,
            pymysql_wrapper=self._connect,
        )

    def open(self) -> None:
        """Connect and ask for the dump. Raises ServerError."""
        try:
            if self._gtids is not None:
                self._open_by_gtid(self._gtids)
            else:
                self._stream._BinLogStreamReader__connect_to_stream()
        except (pymysql.MySQLError, OSError) as error:
            raise explain(error, self._where) from error

    def _connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        """Connect, and say that we understand checksums: whatever the setting is now, older files may have them."""
        connection = channel.opened(self._source, read_timeout=self._silent_seconds, **options)
        # While a large transaction is looked through, and while Kafka takes its time, nothing is read here.
        state_session(connection, {"net_write_timeout": _SLOW_READER_SECONDS})
        self._session = int(connection.thread_id())  # type: ignore[no-untyped-call]
        with connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid')")
            found = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        server = int(found["server_id"]), found.get("server_uuid", "")
        if self._server not in (None, server):
            connection.close()
            raise ServerError(
                f"{self._where} is another server than a moment ago (server_id {server[0]} {server[1]})",
                hint="the publisher starts again and checks it",
            )
        if self._since is not None and started(Connection(connection, self._where)) != self._since:
            connection.close()
            raise ServerError(
                f"{self._where} was restarted a moment ago", hint="the publisher starts again and looks at it"
            )
        return connection

    def _open_by_gtid(self, gtids: GtidSet) -> None:
        connection = self._connect()
        self._stream._stream_connection = connection
        self._stream._BinLogStreamReader__connected_stream = True  # so that it closes it
        dump.prepare(connection, self._heartbeat)
        dump.by_gtid(connection, self._replica_id, gtids)

    def events(self, pause: Pause = patient) -> Iterator[Event]:
        """`reads`, event by event."""
        for events in self.reads(pause):
            yield from events

    def reads(self, pause: Pause) -> Iterator[list[Event]]:
        """The events that one read of the socket brought, and so on until `pause` says 0.

        Raises: StopError when the source no longer has what we need or an event is damaged; NotByGtid; ServerError when
        the connection ends. The events before come first.
        """
        while True:
            try:
                yield from self._reads(pause)
                return
            except pymysql.MySQLError as error:
                following = self._file_behind(error)
                if not following:
                    raise self._explain(error) from error
            yield [self._go_on_with(following)]

    def _reads(self, pause: Pause) -> Iterator[list[Event]]:
        connection = self._stream._stream_connection
        connection._sock.settimeout(connection._read_timeout)
        for messages in packets(connection._sock, connection._next_seq_id, pause):
            events: list[Event] = []
            try:
                self._take(messages, events)
            except (MigrateError, pymysql.MySQLError):
                if events:
                    yield events
                raise
            yield events

    def _file_behind(self, error: BaseException) -> str:
        """The next file, where this one breaks off in the middle of an event; "" otherwise."""
        if number(error) != _READ_BINLOG_FAILED:
            return ""
        return file_behind_torn(self._source, self._where, self._file, self._at)

    def _go_on_with(self, following: str) -> Event:
        """Read the next file, and say so as a server does whose file ends between two events. Raises ServerError."""
        log.warning("a file of the log breaks off", source=self._source.name, file=self._file, pos=self._at)
        self._stream.close()
        self._file, self._at, self._gtids = following, _FIRST, None
        self._stream = self._new_stream()
        self.open()
        body = _FIRST.to_bytes(8, "little") + following.encode("ascii")
        return Event(0, TORN, 0, 0, 0, FLAG_ARTIFICIAL, body)

    def _take(self, messages: list[bytes], events: list[Event]) -> None:
        unpack, crc32, new = _HEADER.unpack_from, zlib.crc32, tuple.__new__
        try:
            for data in messages:
                if not data or data[0]:
                    self._refuse(data)
                timestamp, kind, server_id, size, end, flags = unpack(data, 1)
                if not self._checksum or kind in _ABOUT_CHECKSUMS:
                    events.append(self._parse(data))
                    continue
                if crc32(data, _BEFORE_ZERO) != _WITH_ITSELF:
                    raise self._damaged(kind, end)
                events.append(new(Event, (timestamp, kind, server_id, size, end, flags, data[20:-4])))
        finally:
            if events:
                self._at = events[-1].end or self._at  # 0 of what the server made up

    def _refuse(self, data: bytes) -> NoReturn:
        """Raise what a packet says that is no event."""
        if data[:1] == _ERROR:
            raise_mysql_exception(data)
        raise ServerError(f"{self._where} ended the binlog stream", hint="it is opened again from the stored position")

    def _parse(self, data: bytes) -> Event:
        timestamp, kind, server_id, size, end, flags = _HEADER.unpack_from(data, 1)
        if kind == FORMAT_DESCRIPTION:
            # The algorithm byte and four bytes of checksum always close this event (log_event.h).
            self._checksum = data[-5] == _CHECKSUM_CRC32
            self._verify(data, kind, end)
            return Event(timestamp, kind, server_id, size, end, flags, data[20:-5])
        if kind == ROTATE and flags & FLAG_ARTIFICIAL:
            # Comes before the file's own description; whether it has a checksum is seen from the checksum itself.
            summed = zlib.crc32(data[1:-4]) == int.from_bytes(data[-4:], "little")
            body = data[20:-4] if summed else data[20:]
            self._at, self._file = int.from_bytes(body[:8], "little"), body[8:].decode("ascii")
            return Event(timestamp, kind, server_id, size, end, flags, body)
        if not self._checksum:
            return Event(timestamp, kind, server_id, size, end, flags, data[20:])
        self._verify(data, kind, end)
        return Event(timestamp, kind, server_id, size, end, flags, data[20:-4])

    def _verify(self, data: bytes, kind: int, end: int) -> None:
        if self._checksum and zlib.crc32(data[1:-4]) != int.from_bytes(data[-4:], "little"):
            raise self._damaged(kind, end)

    def _damaged(self, kind: int, end: int) -> StopError:
        return StopError(
            f"{self._where}: event type {kind} ending at {end} has a wrong checksum",
            hint="the log is damaged, or the network connection",
            code=Code.LOG,
        )

    def _explain(self, error: BaseException) -> ServerError | StopError:
        if number(error) != _READ_BINLOG_FAILED:
            return explain(error, self._where)
        found = why(self._source, self._where, self._session, self._file, self._at, self._gtids)
        if found is Why.REPLACED:
            return ServerError(
                f"{self._where} ended the binlog stream: another replica reads as {self._replica_id}",
                hint="if that is no other publisher of this migration, set another sources[].server_id",
            )
        if found is Why.NOT_BY_GTID:
            return NotByGtid(f"{self._where} cannot go on by GTID: {text(error)}")
        if found is not Why.UNKNOWN:
            mode, word = ("ON", "without") if found is Why.ANONYMOUS else ("OFF", "with")
            return StopError(
                f"{self._where} does not send transactions {word} GTID while gtid_mode is {mode}; there are some"
                f" behind the stored position {self._from}",
                hint=f"SET GLOBAL gtid_mode = {mode}_PERMISSIVE there until the publisher is past them",
                code=Code.LOG,
            )
        return StopError(
            f"{self._where} cannot send the binlog from the stored position {self._from}: {text(error)}",
            hint="if it was purged, changes are lost to this migration: start a new one and copy again",
            code=Code.LOG,
        )

    def close(self) -> None:
        self._stream.close()
