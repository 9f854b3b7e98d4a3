"""The guardian of a cutover: a process that outlives it, and ends what it left open, as when it was killed.

`python -m migrate.ops.guardian CONFIG` waits for its standard input to end, which its parent holds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import structlog

from migrate.model.errors import MigrateError
from migrate.ops import logs, switching
from migrate.settings import Settings, load
from migrate.state import database

log = structlog.get_logger("migrate.cutover")
_PATIENCE = 600.0  # seconds that servers may be away
_AGAIN = 1.0


def watch(settings: Settings) -> None:
    """Wait for the parent to end; if that left a run open, end that. Raises MigrateError when it cannot for long."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with database.opened(settings.state) as state:
                last = switching.latest(settings, state)
                if last is not None and last.open:
                    log.warning(
                        "a cutover ended early, what it left open is ended", run=last.number, outcome=last.outcome
                    )
                    switching.end(settings, state, last, lambda line: log.warning(line))
            return
        except MigrateError as error:
            log.error("what it left could not be ended yet", reason=error.message)
            if time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN)


def main(config: str) -> int:
    settings = load(Path(config))
    logs.configure(settings.logging, "guardian")
    try:
        watch(settings)
    except MigrateError as error:
        sys.stderr.write(f"migrate: {error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
