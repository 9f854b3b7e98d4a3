"""What the decoder's tests share: raw row events from a running server's binlog."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from migrate.model.errors import StopError
from migrate.model.message import Message
from migrate.model.message_reader import decode
from migrate.model.table import Column, Kind, Table
from migrate.publish.decode.row_json import ERRORS
from migrate.publish.decode.rows import (
    MARIADB_CHARSETS_SQL,
    MYSQL_CHARSETS_SQL,
    ROW_EVENTS,
    Change,
    DecoderCache,
    RowDecoder,
    RowEvent,
    charsets_from_rows,
)
from migrate.publish.decode.tablemap import peek_table, peek_table_id
from migrate.publish.emit import Emitter, Transaction
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour

Messages = list[tuple[int, bytes]]
"""(partition, message)s"""

RawEvent = tuple[bytes, int, bytes]
"""Body of its table map, event type, body."""

_TIME: Final = re.compile(rb'"ts":\d+')
TABLE_MAP = 19
PARTIAL_UPDATE_ROWS = 39
SESSION: Final = ("SET NAMES utf8mb4", "SET sql_mode = 'ALLOW_INVALID_DATES'", "SET time_zone = '+00:00'")


@dataclass
class Capture:
    """The row events that were written while it was recording."""

    database: str
    events: list[RawEvent] = field(default_factory=list)

    def of(self, table: str) -> list[RawEvent]:
        return [event for event in self.events if peek_table(event[0])[1:] == (self.database, table)]


def position(server: DatabaseServer) -> tuple[str, int]:
    """The end of the binlog: file name and offset."""
    sql = "SHOW MASTER STATUS" if server.flavour is Flavour.MARIADB else "SHOW BINARY LOG STATUS"
    file, offset = server.query(sql)[0][:2]
    return str(file), int(offset)


@contextmanager
def recording(server: DatabaseServer, database: str) -> Iterator[Capture]:
    """Everything the block changes in ``database`` is in the capture after it."""
    capture = Capture(database)
    file, start = position(server)
    yield capture
    last, end = position(server)
    assert last == file, "the binlog was rotated while recording"
    data = (server.data / file).read_bytes()[:end]
    maps: dict[int, bytes] = {}
    while start < end:
        kind, size = data[start + 4], struct.unpack_from("<I", data, start + 9)[0]
        body = data[start + 19 : start + size - 4]  # the last 4 bytes are the checksum
        if kind == TABLE_MAP:
            maps[peek_table_id(body)] = body
        elif kind in ROW_EVENTS or kind == PARTIAL_UPDATE_ROWS:
            table_map = maps[peek_table_id(body)]
            if peek_table(table_map)[1] == database:
                capture.events.append((table_map, kind, body))
        start += size


def decoder_cache(server: DatabaseServer, *, with_types: bool = True) -> DecoderCache:
    """A cache as the publisher makes it, with the server's collations and column types."""

    def types(database: str, table: str) -> dict[str, str]:
        return column_types(server, database, table)

    mariadb = server.flavour is Flavour.MARIADB
    return DecoderCache(select_charsets(server), mariadb=mariadb, column_types=types if with_types else None)


def select_charsets(server: DatabaseServer) -> dict[int, str]:
    """Character set by collation id."""
    sql = MARIADB_CHARSETS_SQL if server.flavour is Flavour.MARIADB else MYSQL_CHARSETS_SQL
    return charsets_from_rows(server.query(sql))


def column_types(server: DatabaseServer, database: str, table: str) -> dict[str, str]:
    """Type by column, as information_schema says it."""
    rows = server.query(
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    return {str(name): str(type_) for name, type_ in rows}


def changes(cache: DecoderCache, events: list[RawEvent]) -> list[Change]:
    """The decoded changes of captured events, in order."""
    return [change for table_map, kind, body in events for change in cache.get(table_map).decode(kind, body)]


@contextmanager
def server_variables(server: DatabaseServer, **wanted: str) -> Iterator[None]:
    """Global variables set for the block; sessions opened in it see them too."""
    before = {name: server.query(f"SELECT @@GLOBAL.{name}")[0][0] for name in wanted}
    try:
        for name, value in wanted.items():
            server.query(f"SET GLOBAL {name} = %s", (int(value) if value.isdigit() else value,))
        yield
    finally:
        for name, value in before.items():
            server.query(f"SET GLOBAL {name} = %s", (value,))


def run(server: DatabaseServer, database: str, *statements: str) -> list[RawEvent]:
    """Run statements in one session of an empty database; the row events they wrote."""
    server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    with recording(server, database) as capture:
        server.execute(*SESSION, *statements, database=database)
    return capture.events


def select(server: DatabaseServer, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query in UTC."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in SESSION:
            cursor.execute(statement)
        cursor.execute(sql)
        return list(cursor.fetchall())


def both_ways(
    decoder: RowDecoder, kind: int, body: bytes, key: tuple[str, ...], limit: int = 1_000_000
) -> tuple[Messages | None, Messages | str]:
    """An event's (partition, message)s from its bytes, and from its texts, without the time they were made at.

    None for what the fast path leaves to the other, and a text for what that refuses.
    """
    columns = tuple(Column(str(column.name), "any type", Kind.INT) for column in decoder.table_map.columns)
    table = Table("s", decoder.table_map.database, decoder.table_map.table, columns, key)
    emitter = Emitter(table, 3, limit, hashed=("*", "of a group"))
    transaction = Transaction("s", 1, 12, 345, "gtid:1", 1_700_000_000_000)
    event = RowEvent(decoder, kind, body)
    try:
        fast: Messages | None = _timeless(emitter._fast(transaction, 2, event)[1])
    except ERRORS:
        fast = None
    try:
        slow: Messages | str = _timeless(emitter.messages(transaction, 2, list(event)))
    except StopError as error:
        slow = error.message
    return fast, slow


def _timeless(messages: Iterable[tuple[int, bytes]]) -> Messages:
    return [(partition, _TIME.sub(b'"ts":0', raw, count=1)) for partition, raw in messages]


def read(messages: Messages | str | None) -> list[Message]:
    """Parsed. Fails when there are none to parse."""
    assert isinstance(messages, list), messages
    return [decode(raw, "t", 0) for _, raw in messages]
