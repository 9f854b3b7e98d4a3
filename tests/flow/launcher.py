"""Runs `migrate`, and kills it with SIGKILL before or after the n-th call of a named function of it.

`python -m tests.flow.launcher before migrate.publish.publisher:Publisher._save 2 publish`. The function is wrapped
from outside; the product knows nothing of it (FAULTS, "The oracle", 5).
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.demo.migration import Migration


def run_killed(migration: Migration, when: str, where: str, call: int, *arguments: str) -> None:
    """Run one `migrate` process of a migration that is killed there; fails when it is not."""
    launcher = [sys.executable, "-m", "tests.flow.launcher", when, where, str(call)]
    done = subprocess.run(
        [*launcher, "--config", str(migration.config), *arguments],
        env=migration.environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (when, where, call)


def kill_at(when: str, where: str, number: int) -> None:
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
        result = real(*args, **more)
        if chosen:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    moment, function, count, *arguments = sys.argv[1:]
    kill_at(moment, function, int(count))
    from migrate.cli import main

    main(arguments)
