"""The verification, beside the query of pt-table-checksum on both servers and the copy of the same rows, in one run.

    make bench-verify                          # SCALE=0.1 for a small run; RUNS=1

The `orders` table, 1,000,000 rows at scale 1, of one MySQL and in 2 databases × 4 tables of another. Each is measured
RUNS times (3), in turn; Spark's start is reported apart. Writes bench/out/verify.json.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from bench.capture import machine
from bench.consumer import Pipeline
from bench.copy import Copied, cpu, filled, said, since
from bench.report import median, note, write
from bench.workload import Workload
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "verify.json"
_TIMEOUT = 1800
_CHUNK = 50_000
_COPIES = 4
"""Verified rows a second are compared with so many times the copied ones."""


def main() -> None:
    scale, runs = float(os.environ.get("SCALE") or 1), int(os.environ.get("RUNS") or 3)
    load = Workload("verify", round(1_000 * scale) * 1000, 0, 0, 1000, 1)
    found: dict[str, Any] = {"machine": machine(), "rows": load.inserts, "runs": {}}
    with filled(load) as (box, directory):
        found["mysql"] = str(box.source.query("SELECT VERSION()")[0][0])
        for number in range(runs):
            pipeline = Pipeline(box, directory, load, number)
            pipeline.prepare(copied=False)
            note(found, "copy", said(box, load, partial(pipeline.copy, _TIMEOUT)).figures())
            note(found, "verify", said(box, load, partial(pipeline.verify, _TIMEOUT)).figures())
            note(found, "pt-table-checksum", _checksums(box, pipeline, load).figures())
            pipeline.drop()
    found["load_average_after"] = os.getloadavg()
    found |= ratios(found["runs"])
    write(found, OUT)


def _checksums(box: Sandbox, pipeline: Pipeline, load: Workload) -> Copied:
    """Its query over every chunk of the source's table, and of each target table, both servers at once."""
    before, began = cpu(box), time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        source = threads.submit(_checksum, box.source, [f"{load.database}.orders"], load.inserts)
        other = threads.submit(_checksum, box.targets[0], pipeline.places, load.inserts)
        counts = source.result(), other.result()
    seconds = time.monotonic() - began
    if counts != (load.inserts, load.inserts):
        raise AssertionError(f"{counts} rows were looked at, not {load.inserts} on each side")
    return Copied(load.inserts, seconds, 0.0, *since(box, *before))


def _checksum(server: DatabaseServer, tables: list[str], rows: int) -> int:
    columns = server.query(f"SHOW COLUMNS FROM {tables[0]}")
    isnull = ", ".join(f"ISNULL({name})" for name, _, nullable, *_ in columns if nullable == "YES")
    row = f"CONCAT_WS('#', {', '.join(str(name) for name, *_ in columns)}, CONCAT({isnull}))"
    sums = f"COUNT(*), COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32({row}) AS UNSIGNED)), 10, 16)), 0)"
    found = 0
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for table in tables:
            for start in range(0, rows, _CHUNK):
                cursor.execute(f"SELECT {sums} FROM {table} WHERE id > {start} AND id <= {start + _CHUNK}")
                found += int((cursor.fetchone() or (0,))[0])
    return found


def ratios(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Ours to each other's, the median of the runs."""

    def rate(who: str) -> float:
        return median(runs, who, "rows_per_second")

    return {
        "ratio_pt_table_checksum": round(rate("verify") / rate("pt-table-checksum"), 3),
        "ratio_copy": round(rate("verify") / rate("copy"), 3),
        "ratio_to_peer": round(rate("verify") / (_COPIES * rate("copy")), 3),
    }


if __name__ == "__main__":
    main()
