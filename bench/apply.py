"""Kafka to the target: this consumer and, if asked, Debezium's JDBC sink, in one run.

    make bench-apply                           # or PEER=debezium; SCALE=0.1 for a small run; RUNS=1

Each is measured RUNS times (3), in turn, on the same MySQL target with durable settings (`sync_binlog=1`,
`innodb_flush_log_at_trx_commit=1`). A rate is events over the time from our first record of a message, or the sink's
first row at the target, to the last event; the start of a process is outside. Writes bench/out/apply.json.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import debezium, workload
from bench.capture import machine, run_directory, say
from bench.consumer import Applied, Pipeline
from bench.debezium.sink import JdbcSink
from sandbox.database import Option
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "apply.json"
_TIMEOUT = 900.0
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
                _note(found, "migrate", pipeline.run(_TIMEOUT))
                if sink:
                    _note(found, "jdbc sink", sink.run(number, _TIMEOUT))
    found["load_average_after"] = os.getloadavg()
    if peer:
        found |= ratios(found["runs"])
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    say(json.dumps({key: value for key, value in found.items() if key.startswith("ratio")}, indent=1))
    say(f"written to {OUT}")


def _note(found: dict[str, Any], who: str, applied: Applied) -> None:
    figures = {**applied.figures(), "load_after": round(os.getloadavg()[0], 1)}
    found["runs"].setdefault(who, []).append(figures)
    say(f"{who}: {json.dumps(figures)}")


def ratios(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Ours to the sink's, each the median of its runs."""

    def ratio(figure: str) -> float:
        ours, theirs = (statistics.median(run[figure] for run in runs[who]) for who in ("migrate", "jdbc sink"))
        return round(ours / theirs, 3)

    throughput = ratio("events_per_second")
    return {
        "ratio_throughput": throughput,
        "ratio_cpu": ratio("cpu_microseconds_per_event"),
        "ratio_to_peer": throughput,
    }


if __name__ == "__main__":
    main()
