"""Where a source's log ends, and whether a SELECT sees all that stands before (invariant capture-before-copy)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pymysql
import structlog

from migrate.model.coordinate import in_log
from migrate.model.errors import Code, ServerError, StopError
from migrate.mysql.capabilities import Capability, can, log_status
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, LOCK_WAIT, number
from migrate.mysql.left_out import NO_LOG
from migrate.mysql.quoting import table as quoted_table

log = structlog.get_logger("migrate.publish")
_LOCK_SECONDS = 2
"""How long a lock on the tables may take. As long as it waits for one writer, all others wait behind it."""
_BETWEEN_LOCKS = 5.0  # seconds
_BETWEEN_LOOKS = 0.5
_NOT_TOLD = ACCESS_DENIED | {1401}  # ER_XAER_RMERR, which MySQL says to who may not


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    file: str
    pos: int
    gtid_set: str


def visible_position(connection: Connection, tables: list[tuple[str, str]], stop: threading.Event) -> BinlogPosition:
    """A position whose every earlier transaction a SELECT already sees.

    A commit that waits on semi-sync is in the log and not yet readable, so the log's plain end is not good enough.
    MariaDB: the position of a consistent snapshot (knowledge base, "Enhancements for START TRANSACTION WITH CONSISTENT
    SNAPSHOT"). MySQL: the position while the tables are locked for reading, which waits for transactions
    that have written them. Then what is prepared (XA) is waited for: its rows stand before the position, and
    nobody sees them until it commits, which is behind it. Raises ServerError when `stop` is set before they end.
    """
    here = _position(connection, tables, stop)
    _wait_for_prepared(connection, stop)
    return here


def _position(connection: Connection, tables: list[tuple[str, str]], stop: threading.Event) -> BinlogPosition:
    if can(connection, Capability.SNAPSHOT_POSITION):
        # In READ COMMITTED InnoDB takes no snapshot, and warns of that (138): 10.5 and 11.4.5 do, later ones do not.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            status = dict(connection.query("SHOW STATUS LIKE 'binlog_snapshot_%%'"))
        finally:
            connection.execute("COMMIT")
        file, pos = status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"])
        return BinlogPosition(file, pos, binlog_gtid_pos(connection, file, pos) or "")
    _lock(connection, tables, stop)
    try:
        return log_end(connection)
    finally:
        connection.execute("UNLOCK TABLES")


def readable_end(connection: Connection, tables: list[tuple[str, str]], stop: threading.Event) -> BinlogPosition:
    """As `visible_position`, and not before the end that the log has now; waits until that can be read.

    Raises ServerError when `stop` is set before.
    """
    return _from_end_on(connection, lambda: visible_position(connection, tables, stop), stop)


def wait_until_executed_is_readable(connection: Connection, stop: threading.Event) -> None:
    """Until a SELECT sees every transaction that the server has by its GTIDs now. Raises ServerError when `stop` is set
    before.

    MySQL counts a transaction as executed once it can be read (`gtid_executed`), MariaDB once it is logged
    (`gtid_binlog_state`): on a replica that waits for a replica of its own, that can be seconds earlier.
    """
    if can(connection, Capability.SNAPSHOT_POSITION):
        _from_end_on(connection, lambda: _position(connection, [], stop), stop)


def _from_end_on(connection: Connection, look: Callable[[], BinlogPosition], stop: threading.Event) -> BinlogPosition:
    """The first position that is not before the log's present end."""
    end = log_end(connection)
    while True:
        here = look()
        if in_log(here.file, here.pos) >= in_log(end.file, end.pos):
            return here
        if stop.wait(_BETWEEN_LOOKS):
            raise ServerError(f"{connection.name}: stopped before all rows in its log could be read")


def _wait_for_prepared(connection: Connection, stop: threading.Event) -> None:
    """Until all that is prepared now has ended: a SELECT that begins after it sees what it committed.

    An account that MySQL does not tell of them (XA_RECOVER_ADMIN) goes by the lock, which waits for those as well whose
    session is there.
    """
    before: set[str] | None = None
    while True:
        try:
            rows = connection.query("XA RECOVER")
        except pymysql.MySQLError as error:
            if number(error) not in _NOT_TOLD:
                raise
            return
        now = {_xid(row) for row in rows}
        before = now if before is None else before & now
        if not before:
            return
        log.warning("cannot begin while XA transactions are prepared", source=connection.name, xids=sorted(before))
        if stop.wait(_BETWEEN_LOOKS):
            raise ServerError(
                f"{connection.name}: stopped while XA transactions were prepared: {', '.join(sorted(before))}",
                hint="commit them, or roll them back: `XA RECOVER` shows them, `XA COMMIT` and `XA ROLLBACK` end them",
            )


def _xid(row: tuple[object, ...]) -> str:
    """As XA COMMIT takes it. row: of XA RECOVER: format, lengths of its two parts, both in one text."""
    form, length, rest, data = row
    raw = data if isinstance(data, bytes) else str(data).encode("latin-1", "replace")
    first = int(str(length))
    return f"X'{raw[:first].hex()}',X'{raw[first : first + int(str(rest))].hex()}',{form}"


def _lock(connection: Connection, tables: list[tuple[str, str]], stop: threading.Event) -> None:
    """Lock them for reading, again and again with pauses in which others can write."""
    locks = ", ".join(f"{quoted_table(database, table)} READ" for database, table in tables)
    connection.execute("SET SESSION lock_wait_timeout = %s", [_LOCK_SECONDS])
    while True:
        try:
            connection.execute(f"LOCK TABLES {locks}")
            return
        except pymysql.OperationalError as error:
            if number(error) != LOCK_WAIT:
                raise
        log.warning("cannot begin while transactions are open that wrote selected tables", source=connection.name)
        if stop.wait(_BETWEEN_LOCKS):
            raise ServerError(
                f"{connection.name}: stopped while transactions on selected tables were open",
                hint="wait for them, or end them; `XA RECOVER` shows prepared ones, `XA COMMIT` and"
                " `XA ROLLBACK` end them",
            )


def log_end(connection: Connection) -> BinlogPosition:
    """The binlog's current end. Raises StopError where there is no binlog."""
    row = connection.one(log_status(connection))
    if row is None:
        raise StopError(f"{connection.name} writes no binlog", hint=NO_LOG, code=Code.POSITION)
    gtid_set = str(row[4]) if len(row) > 4 and row[4] else ""
    return BinlogPosition(str(row[0]), int(row[1]), gtid_set.replace("\n", ""))


def binlog_gtid_pos(connection: Connection, file: str, pos: int) -> str | None:
    """MariaDB: the set that belongs to a place in the log; None when there is no such place. It reads that file."""
    row = connection.one("SELECT BINLOG_GTID_POS(%s, %s)", (file, pos))
    return None if row is None or row[0] is None else str(row[0])
