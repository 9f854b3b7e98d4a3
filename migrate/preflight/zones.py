"""Time zones: the service's sessions use UTC; what the servers' is matters to applications after the switch."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

_SEASONS = (1736942400, 1752580800)
"""Seconds since 1970 of noon UTC on 2025-01-15 and 2025-07-15: zones that agree on both read times alike."""


@dataclass(frozen=True, slots=True)
class Zone:
    name: str  # as `time_zone` takes it, or the machine's own name for it
    reads: tuple[str, ...]  # what a server in it makes of the seasons


def of(connection: Connection) -> Zone:
    """The zone of new sessions at the server."""
    variables = show_variables(connection, "time_zone", "system_time_zone")
    name = variables.get("time_zone", "")
    connection.execute("SET time_zone = @@GLOBAL.time_zone")
    try:
        reads = tuple(str(row[0]) for at in _SEASONS for row in connection.query(f"SELECT FROM_UNIXTIME({at})"))
    finally:
        connection.execute("SET time_zone = '+00:00'")
    return Zone(variables.get("system_time_zone", "") if name == "SYSTEM" else name, reads)


def check_target(connection: Connection, sources: frozenset[Zone]) -> list[Result]:
    """sources: the zones of the sources. A note where applications would read and write other times at the target."""
    here = of(connection)
    others = sorted({zone.name for zone in sources if zone.reads != here.reads})
    told = f"{connection.name}: time zone {here.name}"
    if not others:
        return [Result("time zone", connection.name, Verdict.PASS, f"{told}, as at the source")]
    message = (
        f"{told}, and {', '.join(others)} at the source: unless they set their own, applications meet another NOW()"
        " after the switch, and TIMESTAMP columns read otherwise"
    )
    mend = f"SET GLOBAL time_zone = '{others[0]}', for good, if they rely on it"
    return [Result("time zone", connection.name, Verdict.NOTE, message, mend)]
