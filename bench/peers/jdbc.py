"""Spark alone: its JDBC source and sink, with the driver's rewritten batches; the driver comes from Maven Central."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.workload import Workload
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox

_DRIVER = "com.mysql:mysql-connector-j:9.1.0"
_PARTITIONS = 4
_TIMEOUT = 1800
_OPTIONS = "sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=false&connectionTimeZone=UTC"


def copy(box: Sandbox, directory: Path, load: Workload) -> float:
    """In a process of its own; returns how long Spark took to start, in seconds. Raises CalledProcessError."""
    source = _url(box.source, load, "useCursorFetch=false&tinyInt1isBit=false")
    target = _url(box.targets[0], load, "rewriteBatchedStatements=true")
    asked = directory / "jdbc.json"
    asked.write_text(json.dumps({"source": source, "target": target, "rows": load.inserts}))
    asked.chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers.jdbc", str(asked)],
        check=True,
        timeout=_TIMEOUT,
        stdout=subprocess.PIPE,
        cwd=Path.cwd(),
    )
    return float(done.stdout.split()[-1])


def _url(server: DatabaseServer, load: Workload, more: str) -> dict[str, str]:
    url = f"jdbc:mysql://{server.host}:{server.port}/{load.database}?{_OPTIONS}&{more}"
    return {"url": url, "user": server.user, "password": server.password, "driver": "com.mysql.cj.jdbc.Driver"}


def main() -> None:
    import os
    import time

    from pyspark.sql import SparkSession

    asked = json.loads(Path(sys.argv[1]).read_text())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    began = time.monotonic()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .config("spark.jars.packages", _DRIVER)
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    started = time.monotonic() - began
    ranges = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(asked["rows"])}
    read = {"dbtable": "orders", "numPartitions": str(_PARTITIONS), "fetchsize": "-2147483648", **ranges}
    frame = spark.read.format("jdbc").options(**asked["source"], **read).load()
    frame.write.format("jdbc").options(**asked["target"], dbtable="orders", batchsize="10000").mode("append").save()
    spark.stop()
    print(started)  # noqa: T201  for the process that asked


if __name__ == "__main__":
    main()
