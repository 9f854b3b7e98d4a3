"""This project's publisher under measurement: the real process, state database, source and broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.topic import Run, Topic
from bench.workload import Workload
from sandbox import snippet
from sandbox.demo.migration import Migration
from sandbox.process import Child
from sandbox.stack import Sandbox

_CONFIG = """\
name: {name}
{servers}
databases:
  ds_0: {{target: target1, database: {name}}}
tables:
  - name: {table}
    sharding: {{nodes: ds_0.orders}}
"""
PARTITIONS = 4  # the config's default


class Publisher:
    """One migration of one workload's table. Made before the workload ran, it starts before the workload."""

    def __init__(self, box: Sandbox, directory: Path, load: Workload, number: int) -> None:
        name = f"bench_{load.name}_{number}"
        servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
        config = _CONFIG.format(name=name, servers=servers, table=f"{load.database}.orders")
        self._load = load
        self._migration = Migration(box, directory / name, config + f"run_dir: {directory / name / 'run'}\n")
        self._child = Child(f"publisher of {name}", directory / name / "publish.log", Path.cwd())
        self._topic = Topic(box.kafka.bootstrap, f"migrate.{name}", PARTITIONS)

    def prepare(self) -> None:
        """Store the source's position as it is now."""
        self._migration.do("init")
        self._start()
        try:
            self._migration.wait(self._has_started, 60, "the publisher to start")
        finally:
            self._child.stop(60)

    def _has_started(self) -> bool:
        return all(source["published"] for source in self._migration.ask("status")["sources"])

    def _start(self) -> None:
        self._child.start(self._migration.command("publish"), self._migration.environment)

    def run(self, timeout: float) -> Run:
        """From the stored position to the workload's last row."""
        self._start()
        try:
            return self._topic.watch(self._child.pid, self._load.rows, rows_of, timeout)
        finally:
            self._child.stop(60)
            time.sleep(0.2)
            self._topic.delete()


def rows_of(message: dict[str, Any]) -> int:
    return len(message["data"])
