"""Why a server ended the binlog stream with 1236, by what the server is asked, never by the words it said.

One number stands for all reasons (MySQL source, `rpl_binlog_sender.cc`): another replica took the place of this one,
the log is gone, or `gtid_mode` does not let a transaction be sent. What none of the questions tells is `UNKNOWN`.
"""

from __future__ import annotations

from contextlib import closing
from enum import Enum, auto

import pymysql

from migrate.model.errors import MigrateError
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import number
from migrate.publish.log.gtid import GtidSet
from migrate.settings import Source

_DUMPS = frozenset({"Binlog Dump", "Binlog Dump GTID"})
"""Commands of the protocol, as SHOW PROCESSLIST names them."""
_ANONYMOUS, _WITH = "Anonymous_Gtid", "Gtid"
"""Types of events, as SHOW BINLOG EVENTS names them."""
_SHOWS_NOT = 1220  # ER_ERROR_WHEN_EXECUTING_COMMAND


class Why(Enum):
    """What is behind a 1236."""

    REPLACED = auto()  # another session of this account reads the log now
    NOT_BY_GTID = auto()  # there are transactions without one; by file they can be read
    ANONYMOUS = auto()  # the next transaction has no GTID, and gtid_mode is ON
    HAS_GTID = auto()  # it has one, and gtid_mode is OFF
    UNKNOWN = auto()  # the log is gone, or damaged


def why(source: Source, name: str, session: int, file: str, position: int, gtids: GtidSet | None) -> Why:
    """Ask the server.

    Args: name: as "source 'main'". session: the number of the one that was ended. file, position: of the event that
    was not sent. gtids: what was asked with; None by file.
    """
    try:
        with closing(connect(source, name)) as connection:
            if connection.flavour == "mariadb":  # it has a number for each reason that matters here
                return Why.UNKNOWN
            if gtids is not None:
                return _by_gtid(connection, session, str(gtids))
            return _by_file(connection, session, file, position)
    except (pymysql.MySQLError, OSError, MigrateError):
        return Why.UNKNOWN


def file_behind_torn(source: Source, name: str, file: str, position: int) -> str:
    """The file behind one that breaks off at a position, where a MariaDB server died while it wrote a transaction there
    (MDEV-6608); "" where the server does not answer, or has not begun another file, or can read on from there.

    Args: as for `why`.
    """
    try:
        with closing(connect(source, name)) as connection:
            if connection.flavour != "mariadb":
                return ""  # MySQL cuts such a transaction off at its start
            files = [str(row[0]) for row in connection.query("SHOW BINARY LOGS")]
            if file not in files[:-1] or _shows(connection, file, position):
                return ""
            return files[files.index(file) + 1]
    except (pymysql.MySQLError, OSError, MigrateError):
        return ""


def _shows(connection: Connection, file: str, position: int) -> bool:
    """Whether the server can read the event there. Raises the driver's error for what says nothing of that."""
    try:
        connection.query(f"SHOW BINLOG EVENTS IN %s FROM {position:d} LIMIT 1", (file,))
    except pymysql.MySQLError as error:
        if number(error) != _SHOWS_NOT:
            raise
        return False
    return True


def _by_gtid(connection: Connection, session: int, gtids: str) -> Why:
    ((mode, nothing_purged, nothing_more),) = connection.query(
        "SELECT @@GLOBAL.gtid_mode, GTID_SUBSET(@@GLOBAL.gtid_purged, %s), GTID_SUBSET(%s, @@GLOBAL.gtid_executed)",
        (gtids, gtids),
    )
    if mode != "ON":
        return Why.NOT_BY_GTID
    if not nothing_purged or not nothing_more:
        return Why.UNKNOWN
    return Why.REPLACED if _another_reads(connection, session) else Why.NOT_BY_GTID


def _by_file(connection: Connection, session: int, file: str, position: int) -> Why:
    if not any(row[0] == file and int(row[1]) >= position for row in connection.query("SHOW BINARY LOGS")):
        return Why.UNKNOWN
    ((mode,),) = connection.query("SELECT @@GLOBAL.gtid_mode")
    row = connection.one(f"SHOW BINLOG EVENTS IN %s FROM {position:d} LIMIT 1", (file,))
    kind = str(row[2]) if row else ""
    if kind == _ANONYMOUS and mode == "ON":
        return Why.ANONYMOUS
    if kind.startswith(_WITH) and mode == "OFF":
        return Why.HAS_GTID
    return Why.REPLACED if _another_reads(connection, session) else Why.UNKNOWN


def _another_reads(connection: Connection, session: int) -> bool:
    """An account sees its own sessions whatever its privileges are (MySQL manual, "SHOW PROCESSLIST Statement")."""
    rows = connection.query("SHOW PROCESSLIST")
    return any(row[4] in _DUMPS and int(row[0]) != session for row in rows)
