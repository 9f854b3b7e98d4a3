"""One migration under the demo's or a test's hand: the commands a person would type, and the processes they start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox import snippet
from sandbox.errors import SandboxError
from sandbox.polling import polled
from sandbox.process import Child
from sandbox.stack import Sandbox
from sandbox.state import private_file

PROCESSES = ("publish", "consume", "commit", "requeue")


def _told(output: str) -> str:
    """The end of what a command printed, in a line: a report's summary shows no more."""
    return " ".join(output.split())[-2000:]


class Migration:
    """Runs `migrate` commands with one config file, and its supervisor in the background."""

    def __init__(self, box: Sandbox, directory: Path, config: str, name: str = "migrate.yaml") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.config = directory / name
        private_file(self.config, config)
        self.environment = {**os.environ, **snippet.environment(box)}
        self._supervisor = self.child("migrate run", directory / "run.log")
        self._reverse = self.child("migrate --reverse run", directory / "reverse.log")

    @staticmethod
    def child(name: str, log: Path) -> Child:
        """A process that runs beside its commands, not started yet."""
        return Child(name, log, Path.cwd())

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "migrate", "--config", str(self.config), *arguments]

    def run(self, *arguments: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
        """One command to its end; its progress goes to our standard error."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ask(self, *arguments: str, timeout: float = 900.0, accept: tuple[int, ...] = (0,)) -> Any:
        """A command's JSON answer. Raises SandboxError when it ends with another exit code than `accept`."""
        done = self.run(*arguments, "--json", timeout=timeout)
        if done.returncode not in accept or not done.stdout:
            raise SandboxError(f"migrate {' '.join(arguments)} ended with {done.returncode}: {_told(done.stdout)}")
        return json.loads(done.stdout)

    def do(self, *arguments: str, timeout: float = 900.0) -> str:
        """A command that must succeed; returns what it printed."""
        done = self.run(*arguments, timeout=timeout)
        if done.returncode:
            raise SandboxError(f"migrate {' '.join(arguments)} ended with {done.returncode}: {_told(done.stdout)}")
        return done.stdout

    # -- the supervised processes

    def start(self) -> None:
        """`migrate run` in the background; returns once the publisher has stored where it starts."""
        self._supervisor.start(self.command("run"), self.environment)
        self.wait(self._publishing, 300.0, "the publisher to start")

    def start_reverse(self) -> None:
        """`migrate --reverse run` in the background."""
        self._reverse.start(self.command("--reverse", "run"), self.environment)

    def check_reverse(self) -> None:
        """Raises SandboxError where what `start_reverse` started has ended."""
        if not self._reverse.running:
            raise SandboxError(f"`migrate --reverse run` has ended; see {self._reverse.log}")

    def _publishing(self) -> bool:
        if not self._supervisor.running:
            raise SandboxError(f"`migrate run` has ended; see {self._supervisor.log} and {self.directory / 'logs'}")
        return all(source["published"] for source in self.ask("status")["sources"])

    def stop(self) -> None:
        """SIGTERM, and wait: nothing may be left running."""
        self.stop_reverse()
        self._supervisor.stop(60.0)

    def stop_reverse(self) -> None:
        self._reverse.stop(60.0)

    def pid(self, process: str) -> int | None:
        """The process id of one stage ("publish", "consume", "commit", "requeue"), None while it is down."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(self.config).encode() in words and process.encode() in words:
                    return int(entry.name)
        return None

    def kill(self, process: str) -> int:
        """SIGKILL one stage once it runs; returns the process id that was killed."""
        pid = self.wait(lambda: self.pid(process), 30.0, f"{process} to run")
        os.kill(pid, signal.SIGKILL)
        return int(pid)

    @staticmethod
    def wait(condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """Poll until the condition gives something true. Raises SandboxError when it does not in time."""
        if not (found := polled(condition, seconds, 0.1)):
            raise SandboxError(f"waited {seconds:.0f} s for {what} in vain")
        return found
