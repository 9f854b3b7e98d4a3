"""`migrate` commands in processes that are forked off one that has imported everything: importing takes a second of
processor time, more than most commands do."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox import process
from sandbox.demo import migration
from sandbox.paths import PROJECT
from sandbox.process import Environment
from sandbox.stack import Sandbox


def run(line: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A command line, without the program's name, to its end. Raises subprocess.TimeoutExpired."""
    with TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        command = _context.Process(target=_command, args=(list(line), dict(environment), str(out), str(err)))
        command.start()
        command.join(seconds)
        if command.exitcode is None:
            command.kill()
            command.join()
            raise subprocess.TimeoutExpired(list(line), seconds, _text(out), _text(err))
        return subprocess.CompletedProcess(list(line), command.exitcode, _text(out), _text(err))


class Child(process.Child):
    """A `migrate` process that is forked; any other program, or one with libraries of its own, is started as ever."""

    def start(self, argv: Sequence[str], environment: Environment = None) -> None:
        if self.running or list(argv[:3]) != _MIGRATE or "LD_PRELOAD" in (environment or {}):
            super().start(argv, environment)
            return
        self.log.touch()  # somebody may read it at once
        log = str(self.log)
        self._began(_Forked(list(argv[3:]), dict(os.environ if environment is None else environment), log, self._cwd))


_made: weakref.WeakSet[Migration] = weakref.WeakSet()


def migrations() -> list[Migration]:
    """Those that a test or a fixture still has."""
    return list(_made)


class Migration(migration.Migration):
    """As the sandbox has it, with commands that are forked."""

    def __init__(self, box: Sandbox, directory: Path, config: str, name: str = "migrate.yaml") -> None:
        super().__init__(box, directory, config, name)
        self._supervisor = Child("migrate run", directory / "run.log", Path.cwd())
        _made.add(self)

    def logs(self, since: float, lines: int) -> Iterator[tuple[Path, str]]:
        """The ends of the logs that its processes have written to since then."""
        for log in sorted({*self.directory.glob("*.log"), *self.directory.glob("**/logs/*.log")}):
            if log.stat().st_mtime >= since:
                yield log, "".join(_text(log).splitlines(keepends=True)[-lines:])

    def run(self, *arguments: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
        done = run(["--config", str(self.config), *arguments], self.environment, timeout)
        sys.stderr.write(done.stderr)
        return done


class _Forked:
    """As much of `subprocess.Popen` as a child needs."""

    def __init__(self, line: list[str], environment: dict[str, str], log: str, cwd: Path) -> None:
        self._process: ForkServerProcess = _context.Process(
            target=_command, args=(line, environment, log, log, str(cwd)), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("migrate", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


_MIGRATE = [sys.executable, "-m", "migrate"]
_PR_SET_PDEATHSIG = 1  # prctl(2): a signal when the parent ends, which ends with the tests
_libc = ctypes.CDLL(None, use_errno=True)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["migrate.cli", "migrate.publish.publisher", "migrate.consume.consumer"])


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.exists() else ""


def _command(line: list[str], environment: dict[str, str], out: str, err: str, cwd: str = str(PROJECT)) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    from migrate.cli import main

    main(line)
