"""Where the time of a test run goes: by file, and by what was waited for.

`make times` runs the suite with `MEASURE=directory` set; each process of it writes its spans there, a line of JSON a
test. `python -m tests.measure directory` prints the tables that CONTRIBUTING.md shows.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

Spans = dict[str, float]
"""Seconds by what they were spent on; a span inside another one counts as the outer one."""


class Meter:
    """Adds up what the running test waits for, and writes a line when it has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._spans: defaultdict[str, float] = defaultdict(float)
        self._inside = False
        self._failed = False
        self._wrap()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        began, cpu = time.monotonic(), _busy_seconds()
        self._spans.clear()
        self._failed = False
        done = yield
        line = {
            "test": item.nodeid,
            "failed": self._failed,
            "seconds": time.monotonic() - began,
            "busy": _busy_seconds() - cpu,
            "spans": dict(self._spans),
        }
        with self._file.open("a") as out:
            out.write(json.dumps(line) + "\n")
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def _wrap(self) -> None:
        from sandbox.broker import KafkaBroker
        from sandbox.database import DatabaseServer
        from sandbox.demo.migration import Migration as OfDemo
        from sandbox.process import Child
        from tests import forked

        self._time(DatabaseServer, "start", lambda *_, **__: "database servers")
        self._time(KafkaBroker, "start", lambda *_, **__: "broker")
        self._time(forked.Migration, "run", lambda _, *words, **__: f"migrate {words[0]}")
        self._time(OfDemo, "start", lambda *_, **__: "migrate run, to its start")
        self._time(OfDemo, "stop", lambda *_, **__: "processes, to their end")
        self._time(OfDemo, "wait", lambda *_, **__: "a condition")
        self._time(Child, "stop", lambda *_, **__: "processes, to their end")

    def _time(self, owner: type, name: str, label: Callable[..., str]) -> None:
        real = owner.__dict__[name]
        function = real.__func__ if isinstance(real, staticmethod) else real

        @functools.wraps(function)
        def timed(*args: Any, **more: Any) -> Any:
            if self._inside:
                return function(*args, **more)
            self._inside, began = True, time.monotonic()
            try:
                return function(*args, **more)
            finally:
                self._inside = False
                self._spans[label(*args, **more)] += time.monotonic() - began

        setattr(owner, name, staticmethod(timed) if isinstance(real, staticmethod) else timed)


def pytest_configure(config: pytest.Config) -> None:
    if directory := os.environ.get("MEASURE"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Meter(Path(directory, f"{os.getpid()}.jsonl")))


def _busy_seconds() -> float:
    """Processor time of the whole machine, all cores (proc(5), /proc/stat)."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _lines(directory: Path) -> Iterable[dict[str, Any]]:
    for file in sorted(directory.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            yield json.loads(line)


def _table(title: str, seconds: dict[str, float], counts: dict[str, int], most: int) -> None:
    print(f"\n{title:52} {'tests':>6} {'seconds':>8}")  # noqa: T201
    for name, spent in sorted(seconds.items(), key=lambda found: -found[1])[:most]:
        print(f"{name[:52]:52} {counts[name]:6} {spent:8.1f}")  # noqa: T201


def main(directory: str, most: int = 30) -> None:
    by_file: defaultdict[str, float] = defaultdict(float)
    by_span: defaultdict[str, float] = defaultdict(float)
    files: defaultdict[str, int] = defaultdict(int)
    spans: defaultdict[str, int] = defaultdict(int)
    for line in _lines(Path(directory)):
        file = line["test"].split("::")[0]
        by_file[file] += line["seconds"]
        files[file] += 1
        rest = line["seconds"]
        for name, spent in line["spans"].items():
            by_span[name] += spent
            spans[name] += 1
            rest -= spent
        by_span["in the test's process"] += rest
        spans["in the test's process"] += 1
    _table("file", by_file, files, most)
    _table("spent on", by_span, spans, most)
    print(f"\n{sum(by_file.values()):.0f} s in all processes together, {sum(files.values())} tests")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
