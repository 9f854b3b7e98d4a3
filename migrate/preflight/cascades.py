"""Foreign keys whose cascades the source's log does not show (MariaDB, MySQL up to 8.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from migrate.mysql.connection import Connection
from migrate.preflight import foreign_keys
from migrate.preflight.result import Result, Verdict

_RULE = re.compile(r"(ON (?:DELETE|UPDATE)) (CASCADE|SET NULL|SET DEFAULT)")


def check(connection: Connection, tables: Iterable[tuple[str, str]]) -> list[Result]:
    """A note for each selected table whose foreign keys cascade silently, with their names."""
    silent: dict[str, list[str]] = {}
    for schema, table in tables:
        for name, rules in foreign_keys.clauses(connection, schema, table):
            if cascading := [" ".join(rule) for rule in _RULE.findall(rules)]:
                silent.setdefault(f"{schema}.{table}", []).append(f"{name} ({', '.join(cascading)})")
    if not silent or _logs_cascades(connection):
        return [Result("cascades", connection.name, Verdict.PASS, f"{connection.name}: no cascades outside the log")]
    mend = "while the migration runs, change such child rows by statements of their own, or drop the cascade"
    return [
        Result(
            "cascades",
            connection.name,
            Verdict.NOTE,
            f"{table}: rows that these foreign keys change by cascade are not in the binlog: {', '.join(names)}",
            mend,
        )
        for table, names in silent.items()
    ]


def _logs_cascades(connection: Connection) -> bool:
    """MySQL 9.6 moved foreign keys into the SQL layer; their cascades are logged since."""
    if connection.flavour == "mariadb":
        return False
    row = connection.one("SELECT VERSION()")
    parts = str(row[0]).split(".") if row else ["0", "0"]
    return (int(parts[0]), int(parts[1])) >= (9, 6)
