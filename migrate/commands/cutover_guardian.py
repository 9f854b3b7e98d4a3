"""The guardian of a cutover: a process that outlives it, and ends what it left open, as when it was killed.

`python -m migrate.commands.cutover_guardian CONFIG [SERVER …]` waits for its standard input to end, which its parent
holds. A word there says within how many seconds a freeze is to be over (`migrate.cutover.freeze_deadline`): a parent
that then says nothing is killed. The servers named are gone for good.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

import structlog

from migrate.commands import cutover_run
from migrate.cutover.freeze_deadline import RUN, UNTIL
from migrate.model.errors import MigrateError
from migrate.processes import logs
from migrate.settings import Settings, load
from migrate.state import database
from migrate.terminal import printable

log = structlog.get_logger("migrate.cutover")
_PATIENCE = 600.0  # seconds that servers may be away
_AGAIN = 1.0


def watch(settings: Settings, without: Collection[str] = ()) -> None:
    """Wait for the parent to end; if that left a run open, end that. Raises MigrateError when it cannot for long.

    without: servers that its run goes without.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    number = _await_end(os.getppid())
    if number is None:
        return
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with database.opened(settings.state) as state:
                cutover_run.end_if_open(settings, state, number, lambda line: log.warning(line), without)
            return
        except MigrateError as error:
            log.error("cleaning up after the cutover failed, it is tried again", reason=error.message)
            if time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN)


def _await_end(parent: int) -> int | None:
    """Wait for the parent to end; kill it when its freeze has had its time. Returns its run, if it began one."""
    pipe = sys.stdin.fileno()
    number: int | None = None
    ends: float | None = None
    while True:
        seconds = None if ends is None else max(0.0, ends - time.monotonic())
        if not select.select([pipe], [], [], seconds)[0]:
            ends = None
            if os.getppid() == parent:
                log.error("the freeze deadline passed and the cutover does not respond: it is killed", process=parent)
                os.kill(parent, signal.SIGKILL)
            continue
        if not (said := os.read(pipe, 4096)):
            return number
        for line in said.decode().splitlines():
            word, _, value = line.partition(" ")
            if word == RUN:
                number = int(value)
            else:
                ends = time.monotonic() + float(value) if word == UNTIL else None


def main(config: str, *without: str) -> int:
    settings = load(Path(config))
    logs.configure(settings.logging, "guardian")
    try:
        watch(settings, without)
    except MigrateError as error:
        sys.stderr.write(printable(f"migrate: {error.message}\n"))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
