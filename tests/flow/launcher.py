"""Runs `migrate`, and kills or holds it before or after the n-th call of a named function of it.

`python -m tests.flow.launcher before migrate.state.record:insert_new 2 consume` ends it with SIGKILL there; with `hold`
the calling thread makes the file that HELD_AT names and waits until it is gone, before the call, with `hold-after`
behind it; several functions, with commas between, are each held once. `step:drain` instead of a function is a step of a
cutover's journal, from within: it is noted as begun, and not as done. What is wrapped is public, and wrapped from
outside; the product knows nothing of it.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.forked import Child
from tests.waiting import SLOW

if TYPE_CHECKING:
    from sandbox.demo.migration import Migration


def run_killed(migration: Migration, when: str, where: str, call: int, *arguments: str) -> None:
    """Run one `migrate` process of a migration that is killed there; fails when it is not."""
    with TemporaryDirectory() as directory:
        child = Child(f"migrate, killed {when} {where}", Path(directory, "log"), Path.cwd())
        child.start(command(migration, when, where, call, *arguments), migration.environment)
        assert child.wait(SLOW), (when, where, call, child.log_tail())
        assert child.returncode == -signal.SIGKILL, (when, where, call, child.log_tail())


def command(migration: Migration, when: str, where: str, call: int, *arguments: str) -> list[str]:
    """The command line of a process that is killed or held there."""
    launcher = [sys.executable, "-m", "tests.flow.launcher", when, where, str(call)]
    return [*launcher, "--config", str(migration.config), *arguments]


def _hold(file: Path) -> None:
    file.touch()
    while file.exists():
        time.sleep(0.02)


def stop_at(when: str, where: str, number: int) -> None:
    """Wrap the function `module:Class.name`, or the step `step:NAME`, or several. Raises AttributeError when there is
    none."""
    if "," in where:
        for one in where.split(","):
            stop_at(when, one, number)
        return
    module, _, path = where.partition(":")
    if module == "step":
        _stop_at_step(when, path, number)
        return
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    real = getattr(owner, name)
    calls = itertools.count(1)  # its next() is one step, whichever threads call

    def wrapped(*args: Any, **more: Any) -> Any:
        with _stopping(when, chosen=next(calls) == number):
            return real(*args, **more)

    setattr(owner, name, wrapped)


def _stop_at_step(when: str, step: str, number: int) -> None:
    from migrate.cutover.journal import Journal

    real = Journal.part
    calls = itertools.count(1)

    @contextmanager
    def part(self: Journal, name: str) -> Iterator[None]:
        with real(self, name), _stopping(when, chosen=name == step and next(calls) == number):
            yield

    Journal.part = part  # type: ignore[method-assign]


@contextmanager
def _stopping(when: str, *, chosen: bool) -> Iterator[None]:
    """Ends or holds the process before the block or behind it, if this is the call that was chosen."""
    if chosen and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    if chosen and when == "hold":
        _hold(Path(os.environ["HELD_AT"]))
    yield
    if chosen and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    if chosen and when == "hold-after":
        _hold(Path(os.environ["HELD_AT"]))


if __name__ == "__main__":
    moment, functions, count, *arguments = sys.argv[1:]
    stop_at(moment, functions, int(count))
    from migrate.cli.main import main

    main(arguments)
