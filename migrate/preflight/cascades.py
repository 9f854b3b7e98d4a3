"""Foreign keys whose cascades the source's log does not show: MariaDB's, and those that InnoDB itself carries out, on
MySQL before 9.6 and with `innodb_native_foreign_keys`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight import foreign_keys
from migrate.preflight.result import Result, Verdict

_RULE = re.compile(r"(ON (?:DELETE|UPDATE)) (CASCADE|SET NULL|SET DEFAULT)")
_TOLD = "rows that these foreign keys change by cascade are not in the binlog"
MEND = (
    "drop the cascade, and change such child rows by statements of their own; or, where applications never delete or"
    " change the parents while the migration runs, say cutover.cascades: unused, as a cutover refuses without"
)


def silent(connection: Connection, tables: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each of these tables with foreign keys that cascade outside the log, as "schema.table", and what to say of it."""
    found: dict[str, list[str]] = {}
    for schema, table in tables:
        for name, rules in foreign_keys.clauses(connection, schema, table):
            if cascading := [" ".join(rule) for rule in _RULE.findall(rules)]:
                found.setdefault(f"{schema}.{table}", []).append(f"{name} ({', '.join(cascading)})")
    if not found or _logs_cascades(connection):
        return []
    return [(table, f"{table}: {_TOLD}: {', '.join(names)}") for table, names in found.items()]


def check(connection: Connection, tables: Iterable[tuple[str, str]]) -> list[Result]:
    """A note for each selected table whose foreign keys cascade silently, with their names."""
    return [Result("cascades", table, Verdict.NOTE, told, MEND) for table, told in silent(connection, tables)] or [
        Result("cascades", connection.name, Verdict.PASS, f"{connection.name}: no cascades outside the log")
    ]


def _logs_cascades(connection: Connection) -> bool:
    """MySQL 9.6 moved foreign keys into the SQL layer, where that is not set otherwise; their cascades are logged since
    (MySQL manual, "innodb_native_foreign_keys")."""
    if connection.flavour == "mariadb":
        return False
    row = connection.one("SELECT VERSION()")
    parts = str(row[0]).split(".") if row else ["0", "0"]
    if (int(parts[0]), int(parts[1])) < (9, 6):
        return False
    return show_variables(connection, "innodb_native_foreign_keys").get("innodb_native_foreign_keys", "OFF") == "OFF"
