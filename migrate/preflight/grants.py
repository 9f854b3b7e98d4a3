"""What the accounts may do: the least that docs/grants.md lists, by name where it is missing (FAULTS S8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pymysql

from migrate.mysql import grants
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explain
from migrate.mysql.grants import Grants
from migrate.preflight.result import Result, Verdict

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
SHADOW = ("CREATE", "ALTER", "DROP", "INDEX", "SELECT", "INSERT", "REFERENCES")


def check(connection: Connection, databases: Iterable[str]) -> list[Result]:
    """At a source: to replicate, and on MySQL to lock tables of these databases for the first position."""
    try:
        held = grants.read(connection)
    except pymysql.MySQLError as error:
        told = explain(error, connection.name)
        return [Result("grants", connection.name, Verdict.UNKNOWN, told.message, told.hint)]
    mariadb = connection.flavour == "mariadb"
    monitor = "BINLOG MONITOR" if mariadb else "REPLICATION CLIENT"
    wanted = {
        "REPLICATION SLAVE": {"REPLICATION SLAVE", "REPLICATION REPLICA"},  # SUPER does not stand for it
        monitor: {monitor, "REPLICATION CLIENT", *(() if mariadb else ("SUPER",))},
    }
    missing = [name for name, any_of in wanted.items() if not (any_of | {"ALL PRIVILEGES"}) & held.everywhere]
    if missing:
        names = ", ".join(missing)
        message = f"{connection.name}: grant {names} is missing"
        return [Result("grants", connection.name, Verdict.PROBLEM, message, f"GRANT {names} ON *.* TO {held.account}")]
    if not mariadb and (lacking := _lacking(connection, held, dict.fromkeys(databases, ("LOCK TABLES",)))):
        return lacking
    return [Result("grants", connection.name, Verdict.PASS, f"{connection.name}: the user may replicate")]


def check_databases(connection: Connection, wanted: Mapping[str, Sequence[str]]) -> list[Result]:
    """wanted: by database, what the account needs on it."""
    found = _lacking(connection, grants.read(connection), wanted)
    told = f"{connection.name}: the user may do what is needed in {', '.join(sorted(wanted))}"
    return found or [Result("grants", connection.name, Verdict.PASS, told)]


def _lacking(connection: Connection, held: Grants, wanted: Mapping[str, Sequence[str]]) -> list[Result]:
    results = []
    for database in sorted(wanted):
        missing = held.lacking(database, wanted[database])
        if not missing:
            continue
        told = f"{connection.name}: {held.account} lacks {', '.join(missing)} on database {database}"
        verdict = Verdict.PROBLEM
        if held.unclear(database):
            told, verdict = (
                f"{told}, unless single grants or revokes, which are not looked at, say otherwise",
                Verdict.NOTE,
            )
        name = database.replace("`", "``").replace("_", "\\_").replace("%", "\\%")
        mend = f"GRANT {', '.join(missing)} ON `{name}`.* TO {held.account}"
        results.append(Result("grants", f"{connection.name}, {database}", verdict, told, mend))
    return results
