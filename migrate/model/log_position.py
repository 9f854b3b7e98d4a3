"""A place in a source's history as a person writes it: file and position, GTID set, or time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime

_FILE = re.compile(r"([^:,/\s]+\.[0-9]{6,}):([0-9]+)")
_GTID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}:[0-9A-Za-z_:,\s-]+|[0-9]+-[0-9]+-[0-9]+(\s*,\s*[0-9]+-[0-9]+-[0-9]+)*"
)
_DATE = re.compile(r"(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]")
"""Taken for a day, though it could be a GTID of MariaDB."""
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Place:
    """Exactly one of the three is set."""

    file: str = ""
    pos: int = 0
    gtid_set: str = ""
    time: int = 0  # seconds since 1970

    def __str__(self) -> str:
        if self.file:
            return f"{self.file}:{self.pos}"
        return self.gtid_set or f"time {self.time}"


def parse_place(text: str) -> Place:
    """`binlog.000012:4711`, a GTID set of MySQL or MariaDB, or a time with its offset. Raises ValueError."""
    written = text.strip()
    if match := _FILE.fullmatch(written):
        return Place(file=match[1], pos=int(match[2]))
    if _GTID.fullmatch(written) and not _DATE.fullmatch(written):
        return Place(gtid_set="".join(written.split()))
    try:
        when = datetime.fromisoformat(written)
    except ValueError:
        when = None
    if when is None:
        raise ValueError(
            "is no place in a binlog; write binlog.000012:4711, a GTID set, or a time such as 2026-01-31T12:00:00Z"
        )
    if when.tzinfo is None:
        raise ValueError("a time needs its offset from UTC: 2026-01-31T12:00:00Z, or …+02:00")
    if when.timestamp() > time.time() + _DAY:  # the clock at the source may be ahead of ours
        raise ValueError("lies in the future")
    return Place(time=int(when.timestamp()))
