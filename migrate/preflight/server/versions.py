"""The servers' versions: those that are tested here, and those too old to be read or written rightly."""

from __future__ import annotations

import re

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

LEAST = {"mysql": (8, 0), "mariadb": (10, 5)}
"""Older ones lack what is needed: window functions, CHECK constraints by name."""

LEAST_SOURCE = {"mysql": (8, 2), "mariadb": (10, 5)}
"""Older ones have no SHOW BINARY LOG STATUS, or no full row metadata in the binlog."""

TESTED = {"mysql": (9, 7), "mariadb": (10, 11)}


def reported(connection: Connection) -> str:
    """What the server says of its version, e.g. 10.11.6-MariaDB-log."""
    row = connection.one("SELECT VERSION()")
    return str(row[0] if row else "")


def check(connection: Connection, version: str, *, source: bool = False) -> list[Result]:
    """version: as `reported`; source: whether its binlog is read."""
    least, tested = (LEAST_SOURCE if source else LEAST)[connection.flavour], TESTED[connection.flavour]
    numbers = _numbers(version)
    told = f"{connection.name}: {connection.flavour} {version}"
    if numbers < least:
        mend = f"{connection.flavour} {'.'.join(map(str, least))} or later is needed"
        return [Result("version", connection.name, Verdict.PROBLEM, f"{told} is too old", mend)]
    if numbers != tested:
        words = f"{told}; the service is tested with {'.'.join(map(str, tested))}: rehearse with a copy of your tables"
        return [Result("version", connection.name, Verdict.NOTE, words)]
    return [Result("version", connection.name, Verdict.PASS, told)]


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor. Some MariaDB servers say 5.5.5- before their own version, for old clients."""
    found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else (0, 0)
