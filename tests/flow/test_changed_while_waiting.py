"""Processes that waited while `migrate init` changed the migration do not go on by the plan of before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.demo.migration import PROCESSES
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, frozen, wait
from tests.flow.grouped import COLUMNS
from tests.forked import Child, Migration
from tests.helpers import unique

AGAIN = 4  # the exit code of a process that shall be started again


class World:
    """The group `orders` of one source: orders_0, and once `joins` is called orders_1 too. One partition, so that of
    two consumers one waits."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box = box
        self.name = unique("waiting")
        self.source, self.target = f"{self.name}_src", f"{self.name}_all"
        self.children: dict[str, Child] = {}
        box.source.execute(f"CREATE DATABASE {self.source}")
        self.sql(f"CREATE TABLE orders_0 ({COLUMNS})", f"CREATE TABLE orders_1 ({COLUMNS})")
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        self._config = (
            f"name: {self.name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 1}}\n"
            f"databases: {{ds: {{target: target1, database: {self.target}}}}}\n"
            "publish: {flush_seconds: 0.2}\nconsume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\n"
            f"commit: {{idle_seconds: 0.5}}\nlease: {{seconds: 2}}\nrun_dir: {directory / 'run'}\ntables:\n"
            f"  - {{name: '{self.source}.orders_?', group: orders, sharding: {{nodes: ds.orders}}, exclude: []}}\n"
        )
        alone = self._config.replace("exclude: []", f"exclude: ['{self.source}.orders_1']")
        self.migration = Migration(box, directory, alone)

    def joins(self) -> None:
        self.migration.config.write_text(self._config)
        self.migration.do("init")

    def sql(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.source)

    def state(self, statement: str) -> list[tuple[Any, ...]]:
        return [*self.box.targets[0].query(statement, database=f"{self.name}_state")]

    def start(self, number: int) -> None:
        for process in PROCESSES:
            label = f"{process}-{number}"
            child = Child(f"migrate {label}", self.migration.directory / f"{label}.log", Path.cwd())
            child.start(self.migration.command(process), self.migration.environment)
            self.children[label] = child

    def pid_of(self, lease: str) -> int | None:
        found = self.state(f"SELECT holder FROM lease WHERE name LIKE '{lease}' AND expires > NOW(6)")
        return int(found[0][0].split(":")[1]) if found else None

    def waiting(self) -> list[Child] | None:
        """The second of each, once all of them are there and stand by."""
        found = []
        for process in PROCESSES[:1] + PROCESSES[2:]:
            second = self.children[f"{process}-2"]
            if "standing by" not in second.log.read_text("utf-8"):
                return None
            found.append(second)
        members = self.state(
            "SELECT holder FROM lease WHERE name LIKE 'member:%' AND expires > NOW(6) ORDER BY name COLLATE utf8mb4_bin"
        )
        worker = self.pid_of("partition:%")
        if len(members) != 2 or worker != int(members[0][0].split(":")[1]):  # it is passed on to the first of them
            return None
        both = [self.children["consume-1"], self.children["consume-2"]]
        return found + [child for child in both if child.pid != worker]

    def close_copy(self) -> None:
        self.box.targets[0].execute(
            "INSERT INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt, closed)"
            f" VALUES ('{self.name}', 'source', '{self.source}', 'orders_0', -1, 1, 1)",
            database=self.target,
        )
        self.box.targets[0].execute("UPDATE phase SET phase = 'copied'", database=f"{self.name}_state")

    def differences(self) -> set[tuple[object, ...]]:
        both = f"SELECT * FROM {self.source}.orders_0 UNION ALL SELECT * FROM {self.source}.orders_1"
        return {*self.box.source.query(both)} ^ {*self.box.targets[0].query(f"SELECT * FROM {self.target}.orders")}


@pytest.fixture
def world(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[World]:
    made = World(box, kafka, tmp_path)
    yield made
    for child in made.children.values():
        child.kill()


def test_processes_that_stood_by_while_a_table_joined_a_group_end_and_start_with_it(world: World) -> None:
    world.migration.do("init")
    world.start(1)
    wait(lambda: world.state("SELECT 1 FROM position"), "the publisher to begin")
    world.close_copy()
    world.sql("INSERT INTO orders_0 VALUES (1, 1, 1, ''), (2, 2, 2, '')")
    world.migration.ask("drain", "--timeout", str(SLOW))
    world.start(2)
    waiting: list[Child] = wait(world.waiting, "the second of each to stand by")
    with ExitStack() as until:
        for child in waiting:
            until.enter_context(frozen(child.pid))
        for child in world.children.values():
            if child not in waiting:
                child.stop()
        world.joins()
    for child in waiting:
        assert child.wait(SLOW), f"{child.name} still runs"
        told = child.log.read_text("utf-8")
        assert f"{world.source}.orders_1 of source 'source' was added or changed by `migrate init`" in told, told
        assert child.returncode == AGAIN, told

    world.start(3)
    joined = f"{world.source}.orders_1"
    wait(lambda: world.migration.ask("status")["tables"][joined] == "created", "the publisher to begin with it")
    world.sql("INSERT INTO orders_1 VALUES (3, 3, 3, '')", "DELETE FROM orders_0 WHERE id = 1")
    world.sql("INSERT INTO orders_1 VALUES (1, 1, 10, 'moved')")
    wait(lambda: not world.differences(), "the rows of both to be at the target")
