"""Servers that leave it to the page cache when their files come to the disk: Debian's libeatmydata.

A test's servers are killed, and never lose power, so they lose nothing by it. Each CREATE TABLE of MariaDB waits for
eight such writes else.
"""

import os
from pathlib import Path

WANTED = "SANDBOX_UNSYNCED"
"""In the environment: whether servers are started this way, where the library is installed."""


def library() -> Path | None:
    """None when it is not installed."""
    return next(Path("/usr/lib").glob("*/libeatmydata.so.1"), None)


def environment() -> dict[str, str] | None:
    """Environment of a server; None for our own."""
    found = library() if os.environ.get(WANTED) else None
    return {**os.environ, "LD_PRELOAD": str(found)} if found else None
