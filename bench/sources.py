"""What a row costs to publish from several sources at once, beside one source, in one run.

    make bench-capture SOURCES=8               # SCALE=0.1 for a small run; RUNS=1

Each source has the whole workload and a publisher of its own; all publishers start at the same time. The one source
has a server of its own, so that no publisher reads what another's tables have in the log. What a publisher used is
read from the moment of its first message to that of its last, so the start of its process is outside. Every topic is
read back and its rows are counted by source. Writes bench/out/sources.json.

A row costs more CPU time where eight processes share few processors, whatever they do. So three ways are measured:
one source; several sources of one migration; and, as the control, several migrations of one source each, at once.
`ratio_cpu` is several to control: what it costs to be of one migration. `ratio_cpu_to_one` has the sharing in it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from bench import report, workload
from bench.capture import run_directory, say
from bench.publisher import Publishers
from bench.topic import cpu_seconds
from bench.workload import Workload
from sandbox import snippet
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "sources.json"
_TIMEOUT = 900.0
_SAMPLE_SECONDS = 0.02
_SERVER = {"max_binlog_size": 1024**3, "innodb_buffer_pool_size": 64 * 1024**2}


def measure(count: int, scale: float, runs: int) -> dict[str, Any]:
    """The figures of the three ways with `count` sources, each `runs` times, in turn.

    scale: of the workloads; each source has a whole one.
    """
    found: dict[str, Any] = {"scale": scale, "sources": count, "runs": {}}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory())))
        root = directory / "servers"
        box = stack.enter_context(
            Sandbox(Flavour.MYSQL, root, sources=1 + count, targets=1, keep=False, options=_SERVER)
        )
        found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
        names = [name for name, _ in snippet.sources(box)]
        ways = {"one": [names[:1]], "several": [names[1:]], "control": [[name] for name in names[1:]]}
        for kind in (workload.large, workload.small):
            load = kind(scale)
            fleets = [
                (who, Fleet(box, directory / f"{who}_{load.name}_{run}", chosen, load))
                for run in range(runs)
                for who, chosen in ways.items()
            ]
            for server in box.sources:
                workload.create(server, load)
            for _, fleet in fleets:
                fleet.prepare()
            for server in box.sources:
                workload.fill(server, load)
            measured: dict[str, list[Any]] = defaultdict(list)
            for who, fleet in fleets:
                figures = fleet.run(_TIMEOUT)
                measured[who].append(figures)
                say(f"{load.name}, {who}: {json.dumps(figures)}")
            found["runs"][load.name] = measured
            several, control, one = (
                report.median(measured, who, "cpu_microseconds_per_row") for who in ("several", "control", "one")
            )
            found[f"ratio_cpu_{load.name}_tx"] = round(several / control, 3)
            found[f"ratio_cpu_to_one_{load.name}_tx"] = round(several / one, 3)
    report.write(found, OUT)
    return found


@dataclass
class _Use:
    """What one publisher used, sampled: Unix times, and its CPU seconds up to then."""

    at: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def sample(self, pid: int) -> None:
        self.cpu.append(cpu_seconds(pid))
        self.at.append(time.time())

    def first_after(self, moment: float) -> int:
        """Index of the first sample that is not before it."""
        return min(bisect_left(self.at, moment), len(self.at) - 1)


class Fleet:
    """Publishers that run at once. Made before the workload ran, it starts before it."""

    def __init__(self, box: Sandbox, directory: Path, sources: Sequence[Sequence[str]], load: Workload) -> None:
        """sources: of each migration; no source is in two of them."""
        self._load = load
        self._migrations = [
            Publishers(box, directory.with_name(f"{directory.name}_{number}"), of_one, load)
            for number, of_one in enumerate(sources)
        ]
        self._children = {source: child for one in self._migrations for source, child in one.children.items()}

    def prepare(self) -> None:
        """Store each source's position as it is now."""
        for one in self._migrations:
            one.init()
        try:
            for one in self._migrations:
                one.start()
            for one in self._migrations:
                one.wait_until_started()
        finally:
            self._stop()

    def _stop(self) -> None:
        for child in self._children.values():
            child.stop(60)

    def run(self, timeout: float) -> dict[str, float]:
        """From the stored positions to the last row of each: rows, CPU seconds in all, and by row.

        timeout: seconds. Raises TimeoutError when a row does not come in that time, AssertionError when more come.
        """
        uses = {source: _Use() for source in self._children}
        deadline = time.monotonic() + timeout
        rows = self._load.rows * len(self._children)
        try:
            for one in self._migrations:
                one.start()
            while (seen := self._sampled(uses)) < rows:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the topics have {seen} of {rows} rows after {timeout:.0f} s")
        finally:
            self._stop()
        figures = self._figures(uses)
        for one in self._migrations:
            one.topic.delete()
        return figures

    def _sampled(self, uses: dict[str, _Use]) -> int:
        """Sample until no topic has grown for a while; the rows that they have."""
        quiet_from, ends = time.monotonic(), self._ends()
        while not sum(ends) or time.monotonic() - quiet_from < 2:
            for source, child in self._children.items():
                uses[source].sample(child.pid)
            time.sleep(_SAMPLE_SECONDS)
            if (now := self._ends()) != ends:
                quiet_from, ends = time.monotonic(), now
        return sum(rows for _, _, rows in self._messages())

    def _ends(self) -> list[int]:
        return [end for one in self._migrations for end in one.topic.ends()]

    def _messages(self) -> Iterator[tuple[str, float, int]]:
        """Of each message its source, when it was published (Unix seconds), and its rows."""
        for message in chain.from_iterable(one.topic.messages() for one in self._migrations):
            yield message["pos"]["source"], message["ts"] / 1000, len(message["data"])

    def _figures(self, uses: dict[str, _Use]) -> dict[str, float]:
        came: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        for source, at, rows in self._messages():
            came[source].append((at, rows))
        found = {source: sum(rows for _, rows in messages) for source, messages in came.items()}
        if found != dict.fromkeys(self._children, self._load.rows):
            raise AssertionError(f"the topics have {found}, not {self._load.rows} rows of each source")
        counted, cpu, first_at, last_at = 0, 0.0, [], []
        for source, messages in came.items():
            use = uses[source]
            first, last = use.first_after(min(at for at, _ in messages)), use.first_after(max(at for at, _ in messages))
            counted += sum(rows for at, rows in messages if at > use.at[first])
            cpu += use.cpu[last] - use.cpu[first]
            first_at.append(use.at[first])
            last_at.append(use.at[last])
        seconds = max(last_at) - min(first_at)
        return {
            "rows": counted,
            "seconds": round(seconds, 3),
            "rows_per_second": round(counted / seconds),
            "cpu_seconds": round(cpu, 2),
            "cpu_microseconds_per_row": round(1e6 * cpu / counted, 2),
        }


def main() -> None:
    count = int(os.environ["SOURCES"])
    measure(count, float(os.environ.get("SCALE") or 1), int(os.environ.get("RUNS") or 3))


if __name__ == "__main__":
    main()
