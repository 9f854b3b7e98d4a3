"""Whether a source's binlog files are still those that a stored position is about.

After RESET MASTER (RESET BINARY LOGS AND GTIDS) file names, positions and MySQL's GTIDs start over. A place in the old
files may then be a valid one in the new ones, with other changes before it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from migrate.model.coordinate import file_number
from migrate.model.errors import Code, StopError
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.mysql.readable import log_end
from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader
from migrate.publish.log.gtid import MysqlGtids
from migrate.settings import Source
from migrate.state.position import Position

_FIRST_EVENT = 4
_LOST = "changes are lost to this migration: start a new one and copy again"


class OtherLog(StopError):  # noqa: N818 - it says what is so
    """The server's log does not go on from a stored position."""

    code = Code.POSITION


def check(connection: Connection, source: Source, stored: Position, *, by_gtid: bool) -> None:
    """Raises OtherLog, naming the position, when the server's log does not go on from it; ServerError."""
    with explained(connection.name):
        sizes = {str(row[0]): int(row[1]) for row in connection.query("SHOW BINARY LOGS")}
        place = f"{stored.file}:{stored.pos}"
        if not sizes or file_number(max(sizes, key=file_number)) < file_number(stored.file):
            raise OtherLog(
                f"{connection.name} has no binlog {stored.file}, which the stored position {place} is in; it ends with"
                f" {max(sizes, key=file_number) if sizes else 'none'}: RESET MASTER?",
                hint=_LOST,
            )
        if stored.file in sizes:
            _check_file(connection, source, stored, sizes[stored.file], place)
        elif not by_gtid:
            raise OtherLog(
                f"{connection.name} has purged {stored.file}, which the stored position {place} is in; its oldest is"
                f" {min(sizes, key=file_number)}",
                hint=_LOST,
            )
        if by_gtid and connection.flavour == "mysql":
            _check_executed(connection, stored, place)


def recheck(source: Source, stored: Position, *, by_gtid: bool) -> None:
    """As `check`, in a session of its own."""
    with closing(connect(source, f"source '{source.name}'")) as connection:
        check(connection, source, stored, by_gtid=by_gtid)


def _check_file(connection: Connection, source: Source, stored: Position, size: int, place: str) -> None:
    begun = created(source, stored.replica_id, stored.file) if stored.file_created else 0
    if begun != stored.file_created:
        raise OtherLog(
            f"{connection.name}: {stored.file}, which the stored position {place} is in, was begun at {_time(begun)}"
            f" and not at {_time(stored.file_created)}: RESET MASTER?",
            hint=_LOST,
        )
    if stored.pos > size:
        raise OtherLog(
            f"{connection.name}: {stored.file} ends at {size}, before the stored position {place}: the server lost the"
            " end of its log",
            hint="it may have lost rows that are published: start a new migration and copy again",
        )


def _check_executed(connection: Connection, stored: Position, place: str) -> None:
    """The server itself looks at the transactions with its own UUID only."""
    executed = log_end(connection).gtid_set
    if not MysqlGtids.parse(stored.gtid_set).within(MysqlGtids.parse(executed)):
        raise OtherLog(
            f"{connection.name} does not have all that the stored position {place}, GTID set {stored.gtid_set}, has; it"
            f" has {executed or 'nothing'}: RESET MASTER?",
            hint=_LOST,
        )


def with_created(source: Source, position: Position) -> Position:
    """With when its file was begun, where that is not known and the file is there: by it a log that was reset is told
    from the one that it is in. Raises ServerError."""
    if position.file_created:
        return position
    with closing(connect(source, f"source '{source.name}'")) as connection, explained(connection.name):
        there = {str(row[0]) for row in connection.query("SHOW BINARY LOGS")}
    if position.file not in there:
        return position
    return replace(position, file_created=created(source, position.replica_id, position.file))


def created(source: Source, replica_id: int, file: str) -> int:
    """When the file was begun, by the header of its first event, in seconds since 1970."""
    reader = BinlogReader(source, replica_id, 1.0, file, _FIRST_EVENT)
    with closing(reader):
        reader.open()
        for event in reader.events():
            if event.type == binlog.FORMAT_DESCRIPTION:
                return event.timestamp
    raise AssertionError("the stream ends only by an error")


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
