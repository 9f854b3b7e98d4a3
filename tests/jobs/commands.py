"""Our commands as processes, and a copy held in the middle of its chunks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from migrate.state import chunks
from tests.copy.setup import Laid
from tests.helpers import TABLE_WAITERS
from tests.jobs.cluster import command_line, parents
from tests.waiting import until as wait

_ROOT = Path(__file__).resolve().parents[2]


def config_of(laid: Laid, directory: Path, **changes: Any) -> Path:
    """The migration's config as a file."""
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump({**laid.raw, **changes}))
    return config


def started(config: Path, *words: str) -> subprocess.Popen[str]:
    """A command of ours, with the config file."""
    return run([sys.executable, "-m", "migrate", "--config", str(config), *words], _ROOT)


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A process whose words are kept."""
    return subprocess.Popen(
        command, cwd=directory, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """What it said, once it ended."""
    try:
        told, _ = process.communicate(timeout=280)
    finally:
        process.kill()
    assert process.returncode == code, told
    return told


def attempts(laid: Laid) -> list[int]:
    """The number of each chunk's last attempt."""
    state = laid.state()
    try:
        with state.connect() as connection:
            return [chunk.attempt for chunk in chunks.load(connection, laid.settings.name, laid.table.table)]
    finally:
        state.dispose()


def _threads(process: subprocess.Popen[str]) -> str:
    """What a process said to its end, and what each thread of its JVM does."""
    for pid, parent in parents().items():
        if parent == process.pid and "java" in command_line(pid):
            os.kill(pid, signal.SIGQUIT)
    try:
        return process.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@contextmanager
def held(
    laid: Laid, process: subprocess.Popen[str], writers: int, beside: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """A place that every chunk has rows for is locked, and so many tasks wait for it in the middle of their chunk.

    Args: beside: what else a failure tells.
    """
    place = laid.table.places[1]
    server = laid.box.targets[int(place.database.target.removeprefix("t"))]
    with closing(server.connect(database=place.database.database)) as session, session.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {place.table} WRITE")

        def waiting() -> bool:
            return process.poll() is not None or int(server.query(TABLE_WAITERS)[0][0]) >= writers

        try:
            wait(waiting, "tasks in the middle of a chunk")
            assert process.poll() is None, "it ended"
        except AssertionError as error:
            sessions = server.query("SELECT ID, COMMAND, TIME, STATE, INFO FROM information_schema.PROCESSLIST")
            told = f"{beside()}, sessions {sessions}, attempts {attempts(laid)}"
            raise AssertionError(f"{error}: {_threads(process)}, {told}") from None
        yield
