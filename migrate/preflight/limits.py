"""How long a check may keep a server busy with one statement that reads rows."""

from __future__ import annotations

from migrate.mysql.connection import Connection

SECONDS = 5

TOO_LONG = frozenset({1969, 3024})
"""A statement was ended for its time: MariaDB's max_statement_time, MySQL's max_execution_time."""
TOOK_LONG = f"it took longer than {SECONDS} s: is the table locked, or are statistics old? Look again when it is quiet"


def limited(connection: Connection, select: str, hints: str = "") -> str:
    """A SELECT that the server ends after SECONDS, while it waits for a lock too. hints: more of MySQL's.

    MariaDB knowledge base, "SET STATEMENT"; MySQL 8.4 manual, 10.9.3, "Statement Execution Time Optimizer Hints".
    """
    if connection.flavour == "mariadb":
        return f"SET STATEMENT max_statement_time = {SECONDS} FOR {select}"
    return select.replace("SELECT", f"SELECT /*+ MAX_EXECUTION_TIME({SECONDS * 1000}) {hints} */", 1)
