"""Time zones: the service's sessions use UTC; what the servers' is matters to applications after the switch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

_SEASONS = (1736942400, 1752580800)
"""Seconds since 1970 of noon UTC on 2025-01-15 and 2025-07-15: zones that agree on both read times alike."""


@dataclass(frozen=True, slots=True)
class Zone:
    name: str  # as `time_zone` takes it, or the machine's own name for it
    reads: tuple[str, ...]  # what a server in it makes of the seasons
    of_machine: bool = False  # `time_zone` is SYSTEM, whose abbreviation no server takes

    @property
    def value(self) -> str:
        """What another server's `time_zone` takes for it; "" where nothing does that tells its summer time."""
        if not self.of_machine:
            return self.name
        offsets = {_offset(local, at) for local, at in zip(self.reads, _SEASONS, strict=True)}
        return offsets.pop() if len(offsets) == 1 else ""

    @property
    def mend(self) -> str:
        if not self.value:
            return (
                "if they rely on it, set time_zone to the full name (as Europe/Berlin) of the zone that the source's"
                f" machine calls {self.name}, once mysql_tzinfo_to_sql has loaded the zones there"
            )
        named = "" if self.value[0] in "+-" else ", where mysql_tzinfo_to_sql has loaded the zones"
        return f"SET GLOBAL time_zone = '{self.value}', for good, if they rely on it{named}"


def _offset(local: str, at: int) -> str:
    """Of a local time that a server read for seconds since 1970, as `time_zone` takes it."""
    minutes = round((datetime.fromisoformat(local).replace(tzinfo=UTC).timestamp() - at) / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def of(connection: Connection) -> Zone:
    """The zone of new sessions at the server."""
    variables = show_variables(connection, "time_zone", "system_time_zone")
    name = variables.get("time_zone", "")
    connection.execute("SET time_zone = @@GLOBAL.time_zone")
    try:
        reads = tuple(str(row[0]) for at in _SEASONS for row in connection.query(f"SELECT FROM_UNIXTIME({at})"))
    finally:
        connection.execute("SET time_zone = '+00:00'")
    if name == "SYSTEM":
        return Zone(variables.get("system_time_zone", ""), reads, of_machine=True)
    return Zone(name, reads)


def check_target(connection: Connection, sources: frozenset[Zone]) -> list[Result]:
    """sources: the zones of the sources. A note where applications would read and write other times at the target."""
    here = of(connection)
    others = sorted((zone for zone in sources if zone.reads != here.reads), key=lambda zone: zone.name)
    told = f"{connection.name}: time zone {here.name}"
    if not others:
        return [Result("time zone", connection.name, Verdict.PASS, f"{told}, as at the source")]
    names = ", ".join(dict.fromkeys(zone.name for zone in others))
    message = (
        f"{told}, and {names} at the source: unless they set their own, applications meet another NOW()"
        " after the switch, and TIMESTAMP columns read otherwise"
    )
    return [Result("time zone", connection.name, Verdict.NOTE, message, others[0].mend)]
