"""How long a change takes from its commit at the source until the target shows it, under a steady load."""

from __future__ import annotations

import bisect
import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pymysql.cursors import Cursor

from bench.consumer import DATABASES, TABLES, Pipeline
from bench.topic import cpu_seconds
from bench.workload import insert_rows
from sandbox.stack import Sandbox

_ROWS = 20  # in a transaction
_WARM_SECONDS = 5.0
_LOOK_SECONDS = 0.002
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """Of the transactions behind the warming up: from the commit's return to the last of its rows being visible."""

    rate: float  # rows a second that were written
    milliseconds: list[float]  # sorted
    cpu_percent: float  # of one core, all our processes

    def figures(self) -> dict[str, float]:
        return {
            "rows_per_second": round(self.rate),
            "p50_ms": self._at(0.5),
            "p90_ms": self._at(0.9),
            "p99_ms": self._at(0.99),
            "max_ms": self._at(1.0),
            "cpu_percent": round(self.cpu_percent),
        }

    def _at(self, part: float) -> float:
        return round(self.milliseconds[int(part * (len(self.milliseconds) - 1))], 1)


class _Watch(threading.Thread):
    """Notes when the highest id of each target table rose, and to what."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._stopped = threading.Event()
        places = [
            f"{pipeline.name}_{database}.orders_{table}" for database in range(DATABASES) for table in range(TABLES)
        ]
        self._sql = "SELECT " + ", ".join(f"(SELECT MAX(id) FROM {place})" for place in places)
        self.seen: list[list[tuple[int, float]]] = [[] for _ in places]

    def run(self) -> None:
        with closing(self._pipeline.target.connect()) as connection, connection.cursor() as cursor:
            while not self._stopped.wait(_LOOK_SECONDS):
                cursor.execute(self._sql)
                now, highest = time.perf_counter(), cursor.fetchone() or ()
                for seen, most in zip(self.seen, highest, strict=True):
                    if most is not None and (not seen or seen[-1][0] != most):
                        seen.append((int(most), now))

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def visible(self, table: int, id_: int) -> float | None:
        """When the row was there; None: it is not."""
        seen = self.seen[table]
        found = bisect.bisect_left(seen, (id_, 0.0))
        return seen[found][1] if found < len(seen) else None


def measure(box: Sandbox, pipeline: Pipeline, rate: int, seconds: float) -> Lag:
    """Write `rate` rows a second for so long, and watch them arrive. The pipeline runs; its source table is its own."""
    numbers, watch = random.Random(11), _Watch(pipeline)  # noqa: S311  the same rows each time
    commits: list[tuple[float, dict[int, int]]] = []  # when it returned, and the highest id for each target table
    watch.start()
    pids = pipeline.pids
    with closing(box.source.connect(pipeline.source_database, autocommit=False)) as connection:
        with connection.cursor() as cursor:
            began, cpu = time.perf_counter(), sum(map(cpu_seconds, pids))
            next_id = 1
            while (now := time.perf_counter()) - began < seconds:
                commits.append(_commit(connection, cursor, numbers, next_id))
                next_id += _ROWS
                ahead = began + next_id / rate - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
            spent = sum(map(cpu_seconds, pids)) - cpu
    deadline = time.monotonic() + _PATIENCE
    while any(watch.visible(table, id_) is None for table, id_ in commits[-1][1].items()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{pipeline.name}: the last rows are not at the target")
        time.sleep(0.05)
    watch.stop()
    found = []
    for at, last in commits:
        if at - began >= _WARM_SECONDS:
            arrived = [watch.visible(table, id_) for table, id_ in last.items()]
            found.append(1000 * (max(one for one in arrived if one is not None) - at))
    return Lag((next_id - 1) / (now - began), sorted(found), 100 * spent / (now - began))


def _commit(connection: Any, cursor: Cursor, numbers: random.Random, first: int) -> tuple[float, dict[int, int]]:
    rows = insert_rows(cursor, numbers, first, first + _ROWS - 1)
    connection.commit()
    at = time.perf_counter()
    last: dict[int, int] = {}
    for id_, user_id in rows:
        table = user_id % DATABASES * TABLES + id_ % TABLES
        last[table] = max(id_, last.get(table, 0))
    return at, last
