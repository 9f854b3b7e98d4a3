"""sql_mode: the service's sessions set their own; what the servers' is matters to applications after the switch."""

from __future__ import annotations

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict


def of(connection: Connection) -> frozenset[str]:
    """The modes of new sessions at the server."""
    return frozenset(filter(None, show_variables(connection, "sql_mode").get("sql_mode", "").split(",")))


def check_target(connection: Connection, sources: frozenset[str]) -> list[Result]:
    """sources: the modes of the sources. A note where applications would meet others at the target."""
    here = of(connection)
    if here == sources:
        return [Result("sql_mode", connection.name, Verdict.PASS, f"{connection.name}: sql_mode is as at the source")]
    more, less = sorted(here - sources), sorted(sources - here)
    parts = [
        f"{', '.join(names)} only at {where}" for names, where in ((more, "the target"), (less, "the source")) if names
    ]
    message = f"{connection.name}: sql_mode differs, which applications meet after the switch: {'; '.join(parts)}"
    mend = f"SET GLOBAL sql_mode = '{','.join(sorted(sources))}', for good, if they rely on it"
    return [Result("sql_mode", connection.name, Verdict.NOTE, message, mend)]
