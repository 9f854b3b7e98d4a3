"""Runs `migrate`, and kills it with SIGKILL before or after the n-th call of a named function of it.

`python -m tests.flow.launcher before migrate.publish.publisher:Publisher._save 2 publish`. The function is wrapped
from outside; the product knows nothing of it (FAULTS, "The oracle", 5).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any


def kill_at(when: str, where: str, number: int) -> None:
    """Wrap the function `module:Class.name`. Raises AttributeError when there is none."""
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    real = getattr(owner, name)
    left = number

    def wrapped(*args: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **more)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    moment, function, count, *arguments = sys.argv[1:]
    kill_at(moment, function, int(count))
    from migrate.cli import main

    main(arguments)
