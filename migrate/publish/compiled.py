"""Whether the modules that run for each event are plain Python or C; they do the same either way (decision 0015)."""

from __future__ import annotations

from importlib.util import find_spec


def compiled() -> bool:
    """Whether this installation was built with MIGRATE_COMPILE=1 (setup.py)."""
    reader = find_spec("migrate.publish.reader")
    return reader is not None and not str(reader.origin).endswith(".py")
