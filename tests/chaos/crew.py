"""The processes of a chaos run: two of each, started again when they end, killed and frozen by the harness."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from sandbox.demo.migration import Migration
from tests.forked import Child

PROCESSES = {
    "publish": ("publish", "--source", "main"),
    "consume": ("consume",),
    "commit": ("commit",),
    "requeue": ("requeue",),
    "check": ("check",),
}
PASSES = {4: "a server did not answer", 6: "another process took over"}
"""Documented exit codes after which a supervisor starts a process again; any other end by itself is a failure."""
Say = Callable[[str], None]


class Failure(Exception):  # noqa: N818 - it is an outcome
    """What a chaos run must not see."""


class Actor:
    """One process. `ends`: it has an end of its own, as a copy has."""

    def __init__(self, name: str, arguments: tuple[str, ...], migration: Migration, ends: bool = False) -> None:
        self.name = name
        self.ends = ends
        self.done = False
        self.frozen = False
        self._arguments = arguments
        self._migration = migration
        self._asked = False  # we ended it
        self._due = 0.0
        self._from = 0  # where its log begins in the file
        directory = migration.directory / "logs"
        directory.mkdir(exist_ok=True)
        self._child = Child(f"migrate {name}", directory / f"{name}.log", Path.cwd())

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def working(self) -> bool:
        """Whether it runs and has said that it started; on a busy machine that takes its time."""
        if not self.running:
            return False
        with self._child.log.open("rb") as log:
            log.seek(self._from)
            return b"started" in log.read(65536)

    def start(self) -> None:
        self._asked = False
        self._from = self._child.log.stat().st_size if self._child.log.exists() else 0
        self._child.start(self._migration.command(*self._arguments), self._migration.environment)

    def signal(self, number: signal.Signals) -> None:
        self._child.signal(number)

    def kill(self, pause: float) -> None:
        """SIGKILL; started again by `tend`, after `pause` seconds."""
        self._asked, self.frozen = True, False
        self._child.kill()
        self._due = time.monotonic() + pause

    def ask_to_stop(self) -> None:
        self._asked = True
        self._child.signal(signal.SIGTERM)

    def tend(self, say: Say) -> None:
        """Start it again when it is down. Raises Failure when it ended in a way that is not documented."""
        if self.running or self.done or time.monotonic() < self._due:
            return
        code = self._child.returncode
        if self._asked:
            if code not in (0, -signal.SIGKILL, -signal.SIGTERM, *PASSES):
                raise Failure(f"{self.name} ended with {code} after a signal; {self._child.log_tail()}")
        elif self.ends and code == 0:
            self.done = True
            say(f"{self.name} is done")
            return
        elif code in PASSES:
            say(f"{self.name} ended with {code}: {PASSES[code]}")
        elif code is not None:
            raise Failure(f"{self.name} ended by itself with {code}; {self._child.log_tail()}")
        self.start()

    def close(self) -> None:
        self._child.kill()


class Crew:
    """All of them."""

    def __init__(self, migration: Migration, choice: Random, say: Say) -> None:
        self._migration = migration
        self._choice = choice
        self._say = say
        self.actors: list[Actor] = []
        self.kills: Counter[str] = Counter()  # by process

    def start(self, processes: Mapping[str, tuple[str, ...]]) -> None:
        """Two of each."""
        new = [
            Actor(f"{name}-{number}", arguments, self._migration)
            for name, arguments in processes.items()
            for number in (1, 2)
        ]
        self.actors += new
        self.tend()

    def add(self, name: str, *arguments: str) -> Actor:
        """One more, that ends by itself."""
        actor = Actor(name, arguments, self._migration, ends=True)
        self.actors.append(actor)
        return actor

    def tend(self) -> None:
        for actor in self.actors:
            actor.tend(self._say)

    def kill(self, actor: Actor) -> None:
        """SIGKILL, counted when it ran."""
        if not actor.running:
            return
        self.kills[actor.name] += 1
        frozen = ", frozen" if actor.frozen else ""
        self._say(f"kill {sum(self.kills.values())}: {actor.name} (pid {actor.pid}{frozen})")
        actor.kill(self._choice.choice((0, 0, self._choice.uniform(0, 2))))

    def freeze(self, actor: Actor) -> None:
        actor.frozen = True
        actor.signal(signal.SIGSTOP)

    def thaw(self, actor: Actor) -> None:
        actor.frozen = False
        actor.signal(signal.SIGCONT)

    def close(self) -> None:
        for actor in self.actors:
            actor.close()
