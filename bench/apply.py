"""Kafka to the target: this consumer, the floor and, if asked, Debezium's JDBC sink, in one run; then the lag.

    make bench-apply                           # or PEER=debezium; SCALE=0.1 for a small run; RUNS=1; ONLY=lag

Each is measured RUNS times (3), in turn, on the same MySQL target with durable settings (`sync_binlog=1`,
`innodb_flush_log_at_trx_commit=1`). A rate is events over the time from our first record of a message, or the sink's
first row at the target, to the last event; the start of a process is outside. The lag is that of a steady load through
publisher, Kafka and consumer, at several merge intervals. Writes bench/out/apply.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import debezium, floor, lag, workload
from bench.capture import machine, run_directory, say
from bench.consumer import BEHIND_TOPIC, Pipeline
from bench.debezium.sink import JdbcSink
from bench.report import median, note, write
from bench.workload import Workload
from sandbox.database import Option
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "apply.json"
_TIMEOUT = 900.0
_LAGS = ((15.0, 500), (1.0, 500), (0.2, 500), (15.0, 2000), (1.0, 2000), (0.2, 2000), (0.02, 2000))
"""Merge intervals in seconds, and rows a second."""
_LAG_SECONDS = 45.0
_SERVERS: dict[str, Option] = {
    "max_binlog_size": 1024**3,
    "sync_binlog": 1,
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
}


def main() -> None:
    scale, runs = float(os.environ.get("SCALE") or 1), int(os.environ.get("RUNS") or 3)
    peer = os.environ.get("PEER")
    if peer not in (None, "", "debezium"):
        sys.exit("PEER is debezium or nothing")
    if peer:
        debezium.install(sink=True)
    found: dict[str, Any] = {"machine": machine(), "scale": scale, "runs": {}}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as name:
        directory = Path(name)
        with Sandbox(Flavour.MYSQL, directory / "servers", targets=1, keep=False, options=_SERVERS) as box:
            found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
            if os.environ.get("ONLY") != "lag":
                _throughput(box, directory, found, scale, runs, bool(peer))
            found["lag"] = _lags(box, directory, scale)
    found["load_average_after"] = os.getloadavg()
    if "jdbc sink" in found["runs"]:
        found |= ratios(found["runs"])
    bar = found["lag"][-1]
    found |= {"lag_p50_ms": bar["p50_ms"], "lag_p99_ms": bar["p99_ms"]}
    write(found, OUT, ("ratio", "lag_"))


def _throughput(box: Sandbox, directory: Path, found: dict[str, Any], scale: float, runs: int, peer: bool) -> None:
    load = workload.large(scale)
    workload.create(box.source, load)
    source = debezium.Debezium(box, directory, load, schemas=True) if peer else None
    if source:
        source.prepare()  # writes a row, so before the others take their position
    ours = [Pipeline(box, directory, load, number) for number in range(runs)]
    for pipeline in ours:
        pipeline.prepare()
    workload.fill(box.source, load)
    sink = JdbcSink(box, directory, load, source.fill(_TIMEOUT)) if source else None
    for number, pipeline in enumerate(ours):
        pipeline.publish(_TIMEOUT)
        note(found, "migrate", pipeline.run(_TIMEOUT).figures())
        if sink:
            note(found, "jdbc sink", sink.run(number, _TIMEOUT).figures())
        for way, written in floor.measure(box.targets[0], load, directory).items():
            note(found, f"floor: {way}", written.figures())


def _lags(box: Sandbox, directory: Path, scale: float) -> list[dict[str, float]]:
    found = []
    for number, (interval, rate) in enumerate(_LAGS):
        load = Workload(f"lag{number}", 0, 0, 0, 0, 0)
        workload.create(box.source, load)
        pipeline = Pipeline(box, directory, load, number, interval)
        pipeline.prepare()
        for process in ("publish", *BEHIND_TOPIC):
            pipeline.start(process)
        try:
            measured = lag.measure(box, pipeline, rate, _LAG_SECONDS * scale).figures()
        finally:
            pipeline.stop()
        found.append({"merge_interval_seconds": interval, **measured})
        say(f"lag: {json.dumps(found[-1])}")
    return found


def ratios(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Ours to the sink's, each the median of its runs."""

    def ratio(figure: str) -> float:
        ours, theirs = (median(runs, who, figure) for who in ("migrate", "jdbc sink"))
        return round(ours / theirs, 3)

    throughput = ratio("events_per_second")
    return {
        "ratio_throughput": throughput,
        "ratio_cpu": ratio("cpu_microseconds_per_event"),
        "ratio_to_peer": throughput,
    }


if __name__ == "__main__":
    main()
