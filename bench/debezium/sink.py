"""Debezium's JDBC sink under measurement: one table, upserts in batches of 5,000, its reduction buffer on."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from bench.consumer import Applied
from bench.debezium import home, sink_home, start_connect
from bench.topic import Topic, cpu_seconds, peak_mb
from bench.workload import Workload, create_table
from sandbox.ports import free_port
from sandbox.stack import Sandbox

_SAMPLE_SECONDS = 0.05


class JdbcSink:
    """From a topic that the Debezium source filled, with schemas, to the target server."""

    def __init__(self, box: Sandbox, directory: Path, load: Workload, topic: Topic) -> None:
        self._box = box
        self._directory = directory
        self._load = load
        self._topic = topic

    def run(self, number: int, timeout: float) -> Applied:
        """Raises when the target does not end as the source."""
        target, database = self._box.targets[0], f"sink_{number}"
        work = self._directory / database
        work.mkdir(parents=True)
        create_table(target, database)
        fields = {
            "NAME": database,
            "WORK": str(work),
            "BOOTSTRAP": self._box.kafka.bootstrap,
            "PLUGINS": f"{home() / 'plugins'},{sink_home() / 'plugins'}",
            "REST": str(free_port()),
            "PORT": str(target.port),
            "USER": target.user,
            "PASSWORD": target.password,
            "DATABASE": database,
            "TOPIC": self._topic.name,
            "SCHEMAS": "true",
        }
        sums = f"SELECT COUNT(*), SUM(status), SUM(id) FROM {self._load.database}.orders WHERE id > 0"
        (wanted,) = self._box.source.query(sums)
        deadline = time.monotonic() + timeout
        child = start_connect(work, "sink.properties", fields)
        began: tuple[float, float, float] | None = None
        try:
            with closing(target.connect(database)) as connection, connection.cursor() as cursor:
                while True:
                    now = time.monotonic(), cpu_seconds(child.pid), cpu_seconds(target.pid)
                    cursor.execute("SELECT MAX(id) FROM orders")
                    (most,) = cursor.fetchone() or (None,)
                    if began is None and most:
                        began = now
                    if most == self._load.inserts:
                        cursor.execute("SELECT COUNT(*), SUM(status), SUM(id) FROM orders")
                        if cursor.fetchone() == wanted:
                            break
                    if now[0] > deadline or not child.running:
                        raise TimeoutError(f"the sink is not through:\n{(work / 'log').read_text()[-2000:]}")
                    time.sleep(_SAMPLE_SECONDS)
                peak = peak_mb(child.pid)
        finally:
            child.stop(60)
        if began is None:
            raise AssertionError("all of it came between two looks")
        first, cpu, server = began
        return Applied(self._load.rows, now[0] - first, now[1] - cpu, now[2] - server, peak)
