"""The floor: the servers' own file, with nothing around and on one machine alone."""

from __future__ import annotations

from bench.workload import Workload
from sandbox.stack import Sandbox


def copy(box: Sandbox, load: Workload) -> float:
    """`SELECT … INTO OUTFILE` at the source, `LOAD DATA` at the target, one transaction."""
    file = box.source.data / "orders.tsv"
    file.unlink(missing_ok=True)
    box.source.execute(f"SELECT * FROM {load.database}.orders INTO OUTFILE '{file}' CHARACTER SET utf8mb4")
    try:
        box.targets[0].execute(f"LOAD DATA INFILE '{file}' INTO TABLE {load.database}.orders CHARACTER SET utf8mb4")
    finally:
        file.unlink()
    return 0.0
