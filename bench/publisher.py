"""This project's publishers under measurement: the real processes, state database, sources and broker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.topic import Run, Topic
from bench.workload import Workload
from sandbox import snippet
from sandbox.demo.migration import Migration
from sandbox.process import Child
from sandbox.stack import Sandbox

PARTITIONS = 4  # the config's default


class Publishers:
    """One migration with a publisher for each of its sources, of one table each."""

    def __init__(self, box: Sandbox, directory: Path, sources: Sequence[str], load: Workload) -> None:
        name = directory.name
        servers = snippet.config(box, sources).replace("state: {", f"state: {{database: {name}_state, ", 1)
        tables = "".join(
            f"  - {{name: {load.database}.orders, source: {source}, sharding: {{nodes: ds_0.orders_{number}}}}}\n"
            for number, source in enumerate(sources)
        )
        text = (
            f"name: {name}\n{servers}databases:\n  ds_0: {{target: target1, database: {name}}}\n"
            f"tables:\n{tables}run_dir: {directory / 'run'}\n"
        )
        self._migration = Migration(box, directory, text)
        self.children = {
            source: Child(f"publisher of {name}, {source}", directory / f"{source}.log", Path.cwd())
            for source in sources
        }
        self.topic = Topic(box.kafka.bootstrap, f"migrate.{name}", PARTITIONS)

    def init(self) -> None:
        self._migration.do("init")

    def stop(self) -> None:
        for child in self.children.values():
            child.stop(60)

    def start(self) -> None:
        for source, child in self.children.items():
            command = self._migration.command("publish", "--source", source)
            child.start(command, self._migration.environment)

    def wait_until_started(self) -> None:
        self._migration.wait(self._has_started, 120, "the publishers to start")

    def _has_started(self) -> bool:
        return all(source["published"] for source in self._migration.ask("status")["sources"])


class Publisher:
    """That of the first source, for one workload. Made before the workload ran, it starts before the workload."""

    def __init__(self, box: Sandbox, directory: Path, load: Workload, number: int) -> None:
        self._source = snippet.sources(box)[0][0]
        self._publishers = Publishers(box, directory / f"bench_{load.name}_{number}", [self._source], load)
        self._load = load

    def prepare(self) -> None:
        """Store the source's position as it is now."""
        self._publishers.init()
        self._publishers.start()
        try:
            self._publishers.wait_until_started()
        finally:
            self._publishers.stop()

    def run(self, timeout: float) -> Run:
        """From the stored position to the workload's last row."""
        self._publishers.start()
        try:
            child = self._publishers.children[self._source]
            return self._publishers.topic.watch(child.pid, self._load.rows, rows_of, timeout)
        finally:
            self._publishers.stop()
            time.sleep(0.2)
            self._publishers.topic.delete()


def rows_of(message: dict[str, Any]) -> int:
    return len(message["data"])
