"""Ending other accounts' sessions: by KILL, or by the procedure that a managed server has for who may not.

Amazon RDS User Guide, "Ending a session or query for RDS for MySQL"; Azure Database for MySQL, "Other stored
procedures".
"""

from __future__ import annotations

import pymysql

from migrate.mysql.connection import Connection
from migrate.mysql.errors import number

_PROCEDURES = ("rds_kill", "az_kill")
_DENIED = frozenset({1095, 1227})  # not the owner of the session; a privilege is missing
_NO_SUCH_THREAD = 1094


def procedure(connection: Connection) -> str:
    """The procedure that ends sessions, of those that the account may call; "" where there is none.

    Raises pymysql.MySQLError.
    """
    names = ", ".join(f"'{one}'" for one in _PROCEDURES)
    rows = connection.query(
        "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'mysql'"
        f" AND ROUTINE_TYPE = 'PROCEDURE' AND ROUTINE_NAME IN ({names})"
    )
    there = {str(name) for (name,) in rows}
    return next((f"mysql.{one}" for one in _PROCEDURES if one in there), "")


def end_session(connection: Connection, session: int) -> None:
    """End it; its transaction rolls back. One that is gone does not matter. Raises pymysql.MySQLError."""
    try:
        try:
            connection.query(f"KILL {session}")
        except pymysql.MySQLError as error:
            if number(error) not in _DENIED or not (by := procedure(connection)):
                raise
            connection.query(f"CALL {by}({session})")
    except pymysql.MySQLError as error:
        if number(error) != _NO_SUCH_THREAD:
            raise
