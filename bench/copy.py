"""The full copy, the floor and, if asked, mydumper + myloader and Spark's JDBC, in one run.

    make bench-copy                            # or PEER=mydumper; PEER=all with Spark JDBC; SCALE=0.1; RUNS=1

The `orders` table, 1,000,000 rows at scale 1, from one MySQL to another one with durable settings (`sync_binlog=1`,
`innodb_flush_log_at_trx_commit=1`). This service writes into 2 databases × 4 tables, the others into one table. Each
is measured RUNS times (3), in turn; every copy's rows are checked. Spark's start is reported apart. Writes
bench/out/copy.json.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import workload
from bench.capture import machine, run_directory
from bench.consumer import Pipeline
from bench.peers import jdbc, mydumper, outfile
from bench.processes import Descendants
from bench.report import median, note, write
from bench.topic import cpu_seconds
from bench.workload import Workload
from sandbox.database import Option
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "copy.json"
_PEERS = ("", "mydumper", "all")
SERVERS: dict[str, Option] = {
    "sync_binlog": 1,
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
    "secure_file_priv": "",
}
_TIMEOUT = 1800


@dataclass(frozen=True, slots=True)
class Copied:
    rows: int
    seconds: float
    cpu_client: float  # seconds of all processes that are no database server
    cpu_source: float
    cpu_target: float
    spark_seconds: float = 0.0  # Spark's start, which is not in the seconds
    peak_mb: float = 0.0  # of all processes that are no database server, at a time

    def figures(self) -> dict[str, float]:
        return {
            "rows": self.rows,
            "rows_per_second": round(self.rows / self.seconds),
            "seconds": round(self.seconds, 2),
            "cpu_seconds_of_client": round(self.cpu_client, 2),
            "cpu_seconds_of_source": round(self.cpu_source, 2),
            "cpu_seconds_of_target": round(self.cpu_target, 2),
            "spark_seconds": round(self.spark_seconds, 2),
            "peak_mb": round(self.peak_mb),
        }


def main() -> None:
    scale, runs, peer = float(os.environ.get("SCALE") or 1), int(os.environ.get("RUNS") or 3), os.environ.get("PEER")
    if (peer or "") not in _PEERS:
        sys.exit("PEER is mydumper, all, or nothing")
    if peer:
        mydumper.install()
    load = Workload("copy", round(1_000 * scale) * 1000, 0, 0, 1000, 1)
    found: dict[str, Any] = {"machine": machine(), "rows": load.inserts, "runs": {}}
    with filled(load) as (box, directory):
        found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
        for number in range(runs):
            note(found, "migrate", _ours(box, directory, load, number).figures())
            note(found, "floor: outfile", _measured(box, load, lambda: outfile.copy(box, load)).figures())
            if peer:
                copy = mydumper.Copy(box, directory, load)
                note(found, "mydumper", _measured(box, load, copy.run).figures())
            if peer == "all":
                note(found, "spark jdbc", _measured(box, load, lambda: jdbc.copy(box, directory, load)).figures())
    found["load_average_after"] = os.getloadavg()
    found |= ratios(found["runs"])
    write(found, OUT)


@contextmanager
def filled(load: Workload) -> Iterator[tuple[Sandbox, Path]]:
    """Servers whose source has the workload's rows, and a directory for what else is written."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as name:
        directory = Path(name)
        with Sandbox(Flavour.MYSQL, directory / "servers", targets=1, keep=False, options=SERVERS) as box:
            workload.create(box.source, load)
            workload.fill_at_once(box.source, load)
            yield box, directory


def _ours(box: Sandbox, directory: Path, load: Workload, number: int) -> Copied:
    pipeline = Pipeline(box, directory, load, number)
    pipeline.prepare(copied=False)
    took = said(box, load, partial(pipeline.copy, _TIMEOUT))
    pipeline.check_copied()
    pipeline.drop()
    return took


def said(box: Sandbox, load: Workload, step: Callable[[], dict[str, float]]) -> Copied:
    """One of our commands over all rows, by the seconds that it says."""
    before = cpu(box)
    with clients(box) as ours:
        told = step()
    spent = since(box, *before)
    return Copied(load.inserts, told["seconds"], ours.seconds, *spent, told["spark_seconds"], ours.peak_mb)


def _measured(box: Sandbox, load: Workload, copy: Callable[[], float]) -> Copied:
    """One peer's copy into an empty table `orders`; what it gives is Spark's start, in seconds."""
    target = box.targets[0]
    workload.create_table(target, load.database)
    before, began = cpu(box), time.monotonic()
    with clients(box) as others:
        start = copy()
    seconds = time.monotonic() - began - start
    spent = since(box, *before)
    (count,) = target.query(f"SELECT COUNT(*) FROM {load.database}.orders")[0]
    sums = [server.query(f"CHECKSUM TABLE {load.database}.orders")[0][1] for server in (box.source, target)]
    if count != load.inserts or sums[0] != sums[1]:
        raise AssertionError(f"{count} rows arrived of {load.inserts}, with checksums {sums}")
    target.execute(f"DROP DATABASE {load.database}")
    return Copied(load.inserts, seconds, others.seconds, *spent, start, others.peak_mb)


def clients(box: Sandbox) -> Descendants:
    """All processes that are no server of the sandbox."""
    return Descendants({server.pid for server in (box.source, *box.targets, box.kafka)})


def cpu(box: Sandbox) -> tuple[float, float]:
    """Of source and target, in seconds."""
    return cpu_seconds(box.source.pid), cpu_seconds(box.targets[0].pid)


def since(box: Sandbox, *before: float) -> tuple[float, float]:
    """What was spent since `cpu` gave this."""
    source, target = (now - then for now, then in zip(cpu(box), before, strict=True))
    return source, target


def ratios(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Ours to each other's, the median of the runs."""

    def rate(who: str) -> float:
        return median(runs, who, "rows_per_second")

    found = {
        f"ratio_{name}": round(rate("migrate") / rate(who), 3)
        for name, who in (("floor", "floor: outfile"), ("mydumper", "mydumper"), ("spark_jdbc", "spark jdbc"))
        if who in runs
    }
    return found | ({"ratio_to_peer": found["ratio_mydumper"]} if "ratio_mydumper" in found else {})


if __name__ == "__main__":
    main()
