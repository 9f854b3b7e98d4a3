"""Runs `migrate`, and kills or holds it before or after the n-th call of a named function of it.

`python -m tests.flow.launcher before migrate.publish.publisher:Publisher._save 2 publish` ends it with SIGKILL there;
with `hold` the calling thread makes the file that HELD_AT names and waits until it is gone, before the call. The
function is wrapped from outside; the product knows nothing of it (FAULTS, "The oracle", 5).
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.demo.migration import Migration


def run_killed(migration: Migration, when: str, where: str, call: int, *arguments: str) -> None:
    """Run one `migrate` process of a migration that is killed there; fails when it is not."""
    done = subprocess.run(
        command(migration, when, where, call, *arguments),
        env=migration.environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (when, where, call)


def command(migration: Migration, when: str, where: str, call: int, *arguments: str) -> list[str]:
    """The command line of a process that is killed or held there."""
    launcher = [sys.executable, "-m", "tests.flow.launcher", when, where, str(call)]
    return [*launcher, "--config", str(migration.config), *arguments]


def _hold(file: Path) -> None:
    file.touch()
    while file.exists():
        time.sleep(0.02)


def stop_at(when: str, where: str, number: int) -> None:
    """Wrap the function `module:Class.name`. Raises AttributeError when there is none."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    real = getattr(owner, name)
    calls = itertools.count(1)  # its next() is one step, whichever threads call

    def wrapped(*args: Any, **more: Any) -> Any:
        chosen = next(calls) == number
        if chosen and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if chosen and when == "hold":
            _hold(Path(os.environ["HELD_AT"]))
        result = real(*args, **more)
        if chosen and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    moment, function, count, *arguments = sys.argv[1:]
    stop_at(moment, function, int(count))
    from migrate.cli import main

    main(arguments)
