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


def check(connection: Connection, reported: str, *, source: bool = False) -> list[Result]:
    """reported: what the server says of its version, e.g. 10.11.6-MariaDB-log; source: whether its binlog is read."""
    least, tested = (LEAST_SOURCE if source else LEAST)[connection.flavour], TESTED[connection.flavour]
    version = _numbers(reported)
    told = f"{connection.name}: {connection.flavour} {reported}"
    if version < least:
        mend = f"{connection.flavour} {'.'.join(map(str, least))} or later is needed"
        return [Result("version", connection.name, Verdict.PROBLEM, f"{told} is too old", mend)]
    if version != tested:
        words = f"{told}; the service is tested with {'.'.join(map(str, tested))}: rehearse with a copy of your tables"
        return [Result("version", connection.name, Verdict.NOTE, words)]
    return [Result("version", connection.name, Verdict.PASS, told)]


def _numbers(reported: str) -> tuple[int, ...]:
    """Major and minor. Some MariaDB servers say 5.5.5- before their own version, for old clients."""
    found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", reported)
    return tuple(map(int, found.groups())) if found else (0, 0)
