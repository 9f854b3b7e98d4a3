"""Settings of a target's or the state's server that would stop every write of the service."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from migrate.mysql import grants
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.mysql.quoting import printed as quote
from migrate.preflight.result import Result, Verdict

_FOR_GOOD = "in the server's option file too"


def check(connection: Connection, databases: Collection[str] = ()) -> list[Result]:
    """One problem for each such setting, and each of these databases that is read-only, or one result that passes.
    Raises pymysql.MySQLError."""
    names = ("log_bin", "binlog_format", "read_only", "super_read_only")
    stops = [
        Result("writable", connection.name, Verdict.PROBLEM, f"{connection.name}: {told}", f"{mend}; {_FOR_GOOD}")
        for told, mend in _stops(connection, show_variables(connection, *names))
    ]
    stops += _read_only(connection, databases)
    passes = f"{connection.name}: no setting stops writes"
    return stops or [Result("writable", connection.name, Verdict.PASS, passes)]


def _read_only(connection: Connection, names: Collection[str]) -> list[Result]:
    if not names or not can(connection, Capability.READ_ONLY_DATABASES):
        return []
    marks = ", ".join(["%s"] * len(names))
    rows = connection.query(
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA_EXTENSIONS"
        f" WHERE OPTIONS LIKE '%%READ ONLY=1%%' AND SCHEMA_NAME IN ({marks})",
        sorted(names),
    )
    return [
        Result(
            "writable",
            str(name),
            Verdict.PROBLEM,
            f"{connection.name}: database {name} is read-only: nobody can write there",
            f"ALTER DATABASE {quote(str(name))} READ ONLY = 0",
        )
        for (name,) in rows
    ]


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
