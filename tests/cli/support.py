"""Running `python -m migrate` as a user does."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from sandbox.paths import PROJECT
from sandbox.stack import Sandbox
from tests.helpers import address

SECRET = "canary-pw-0815"
MIGRATE = [sys.executable, "-m", "migrate"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What was told on standard error, log lines left out."""
        return [line for line in self.err.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT|%\d\|", line)]

    def told(self, code: int) -> tuple[str, str]:
        """The one line of an error and its hint; checks how they are told."""
        assert self.code == code, self
        assert "Traceback" not in self.out + self.err, self
        assert SECRET not in self.out + self.err, self
        first, *rest = self.lines
        assert first.startswith("migrate: "), self
        assert len(rest) <= 1, self
        assert all(line.startswith("  hint: ") for line in rest), self
        return first.removeprefix("migrate: "), rest[0].removeprefix("  hint: ") if rest else ""


def migrate(config: Path | None, *arguments: str, **environment: str) -> Outcome:
    """Run a command to its end in a process of its own. `environment` comes on top of ours.

    The process is forked off one that has imported everything: importing takes longer than most commands.
    """
    line = [*([] if config is None else ["--config", str(config)]), *arguments]
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **environment}
    with TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _context.Process(target=_command, args=(line, env, str(out), str(err)))
        process.start()
        process.join(100)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"{line} did not end: {err.read_text()}")
        return Outcome(process.exitcode, out.read_text(), err.read_text())


def python_m_migrate(*arguments: str) -> Outcome:
    """As `migrate`, by `python -m migrate`."""
    done = subprocess.run([*MIGRATE, *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=100, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["migrate.cli"])


def _command(line: list[str], env: dict[str, str], out: str, err: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(PROJECT)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    from migrate.cli import main

    main(line)


def config_of(box: Sandbox, database: str, **changes: Any) -> dict[str, Any]:
    """A config for `database`.t on the box's servers, to which sections may be changed."""
    raw: dict[str, Any] = {
        "name": "cli",
        "state": {**address(box.targets[0]), "database": f"{database}_state"},
        "sources": [{"name": "main", **address(box.source)}],
        "targets": [{"name": "t0", **address(box.targets[0])}],
        "databases": {"ds_0": {"target": "t0", "database": f"{database}_target"}},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "tables": [{"name": f"{database}.t", "sharding": {"nodes": "ds_0.t"}}],
    }
    return {**raw, **changes}


def written(directory: Path, raw: Any) -> Path:
    path = directory / "migrate.yaml"
    path.write_text(raw if isinstance(raw, str) else yaml.safe_dump(raw))
    return path
