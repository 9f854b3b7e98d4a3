"""Clocks. Nothing is ordered by them here; lag is told by them, and logs are read side by side."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

_NOTED = 1.0
_WRONG = 60.0


def check(connection: Connection) -> list[Result]:
    """How far the server's clock is from this machine's."""
    before = time.time()
    row = connection.one("SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)")
    after = time.time()
    server = datetime.fromisoformat(str(row[0] if row else "")).replace(tzinfo=UTC).timestamp()
    apart = max(before - server, server - after, 0.0)  # within the round trip nothing is known
    if apart < _NOTED:
        return [Result("clock", connection.name, Verdict.PASS, f"{connection.name}: its clock is as this machine's")]
    verdict = Verdict.PROBLEM if apart >= _WRONG else Verdict.NOTE
    message = f"{connection.name}: its clock is {apart:.0f} s from this machine's: the lag shown is wrong by as much"
    return [Result("clock", connection.name, verdict, message, "have both follow NTP")]
