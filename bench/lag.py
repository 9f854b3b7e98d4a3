"""How long a change takes from its commit at the source until the target shows it, under a steady load."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass

from bench import workload
from bench.consumer import Pipeline
from bench.topic import cpu_seconds
from sandbox.stack import Sandbox

_ROWS = 20  # in a transaction
_WARM_SECONDS = 10.0
_LOOK_SECONDS = 0.002
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """Of the transactions behind the warming up: from the commit's return until the last of its rows is visible."""

    rate: float  # rows a second that were written
    milliseconds: list[float]  # sorted
    cpu: dict[str, float]  # of one core, by process

    def figures(self) -> dict[str, float]:
        return {
            "rows_per_second": round(self.rate),
            "transactions": len(self.milliseconds),
            "p50_ms": self._at(0.5),
            "p90_ms": self._at(0.9),
            "p99_ms": self._at(0.99),
            "max_ms": self._at(1.0),
            "cpu_percent": round(100 * sum(self.cpu.values())),
            **{f"cpu_percent_{name}": round(100 * part) for name, part in self.cpu.items()},
        }

    def _at(self, part: float) -> float:
        return round(self.milliseconds[int(part * (len(self.milliseconds) - 1))], 1)


class _Watch(threading.Thread):
    """Notes when each row is first seen. The ids are 1, 2, 3, …, so what is not there yet is above `_low`."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._stopped = threading.Event()
        self._low = 0
        self.seen: dict[int, float] = {}

    def run(self) -> None:
        each = " UNION ALL ".join(f"SELECT id FROM {place} WHERE id > {{0}}" for place in self._pipeline.places)
        with closing(self._pipeline.target.connect()) as connection, connection.cursor() as cursor:
            while not self._stopped.wait(_LOOK_SECONDS):
                cursor.execute(each.format(self._low))
                now = time.perf_counter()
                for (id_,) in cursor.fetchall():
                    self.seen.setdefault(id_, now)
                while self._low + 1 in self.seen:
                    self._low += 1

    def wait_for(self, last: int) -> None:
        """Until all rows up to that one are there. Raises TimeoutError."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._low < last:
            if time.monotonic() > deadline or not self.is_alive():
                raise TimeoutError(f"{self._pipeline.name}: row {self._low + 1} of {last} is not at the target")
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def measure(box: Sandbox, pipeline: Pipeline, rate: int, seconds: float) -> Lag:
    """Write `rate` rows a second for so long, and watch them arrive; the pipeline runs, its table is empty."""
    numbers, watch = random.Random(11), _Watch(pipeline)  # noqa: S311  the same rows each time
    commits: list[tuple[int, float]] = []  # the last row of a transaction, and when its commit returned
    watch.start()
    try:
        with closing(box.source.connect(pipeline.source_database, autocommit=False)) as connection:
            with connection.cursor() as cursor:
                workload.insert(cursor, numbers, 1, 1)
                connection.commit()
                watch.wait_for(1)  # every process has begun its work
                began, before = time.perf_counter(), _cpu(pipeline)
                last = 1
                while (now := time.perf_counter()) - began < seconds:
                    workload.insert(cursor, numbers, last + 1, last + _ROWS)
                    connection.commit()
                    last += _ROWS
                    commits.append((last, time.perf_counter()))
                    time.sleep(max(0.0, began + (last - 1) / rate - time.perf_counter()))
                after = _cpu(pipeline)
        watch.wait_for(last)
    finally:
        watch.stop()
    found = sorted(
        1000 * (max(watch.seen[row] for row in range(end - _ROWS + 1, end + 1)) - at)
        for end, at in commits
        if at - began >= min(_WARM_SECONDS, seconds / 3)
    )
    took = now - began
    return Lag((last - 1) / took, found, {name: (after[name] - before[name]) / took for name in before})


def _cpu(pipeline: Pipeline) -> dict[str, float]:
    return {name: cpu_seconds(pid) for name, pid in pipeline.pids().items()}
