"""Two migrations one behind the other: what the first writes at its target, the second carries on from there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.forked import Child, Migration
from tests.helpers import unique

pytestmark = pytest.mark.timeout(300)
TABLE = "CREATE TABLE orders (id INT PRIMARY KEY, v INT)"


class Step:
    """One of the two, from a database of a server to one of another."""

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        name: str,
        source: tuple[DatabaseServer, str],
        to: int,
        tables: str = "orders",
        nodes: str = "ds.orders",
        more: str = "",
    ) -> None:
        """more: further sections of the config."""

        def server(one: DatabaseServer) -> str:
            return f"host: {one.host}, port: {one.port}, user: {one.user}, password: '{one.password}'"

        (at, database), target = source, box.targets[to]
        self.name, self.target = name, (target, f"{name}_target")
        self.migration = Migration(
            box,
            directory / name,
            f"name: {name}\n"
            f"state: {{{server(target)}, database: {name}_state}}\n"
            f"sources: [{{name: main, {server(at)}}}]\ntargets: [{{name: t, {server(target)}}}]\n"
            f"databases: {{ds: {{target: t, database: {name}_target}}}}\n"
            f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\nlease: {seconds: 3}\n"
            "consume: {merge_interval_seconds: 0.2, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            f"run_dir: {directory / name / 'run'}\n{more}"
            f"tables: [{{name: '{database}.{tables}', sharding: {{nodes: '{nodes}'}}}}]\n",
        )
        self._children: list[Child] = []

    def begin(self, *processes: str) -> None:
        for words in processes:
            child = Child(
                words, self.migration.directory / f"{words.split()[-1]}-{len(self._children)}.log", Path.cwd()
            )
            child.start(self.migration.command(*words.split()), self.migration.environment)
            self._children.append(child)

    def up(self, *way: str) -> None:
        """Make the migration, or with `--reverse` its reverse stream, and start what reads and what writes."""
        self.migration.do(*way, "init")
        self.begin(*(" ".join((*way, process)) for process in ("publish", "consume")))
        server, database, ways = self.target[0], f"{self.name}_state", 1 + len(way)
        wait(lambda: len(server.query("SELECT 1 FROM position", database=database)) >= ways, "the publishers to begin")

    def close(self) -> None:
        for child in self._children:
            child.kill()


def rows(where: tuple[DatabaseServer, str]) -> Any:
    return where[0].query("SELECT id, v FROM orders ORDER BY id", database=where[1])


def test_what_one_migration_writes_the_next_one_carries_on_and_their_ways_back_too(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: what the first migration had written at its target, which the second dropped as its own by the fence's
    table; and what was written by hand at a standby side in the middle was carried."""
    name = unique("chain")
    first_source = (box.source, f"{name}_src")
    box.source.execute(f"CREATE DATABASE {first_source[1]}")
    box.source.execute(TABLE, database=first_source[1])
    with closing(Step(box, kafka, tmp_path, f"{name}_a", first_source, 0)) as first:
        first.up()
        with closing(Step(box, kafka, tmp_path, f"{name}_b", first.target, 1)) as second:
            second.up()
            first.up("--reverse")
            second.up("--reverse")
            values = ", ".join(f"({key}, {key})" for key in range(1, 51))
            box.source.execute(
                f"INSERT INTO orders VALUES {values}",
                "UPDATE orders SET v = -v WHERE id > 20",
                "DELETE FROM orders WHERE id > 40",
                database=first_source[1],
            )
            wait(lambda: rows(second.target) == rows(first_source), "the rows to come to the end")
            assert rows(first.target) == rows(first_source)
            assert len(rows(first_source)) == 40
            # By hand in the middle: for the first one a standby side, for the second one its active source.
            first.target[0].execute("UPDATE orders SET v = 777 WHERE id = 1", database=first.target[1])
            wait(lambda: (1, 777) in rows(second.target), "the change to come to the end")
            listed = first.migration.ask("foreign", "list")["listed"]
            assert [row["key"] for row in listed] == [["1"]]
            assert (1, 1) in rows(first_source)
            assert second.migration.ask("foreign", "list")["count"] == 0


def test_what_a_reverse_stream_writes_at_a_source_is_carried_on_by_a_migration_that_reads_there_too(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: what applications wrote at the first migration's target after its cutover: its stream back brought it to
    the source, where the second took it for a stream's of its own."""
    name = unique("fork")
    source = (box.source, f"{name}_src")
    box.source.execute(f"CREATE DATABASE {source[1]}")
    box.source.execute(TABLE, database=source[1])
    with (
        closing(Step(box, kafka, tmp_path, f"{name}_a", source, 0)) as first,
        closing(Step(box, kafka, tmp_path, f"{name}_b", source, 1)) as second,
    ):
        for step in (first, second):
            step.up()
        first.up("--reverse")
        box.source.execute("INSERT INTO orders VALUES (1, 1), (2, 2)", database=source[1])
        wait(lambda: rows(first.target) == rows(second.target) == rows(source), "the first rows")
        put_applications_at_the_target(first, source)
        server, database = first.target
        server.execute(
            "INSERT INTO orders VALUES (3, 3)",
            "UPDATE orders SET v = 7 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            database=database,
        )
        wait(lambda: rows(second.target) == rows(first.target), "what was written there to come to the second target")
        assert rows(source) == ((1, 7), (3, 3)) == rows(second.target)


def put_applications_at_the_target(step: Step, source: tuple[DatabaseServer, str]) -> None:
    """What a cutover leaves in the state, and the roles of both sides."""
    server, database = step.target
    server.execute(
        "UPDATE application_switch SET side = 'target', version = version + 1", database=f"{step.name}_state"
    )
    role = "UPDATE _migrate_role SET role = '{}', version = version + 1, writes = writes + 1 WHERE migration = '{}'"
    source[0].execute(role.format("standby", f"{step.name}-reverse"), database=source[1])
    server.execute(role.format("active", step.name), database=database)
