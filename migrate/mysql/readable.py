"""Where a source's log ends, and from which place on a SELECT sees all that stands before it (rule 1)."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pymysql
import structlog

from migrate.model.coordinate import in_log
from migrate.model.errors import ServerError, StopError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import LOCK_WAIT, number
from migrate.mysql.quoting import table as quoted_table

log = structlog.get_logger("migrate.publish")
_LOCK_SECONDS = 2
"""How long a lock on the tables may take. As long as it waits for one writer, all others wait behind it."""
_BETWEEN_LOCKS = 5.0  # seconds
_BETWEEN_LOOKS = 0.5


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
    that have written them. Raises ServerError when `stop` is set before they end.
    """
    if connection.flavour == "mariadb":
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
    end = log_end(connection)
    while True:
        here = visible_position(connection, tables, stop)
        if in_log(here.file, here.pos) >= in_log(end.file, end.pos):
            return here
        if stop.wait(_BETWEEN_LOOKS):
            raise ServerError(f"{connection.name}: stopped while what is in its log could not be read")


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
            raise ServerError(f"{connection.name}: stopped while transactions on selected tables were open")


def log_end(connection: Connection) -> BinlogPosition:
    """The binlog's current end. `SHOW MASTER STATUS` is gone from MySQL 8.4 on; MariaDB has only that."""
    sql = "SHOW MASTER STATUS" if connection.flavour == "mariadb" else "SHOW BINARY LOG STATUS"
    row = connection.one(sql)
    if row is None:
        raise StopError(f"{connection.name} writes no binlog", hint="start it with log_bin")
    gtid_set = str(row[4]) if len(row) > 4 and row[4] else ""
    return BinlogPosition(str(row[0]), int(row[1]), gtid_set.replace("\n", ""))


def binlog_gtid_pos(connection: Connection, file: str, pos: int) -> str | None:
    """MariaDB: the set that belongs to a place in the log; None when there is no such place. It reads that file."""
    row = connection.one("SELECT BINLOG_GTID_POS(%s, %s)", (file, pos))
    return None if row is None or row[0] is None else str(row[0])
