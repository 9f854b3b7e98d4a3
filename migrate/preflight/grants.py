"""What the source's user may do: replicate and read, no more is needed (FAULTS S8)."""

from __future__ import annotations

import re

import pymysql

from migrate.mysql.connection import Connection
from migrate.mysql.errors import explain
from migrate.preflight.result import Result, Verdict

_EVERYWHERE = re.compile(r"^GRANT (.*) ON \*\.\* TO ", re.I)


def check(connection: Connection) -> list[Result]:
    """REPLICATION SLAVE, and REPLICATION CLIENT (MariaDB: BINLOG MONITOR)."""
    try:
        lines = [str(row[0]) for row in connection.query("SHOW GRANTS")]
    except pymysql.MySQLError as error:
        told = explain(error, connection.name)
        return [Result("grants", connection.name, Verdict.UNKNOWN, told.message, told.hint)]
    held: set[str] = set()
    for line in lines:
        if match := _EVERYWHERE.match(line):
            held |= {part.strip().upper() for part in match.group(1).split(",")}
    if "ALL PRIVILEGES" in held:
        return [Result("grants", connection.name, Verdict.PASS, f"{connection.name}: the user may replicate")]
    mariadb = connection.flavour == "mariadb"
    monitor = "BINLOG MONITOR" if mariadb else "REPLICATION CLIENT"
    wanted = {
        "REPLICATION SLAVE": {"REPLICATION SLAVE", "REPLICATION REPLICA"},  # SUPER does not stand for it
        monitor: {monitor, "REPLICATION CLIENT", *(() if mariadb else ("SUPER",))},
    }
    missing = [name for name, any_of in wanted.items() if not any_of & held]
    if not missing:
        return [Result("grants", connection.name, Verdict.PASS, f"{connection.name}: the user may replicate")]
    return [
        Result(
            "grants",
            connection.name,
            Verdict.PROBLEM,
            f"{connection.name}: grant {', '.join(missing)} is missing",
            f"GRANT {', '.join(missing)} ON *.* TO the user of the config",
        )
    ]
