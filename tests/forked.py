"""`migrate` commands in processes that are forked off one that has imported everything: importing takes a second of
processor time, more than most commands do."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.demo import migration
from sandbox.paths import PROJECT


def run(line: Sequence[str], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A command line, without the program's name, to its end. Raises subprocess.TimeoutExpired."""
    with TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _context.Process(target=_command, args=(list(line), dict(environment), str(out), str(err)))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(line), seconds, _text(out), _text(err))
        return subprocess.CompletedProcess(list(line), process.exitcode, _text(out), _text(err))


class Migration(migration.Migration):
    """As the sandbox has it, with commands that are forked."""

    def run(self, *arguments: str, timeout: float = 900.0) -> subprocess.CompletedProcess[str]:
        done = run(["--config", str(self.config), *arguments], self.environment, timeout)
        sys.stderr.write(done.stderr)
        return done


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["migrate.cli"])


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.exists() else ""


def _command(line: list[str], environment: dict[str, str], out: str, err: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(PROJECT)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    from migrate.cli import main

    main(line)
