"""Who has tables locked, by what a server shows of it: LOCK TABLES … WRITE outside a transaction is in no INNODB_TRX.

MySQL manual, "The metadata_locks Table"; MariaDB knowledge base, "METADATA_LOCK_INFO Plugin".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pymysql

from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number

TO_SEE = {
    "mysql": "performance_schema = ON with GRANT SELECT ON performance_schema.metadata_locks",
    "mariadb": "INSTALL SONAME 'metadata_lock_info' there",
}
"""By flavour, what lets `of` see."""
_NOT_SHOWN = ACCESS_DENIED | {1109, 1146, 1305, 1683}  # no such table or function, or it is off
_MOST = 10  # sessions to name
_FOR_GOOD = ("SHARED_NO_READ_WRITE", "EXCLUSIVE")  # LOCK TABLES … WRITE, and a change of the table
_WRITTEN = ("SHARED_WRITE", "SHARED_WRITE_LOW_PRIO")  # of a transaction that need not have found a row


def of(connection: Connection, tables: Sequence[tuple[str, str]] | None) -> list[tuple[object, ...]] | None:
    """Sessions (id, user, host, seconds) whose locks on these tables, (database, name), LOCK TABLES … READ waits for;
    None for tables: those that have any table locked as by LOCK TABLES … WRITE. None: the server does not show it.

    Raises pymysql.MySQLError.
    """
    prefix = "MDL_" if connection.flavour == "mariadb" else ""
    kinds = [prefix + kind for kind in (_FOR_GOOD if tables is None else (*_FOR_GOOD, *_WRITTEN))]
    if connection.flavour == "mariadb":
        sql = (
            "SELECT DISTINCT p.ID, p.USER, p.HOST, p.TIME FROM information_schema.METADATA_LOCK_INFO m"
            " JOIN information_schema.PROCESSLIST p ON p.ID = m.THREAD_ID WHERE m.LOCK_MODE IN %s"
        )
        names = "(m.TABLE_SCHEMA, m.TABLE_NAME)"
    else:
        sql = (
            "SELECT DISTINCT p.ID, p.USER, p.HOST, p.TIME FROM performance_schema.metadata_locks m"
            " JOIN information_schema.PROCESSLIST p ON PS_THREAD_ID(p.ID) = m.OWNER_THREAD_ID"
            " WHERE m.OBJECT_TYPE = 'TABLE' AND m.LOCK_STATUS = 'GRANTED' AND m.LOCK_TYPE IN %s"
        )
        names = "(m.OBJECT_SCHEMA, m.OBJECT_NAME)"
    try:
        if tables is None:
            return connection.query(sql, [kinds])
        return connection.query(f"{sql} AND {names} IN %s", [kinds, list(tables)])
    except pymysql.MySQLError as error:
        if number(error) not in _NOT_SHOWN:
            raise
        return None


def users_of(connection: Connection, databases: Collection[str]) -> list[tuple[object, ...]]:
    """Sessions (id, user, host, seconds) that have chosen one of these databases, idle ones first, for longest first.
    Raises pymysql.MySQLError."""
    sql = (
        "SELECT ID, USER, HOST, TIME FROM information_schema.PROCESSLIST WHERE DB IN %s AND ID <> CONNECTION_ID()"
        f" ORDER BY COMMAND <> 'Sleep', TIME DESC LIMIT {_MOST}"
    )
    return connection.query(sql, [list(databases)])
