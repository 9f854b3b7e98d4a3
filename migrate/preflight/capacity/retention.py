"""How long the source keeps its binlog, and Kafka its messages, against the time that a copy may take."""

from __future__ import annotations

import math
from collections.abc import Mapping

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.capacity.volume import BYTES_PER_SECOND, ROWS_PER_SECOND, Volume
from migrate.preflight.result import Result, Verdict

_DAY = 86_400.0
_BY_SECOND = "binlog_expire_logs_seconds"
_LEAST = 2 * _DAY
"""A publisher that is down over a weekend should find its place again."""


def kept_seconds(connection: Connection) -> float:
    """How long the server keeps its binlog; 0 where until somebody purges it."""
    return _kept(_variables(connection))


def _variables(connection: Connection) -> dict[str, str]:
    return show_variables(connection, _BY_SECOND, "expire_logs_days")


def _kept(found: Mapping[str, str]) -> float:
    return float(found.get(_BY_SECOND, 0)) or float(found.get("expire_logs_days", 0)) * _DAY


def check(connection: Connection, volume: Volume) -> list[Result]:
    """volume: of the tables of this source that are to be copied yet."""
    found = _variables(connection)
    by_second, kept = _BY_SECOND in found, _kept(found)  # MariaDB: from 10.6 on
    copy = _copy(volume)
    if not kept:
        told = f"{connection.name}: the binlog is kept until it is purged; {copy}"
        return [Result("retention", connection.name, Verdict.PASS, told)]
    told = f"{connection.name}: the binlog is kept for {_told(kept)}; {copy}"
    wanted = max(_LEAST, 2 * volume.copy_seconds)
    if kept >= wanted:
        return [Result("retention", connection.name, Verdict.PASS, told)]
    name, value = (_BY_SECOND, wanted) if by_second else ("expire_logs_days", math.ceil(wanted / _DAY))
    mend = f"SET GLOBAL {name} = {value:.0f}, until the migration is finished"
    # A publisher reads all along: it is one that was down for longer whose place is gone.
    verdict = Verdict.PROBLEM if kept < volume.copy_seconds else Verdict.NOTE
    return [
        Result(
            "retention", connection.name, verdict, f"{told}; a publisher that is down for longer loses its place", mend
        )
    ]


def _copy(volume: Volume) -> str:
    if volume == Volume():
        return "nothing is known that is to be copied"
    seconds = volume.copy_seconds
    rate = f"{ROWS_PER_SECOND:,} rows/s"
    if seconds > volume.rows / ROWS_PER_SECOND:
        rate = f"{BYTES_PER_SECOND // 10**6} MB/s"
    gib = f"{volume.bytes / 1024**3:,.1f} GiB"
    return f"a copy of about {volume.rows:,} rows ({gib}) takes {_told(seconds)} at {rate}"


def check_kafka(hours: int, volume: Volume) -> list[Result]:
    """hours: kafka.retention_hours, with which init makes the topics."""
    told = f"Kafka keeps messages for {_told(hours * 3600.0)}"
    if hours * 3600.0 >= max(_DAY, 2 * volume.copy_seconds):
        return [Result("retention", "kafka", Verdict.PASS, told)]
    mend = f"kafka.retention_hours: {max(24, round(2 * volume.copy_seconds / 3600) + 1)}"
    message = f"{told}: a consumer that is down for longer loses messages"
    return [Result("retention", "kafka", Verdict.NOTE, message, mend)]


def _told(seconds: float) -> str:
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.0f} days"
    return f"{seconds / 3600:.0f} hours" if seconds >= 7200 else f"{max(1, round(seconds / 60))} min"
