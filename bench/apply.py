"""Kafka to the target: this consumer against the floor and, if asked, Debezium's JDBC sink, in one run.

    make bench-apply                           # or PEER=debezium; SCALE=0.1 for a small run; RUNS=1

Each is measured RUNS times (3), in turn, on the same MySQL target with durable settings (`sync_binlog=1`,
`innodb_flush_log_at_trx_commit=1`). A rate is events over the time from the first row at the target to the last event;
the start of a process is outside. Writes bench/out/apply.json.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bench import workload
from bench.capture import machine, run_directory, say
from bench.consumer import Pipeline
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
    found: dict[str, Any] = {"machine": machine(), "scale": scale, "runs": {}}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as name:
        directory = Path(name)
        with Sandbox(Flavour.MYSQL, directory / "servers", targets=1, keep=False, options=_SERVERS) as box:
            found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
            load = workload.large(scale)
            workload.create(box.source, load)
            ours = [Pipeline(box, directory, load, number) for number in range(runs)]
            for pipeline in ours:
                pipeline.prepare()
            workload.fill(box.source, load)
            for pipeline in ours:
                pipeline.publish(_TIMEOUT)
                figures = {**pipeline.run(_TIMEOUT).figures(), "load_before": round(os.getloadavg()[0], 1)}
                found["runs"].setdefault("migrate", []).append(figures)
                say(f"migrate: {json.dumps(figures)}")
    found["load_average_after"] = os.getloadavg()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    say(f"written to {OUT}")


if __name__ == "__main__":
    main()
