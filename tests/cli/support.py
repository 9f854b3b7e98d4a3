"""Running `python -m migrate` as a user does."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.paths import PROJECT
from sandbox.stack import Sandbox
from tests import forked
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
    """Run a command to its end in a process of its own. `environment` comes on top of ours."""
    line = [*([] if config is None else ["--config", str(config)]), *arguments]
    done = forked.run(line, {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **environment}, 100)
    return Outcome(done.returncode, done.stdout, done.stderr)


def python_m_migrate(*arguments: str) -> Outcome:
    """As `migrate`, by `python -m migrate`."""
    done = subprocess.run([*MIGRATE, *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=100, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


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


def conversation(command: list[str], typed: dict[str, str], **variables: str) -> tuple[int, str]:
    """Run a command at a terminal, each question answered once it is there; its exit code and what was shown.

    A question is there with the space behind it: before that the terminal still shows what is typed as a password.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **variables}
    process = subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    timer = threading.Timer(250, process.kill)
    timer.start()
    shown, left = "", dict(typed)
    try:
        while piece := _read(ours):
            shown += piece
            for question in [one for one in left if one in shown and shown.endswith(": ")]:
                os.write(ours, f"{left.pop(question)}\n".encode())
        return process.wait(), shown
    finally:
        timer.cancel()
        os.close(ours)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # its other end is closed
        return ""
