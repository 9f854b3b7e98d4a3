"""Asking a server for its log from a GTID set on, and telling it what we understand.

Packets: MySQL source documentation, "COM_BINLOG_DUMP_GTID"; with tags, `Gtid_set::encode` of rpl_gtid_set.cc. MariaDB
takes the set from a session variable (knowledge base, "5-slave-registration", "COM_BINLOG_DUMP").
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pymysql

from migrate.publish.log.gtid import GtidSet, MariadbGtids, MysqlGtids

_COM_BINLOG_DUMP, _COM_BINLOG_DUMP_GTID = 0x12, 0x1E
_THROUGH_GTID = 0x04
_FIRST = 4  # of a binlog file's events
_TAGGED = 1

if TYPE_CHECKING:
    _Raw: TypeAlias = pymysql.connections.Connection[Any]


def prepare(connection: _Raw, heartbeat_seconds: float) -> None:
    """What the server needs to know before any dump. Its settings are the session's."""
    nanoseconds = int(heartbeat_seconds * 1_000_000_000)
    with connection.cursor() as cursor:
        cursor.execute(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
        cursor.execute("SET @mariadb_slave_capability = 4")  # MariaDB: send GTID events as they are


def by_gtid(connection: _Raw, replica_id: int, gtids: GtidSet) -> None:
    """Ask for every transaction that is not in the set. The server answers with events from the next packet on."""
    if isinstance(gtids, MariadbGtids):
        with connection.cursor() as cursor:
            cursor.execute("SET @slave_connect_state = %s", (str(gtids),))
            cursor.execute("SET @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0")
        body = struct.pack("<BIHI", _COM_BINLOG_DUMP, _FIRST, 0, replica_id)
    else:
        assert isinstance(gtids, MysqlGtids)  # noqa: S101 - there are two
        data = encode(gtids)
        body = struct.pack("<BHIIQI", _COM_BINLOG_DUMP_GTID, _THROUGH_GTID, replica_id, 0, _FIRST, len(data)) + data
    connection._write_bytes(struct.pack("<I", len(body)) + body)  # type: ignore[attr-defined]
    connection._next_seq_id = 1  # type: ignore[attr-defined]


def encode(gtids: MysqlGtids) -> bytes:
    """The set as the server reads it: the end of an interval is the number behind it."""
    parts = gtids.intervals()
    tagged = any(tag for _, tag, _ in parts)
    count = len(parts) << 8 | _TAGGED | _TAGGED << 56 if tagged else len(parts)
    encoded = [struct.pack("<Q", count)]
    for uuid, tag, intervals in parts:
        encoded.append(UUID(uuid).bytes)
        if tagged:
            encoded.append(bytes([len(tag) << 1]) + tag.encode("ascii"))
        encoded.append(struct.pack("<Q", len(intervals)))
        encoded += [struct.pack("<QQ", first, last + 1) for first, last in intervals]
    return b"".join(encoded)
