"""Backlog to Kafka: this publisher against mysql-replication's decoding and, if asked, Debezium, in one run.

    make bench-capture                         # or PEER=debezium; SCALE=0.1 for a small run; RUNS=1

Each is measured RUNS times (3), in turn, on the same MySQL, the same broker and the same log. A rate is rows from the
first message in the topic to the last one over the time between, so the start of a process is outside; CPU seconds
are the process's own in that time. Every topic is read back and its rows are counted. Writes bench/out/capture.json.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import debezium, replication, workload
from bench.publisher import Publisher
from bench.topic import Run
from bench.workload import Workload
from sandbox.paths import run_dir
from sandbox.settings import KAFKA_VERSION, Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "capture.json"
_BAR_LARGE, _BAR_SMALL, _BAR_CPU = 1.8, 4.0, 0.4
_TIMEOUT = 900.0
_SOURCE = {"max_binlog_size": 1024**3}


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  what it is for


def main() -> None:
    scale, runs, peer = float(os.environ.get("SCALE") or 1), int(os.environ.get("RUNS") or 3), os.environ.get("PEER")
    if peer not in (None, "", "debezium"):
        sys.exit("PEER is debezium or nothing")
    if peer:
        debezium.install()
    found: dict[str, Any] = {"machine": machine(), "scale": scale, "runs": {}}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as directory:
        with Sandbox(Flavour.MYSQL, Path(directory) / "servers", targets=1, keep=False, options=_SOURCE) as box:
            found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
            for load in (workload.large(scale), workload.small(scale)):
                found["runs"][load.name] = _compare(box, Path(directory), load, runs, bool(peer))
                _write(found)
            found |= _ratios(found["runs"], peer or "mysql-replication")
            _write(found)
            found["huge"] = _huge(box, Path(directory), workload.huge(max(1, round(1000 * scale)) * 1000))
    found["load_average_after"] = os.getloadavg()
    _write(found)
    say(json.dumps({key: value for key, value in found.items() if key.startswith("ratio")}, indent=1))
    say(f"written to {OUT}")


def _write(found: dict[str, Any]) -> None:
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")


def run_directory() -> Path:
    run_dir().mkdir(parents=True, exist_ok=True)
    return run_dir()


def _compare(box: Sandbox, directory: Path, load: Workload, runs: int, peer: bool) -> dict[str, list[Any]]:
    """The runs of everyone on one workload, in turn."""
    workload.create(box.source, load)
    connector = debezium.Debezium(box, directory, load) if peer else None
    if connector:
        connector.prepare()  # writes a row, so before the others take their position
    ours = [Publisher(box, directory, load, number) for number in range(runs)]
    for publisher in ours:
        publisher.prepare()
    file = workload.fill(box.source, load)
    say(f"{load.name}: {load.rows:,} rows from {file} on")
    measured: dict[str, list[Any]] = {}

    def note(who: str, run: Callable[[], Run]) -> None:
        before = os.getloadavg()[0]
        figures = {**run().figures(), "load_before": round(before, 1)}
        measured.setdefault(who, []).append(figures)
        say(f"{load.name}, {who}: {json.dumps(figures)}")

    for number, publisher in enumerate(ours):
        note("mysql-replication", lambda: replication.measure(box.source, load, file, _TIMEOUT))
        note("migrate", lambda publisher=publisher: publisher.run(_TIMEOUT))  # type: ignore[misc]
        if connector:
            note("debezium", lambda number=number: connector.run(number + 1, _TIMEOUT))  # type: ignore[misc]
    return measured


def _huge(box: Sandbox, directory: Path, load: Workload) -> dict[str, Any]:
    """One transaction with all rows: what it takes of memory."""
    workload.create(box.source, load)
    publisher = Publisher(box, directory, load, 0)
    publisher.prepare()
    workload.fill_at_once(box.source, load)
    figures = publisher.run(_TIMEOUT).figures()
    say(f"one transaction of {load.rows:,} rows: {json.dumps(figures)}")
    return figures


def _ratios(runs: dict[str, dict[str, list[Any]]], peer: str) -> dict[str, Any]:
    """Ours to the peer's, each the median of its runs; `ratio_cpu` is the worse of both workloads."""

    def ratio(load: str, figure: str) -> float:
        ours, theirs = (float(statistics.median(run[figure] for run in runs[load][who])) for who in ("migrate", peer))
        return round(ours / theirs, 3)

    large, small = ratio("large", "rows_per_second"), ratio("small", "rows_per_second")
    cpu_large, cpu_small = (ratio(load, "cpu_microseconds_per_row") for load in ("large", "small"))
    return {
        "peer": peer,
        "ratio_large_tx": large,
        "ratio_small_tx": small,
        "ratio_cpu_large_tx": cpu_large,
        "ratio_cpu_small_tx": cpu_small,
        "ratio_cpu": max(cpu_large, cpu_small),
        "ratio_to_peer": round(min(large / _BAR_LARGE, small / _BAR_SMALL), 3),
        "bar": {"ratio_large_tx": _BAR_LARGE, "ratio_small_tx": _BAR_SMALL, "ratio_cpu": _BAR_CPU},
    }


def machine() -> dict[str, Any]:
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": os.cpu_count(),
        "cpu": model[0].split(":", 1)[1].strip() if model else "?",
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "debezium": debezium.VERSION,
        "commit": commit.stdout.strip(),
        "load_average_before": os.getloadavg(),
    }


if __name__ == "__main__":
    main()
