"""Times as people and programs read them: the servers keep UTC without saying so."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(when: datetime, timespec: str = "auto") -> str:
    """A time of a server's session, which is in UTC, as ISO 8601 with its offset."""
    return when.replace(tzinfo=UTC).isoformat(timespec=timespec)
