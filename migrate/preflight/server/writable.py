"""Settings of a target's or the state's server that would stop every write of the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrate.mysql import grants
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.preflight.result import Result, Verdict

_FOR_GOOD = "in the server's option file too"


def check(connection: Connection) -> list[Result]:
    """One problem for each such setting, or one result that passes. Raises pymysql.MySQLError."""
    names = ("log_bin", "binlog_format", "read_only", "super_read_only")
    stops = [
        Result("writable", connection.name, Verdict.PROBLEM, f"{connection.name}: {told}", f"{mend}; {_FOR_GOOD}")
        for told, mend in _stops(connection, show_variables(connection, *names))
    ]
    passes = f"{connection.name}: no setting stops writes"
    return stops or [Result("writable", connection.name, Verdict.PASS, passes)]


def _stops(connection: Connection, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What stops writes, and the statement that mends it."""
    if settings.get("log_bin") == "ON" and settings.get("binlog_format") == "STATEMENT":
        told = "binlog_format is STATEMENT, which refuses writes at READ COMMITTED, as the service's are"
        yield told, "SET GLOBAL binlog_format = 'ROW'"
    if _on(settings, "super_read_only"):
        yield "super_read_only is ON: nobody can write", "SET GLOBAL super_read_only = OFF, read_only = OFF"
    elif _on(settings, "read_only"):
        right = WRITES_WHEN_READ_ONLY[connection.flavour]
        if grants.read(connection).lacking_everywhere([right]):
            yield (
                f"read_only is ON, and the account lacks {right}, which would let it write",
                "SET GLOBAL read_only = OFF",
            )


def _on(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "OFF").upper() not in ("OFF", "0")
