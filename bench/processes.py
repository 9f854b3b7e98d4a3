"""CPU time and memory of all processes that this one has started, whoever waits for them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from bench.topic import cpu_seconds

_SAMPLE_SECONDS = 0.1


class Descendants:
    """Adds up, while it runs, the CPU seconds of every descendant but some, and the memory of all at a time; one that
    ends between two looks loses what it did since the last.

    but: process ids whose own descendants are left out too.
    """

    def __init__(self, but: set[int]) -> None:
        self._but = but
        self._seen: dict[int, float] = {}
        self.peak_mb = 0.0  # of what is resident; what forked processes share counts in each
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Descendants:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        return sum(self._seen.values())

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
        ours = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in ours and pid not in self._but} - ours:
            ours |= more
        pages = 0
        for pid in ours - {os.getpid()}:
            try:
                self._seen[pid] = cpu_seconds(pid)
                pages += int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
            except OSError:
                continue  # it has ended
        self.peak_mb = max(self.peak_mb, pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        stat = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return None
    return int(stat.rsplit(")", 1)[1].split()[1])
