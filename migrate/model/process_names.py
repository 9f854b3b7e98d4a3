"""The processes of a migration by name: what the state calls them, and the lease that the working one of each holds."""

from __future__ import annotations

CONSUME = "consume"  # any number of them; each partition has a lease of its own
COMMIT = "commit"
CLEANUP = "cleanup"
REQUEUE = "requeue"
CHECK = "check"
CUTOVER = "cutover"
ALARMS = "alarms"
SINGLE = (COMMIT, CLEANUP, REQUEUE, CHECK)
"""Of which one works at a time, besides the publishers."""


def publisher(source: str) -> str:
    """Of the one that reads a source."""
    return f"publish:{source}"
