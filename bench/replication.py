"""mysql-replication, decoding only: every row of a workload as Python values, nothing sent anywhere.

    python -m bench.replication PORT USER DATABASE FILE ROWS      the password is in BENCH_PASSWORD

Prints one JSON line. It is a process of its own so that its CPU time and memory are its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from bench.topic import Run
from bench.workload import Workload
from sandbox.database import DatabaseServer


def measure(server: DatabaseServer, load: Workload, file: str, timeout: float) -> Run:
    """One run in a process of its own."""
    arguments = [str(server.port), server.user, load.database, file, str(load.rows)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.replication", *arguments],
        env={**os.environ, "BENCH_PASSWORD": server.password},
        stdout=subprocess.PIPE,
        timeout=timeout,
        check=True,
    )
    return Run(**json.loads(done.stdout))


def main(port: str, user: str, database: str, file: str, rows: str) -> None:
    stream = BinLogStreamReader(
        connection_settings={
            "host": "127.0.0.1",
            "port": int(port),
            "user": user,
            "passwd": os.environ["BENCH_PASSWORD"],
        },
        server_id=7000,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[database],
        blocking=False,
        resume_stream=True,
        log_file=file,
        log_pos=4,
    )
    found, start, cpu = 0, time.perf_counter(), time.process_time()
    for event in stream:
        found += len(event.rows)
        if found >= int(rows):
            break
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    stream.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"rows": found, "seconds": seconds, "cpu_seconds": used, "cpu_before": cpu, "peak_mb": peak}
    print(json.dumps({**figures, "messages": 0, "bytes": 0}))  # noqa: T201  what it is for


if __name__ == "__main__":
    main(*sys.argv[1:])
