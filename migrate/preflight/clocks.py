"""Clocks and time zones. Nothing is ordered by a clock here; lag is told by it, and logs are read side by side."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

_NOTED = 1.0
_WRONG = 60.0


def check(connection: Connection) -> list[Result]:
    """How far the server's clock is from this machine's, and its time zone."""
    before = time.time()
    row = connection.one("SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)")
    after = time.time()
    server = datetime.fromisoformat(str(row[0] if row else "")).replace(tzinfo=UTC).timestamp()
    apart = max(before - server, server - after, 0.0)  # within the round trip nothing is known
    zones = show_variables(connection, "time_zone", "system_time_zone")
    zone = zones.get("time_zone", "")
    zone = zones.get("system_time_zone", "") if zone == "SYSTEM" else zone
    told = f"{connection.name}: time zone {zone}, sessions of the service use UTC"
    if apart < _NOTED:
        return [Result("clock", connection.name, Verdict.PASS, f"{told}; its clock is as this machine's")]
    verdict = Verdict.PROBLEM if apart >= _WRONG else Verdict.NOTE
    message = f"{told}; its clock is {apart:.0f} s from this machine's: lag is told wrong by as much"
    return [Result("clock", connection.name, verdict, message, "have both follow NTP")]
