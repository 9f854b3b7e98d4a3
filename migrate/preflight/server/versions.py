"""The servers' versions: those that are tested here, and those too old to be read or written rightly."""

from __future__ import annotations

import re

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

LEAST = {"mysql": (8, 0), "mariadb": (10, 5)}
"""Older ones lack what is needed of a target: window functions, CHECK constraints by name."""

LEAST_WAY_BACK = {"mysql": (5, 6), "mariadb": (10, 5)}
"""Of a source that the reverse stream writes to: its tables are there, and the service keeps no state there."""

LEAST_SOURCE = {"mysql": (5, 6), "mariadb": (10, 5)}
"""Older ones have no checksums of events, no fractions of seconds and no GTIDs (MySQL), or other row events."""

TESTED = {"mysql": ((9, 7),), "mariadb": ((10, 11), (11, 8))}
TESTED_SOURCE = {"mysql": ((5, 6), (9, 7)), "mariadb": ((10, 5), (10, 11), (11, 4), (11, 8))}
"""docs/servers.md has the pairs; what lies between is supported by the manual."""


def reported(connection: Connection) -> str:
    """What the server says of its version, e.g. 10.11.6-MariaDB-log."""
    row = connection.one("SELECT VERSION()")
    return str(row[0] if row else "")


def check(connection: Connection, version: str, *, source: bool = False, back: bool = False) -> list[Result]:
    """version: as `reported`; source: whether its binlog is read; back: whether the reverse stream writes to it."""
    least = (LEAST_SOURCE if source else LEAST_WAY_BACK if back else LEAST)[connection.flavour]
    tested = (TESTED_SOURCE if source or back else TESTED)[connection.flavour]
    numbers = _numbers(version)
    told = f"{connection.name}: {connection.flavour} {version}"
    if numbers < least:
        mend = f"{connection.flavour} {_shown(least)} or later is needed"
        if numbers >= LEAST_SOURCE[connection.flavour]:
            mend += ": as a source it would do, as a target or for the state not"
        return [Result("version", connection.name, Verdict.PROBLEM, f"{told} is too old", mend)]
    if numbers not in tested:
        among = ", ".join(map(_shown, tested))
        words = f"{told} goes by its manual; tested are {among}: rehearse with a copy of your tables"
        return [Result("version", connection.name, Verdict.NOTE, words)]
    return [Result("version", connection.name, Verdict.PASS, told)]


def _shown(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor. Some MariaDB servers say 5.5.5- before their own version, for old clients."""
    found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else (0, 0)
