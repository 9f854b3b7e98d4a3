"""A broadcast table of a ShardingSphere rule file: every row at every node, through a migration there and back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.forked import Child, Migration
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # one migration with two cutovers, and Spark
NODES = 2
RULES = """\
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_${0..1}.orders
      databaseStrategy: {standard: {shardingColumn: id, shardingAlgorithmName: by_id}}
  shardingAlgorithms: {by_id: {type: INLINE, props: {algorithm-expression: 'ds_${id % 2}'}}}
- !BROADCAST
  tables: [countries]
"""


class Countries:
    """Table `countries` with further columns, a unique key and rows, at a node of each of two target servers."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box, self.name = box, unique("bcast")
        self.database = f"{self.name}_src"
        columns = "id INT NOT NULL PRIMARY KEY, code VARCHAR(8) NOT NULL UNIQUE, name VARCHAR(40) NOT NULL"
        box.source.execute(f"CREATE DATABASE {self.database}", f"CREATE TABLE {self.database}.countries ({columns})")
        self.sql(
            "INSERT INTO countries WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 400)"
            " SELECT n, CONCAT('c', n), 'copied' FROM seq"
        )
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        databases = (f"  ds_{one}: {{target: target{one + 1}, database: {self.name}_{one}}}\n" for one in range(NODES))
        (directory / "rules.yaml").write_text(RULES, "utf-8")
        config = (
            f"name: {self.name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            f"databases:\n{''.join(databases)}"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            "verify: {master: 'local[1]', chunk_rows: 150, rechecks: 2, recheck_seconds: 0.5}\n"
            "copy: {master: 'local[1]', chunk_rows: 50, chunks_at_once: 2}\n"
            "delay: {tiers_seconds: [0.5, 1]}\nlease: {seconds: 8}\n"
            "cutover: {stop: read_only, wait_seconds: 0.5, freeze_seconds: 60, max_lag_seconds: 60}\n"
            f"run_dir: {directory / 'run'}\n"
            f"tables:\n  - name: {self.database}.countries\n    sharding: {{file: rules.yaml}}\n"
        )
        self.migration = Migration(box, directory, config)
        self.nodes = [f"{self.name}_{one}.countries" for one in range(NODES)]
        self._reverse = Child("migrate reverse run", directory / "reverse.log", Path.cwd())

    def sql(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.database)

    def at_nodes(self, *statements: str, nodes: tuple[int, ...] = (0, 1)) -> None:
        """As ShardingSphere-JDBC: each statement at every node, one after the other."""
        for statement in statements:
            for node in nodes:
                self.box.targets[node].execute(statement, database=f"{self.name}_{node}")

    def start_reverse(self) -> None:
        self.migration.do("--reverse", "init")
        self._reverse.start(self.migration.command("--reverse", "run"), self.migration.environment)
        self.drain("--reverse")

    def refused(self, *arguments: str, code: int) -> str:
        """What a command says that ends with this exit code."""
        ended = self.migration.run(*arguments)
        assert ended.returncode == code, (arguments, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def drain(self, *which: str) -> None:
        self.migration.ask(*which, "drain", "--timeout", "180")

    @contextmanager
    def writer(self) -> Iterator[None]:
        """Inserts, updates and deletes rows at the source all the while."""
        ended = threading.Event()

        def write() -> None:
            number = 0
            while not ended.wait(0.1):
                number += 1
                self.sql(
                    f"INSERT INTO countries VALUES ({1000 + number}, 'w{number}', 'live')",
                    f"UPDATE countries SET name = 'live {number}' WHERE id = {1 + number % 400}",
                    f"DELETE FROM countries WHERE id = {1000 + number - 3} OR id = {400 - number % 300}",
                    f"UPDATE countries SET code = 'swap' WHERE id = {1000 + number}",
                    f"UPDATE countries SET code = 'w{number}' WHERE id = {1000 + number}",
                )

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(60)
            assert not thread.is_alive()

    def rows(self, server: DatabaseServer, table: str) -> dict[Any, Any]:
        return {row[0]: row for row in server.query(f"SELECT * FROM {table}")}

    def differences(self) -> list[str]:
        """What a node has otherwise than the source; read with the servers' own clients."""
        wanted = self.rows(self.box.source, f"{self.database}.countries")
        return [
            f"node {node}: {key}: {there.get(key)} against {wanted.get(key)}"
            for node in range(NODES)
            for there in [self.rows(self.box.targets[node], self.nodes[node])]
            for key in {*wanted, *there}
            if there.get(key) != wanted.get(key)
        ]

    def named(self, *which: str) -> dict[str, tuple[str, str]]:
        """What a verification that finds differences says of each key."""
        (table,) = self.migration.ask(*which, "verify", accept=(1,))["tables"]
        return {one["key"][0]: (one["kind"], one["detail"]) for one in table["named"]}

    def close(self) -> None:
        self._reverse.kill()
        self.migration.stop()
        for server in (self.box.source, *self.box.targets):
            server.execute("SET GLOBAL read_only = 0")


def test_every_node_has_every_row_there_and_back_and_there_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Countries(box, kafka, tmp_path)) as one:
        ask, do = one.migration.ask, one.migration.do
        do("init")
        one.migration.start()
        with one.writer():
            (copied,) = ask("copy")["tables"]
            one.sql("UPDATE countries SET id = 8000 WHERE id = 200")
        one.drain()
        assert one.differences() == []
        first, second = (f"target{node + 1}/{one.nodes[node]}" for node in range(NODES))
        assert copied["places"] == dict.fromkeys((first, second), copied["counts"]["rows_read"])

        # A row is wrong, one is missing and one is too many: at the second node alone.
        one.at_nodes(
            "UPDATE countries SET name = 'wrong' WHERE id = 2",
            "DELETE FROM countries WHERE id = 3",
            "INSERT INTO countries VALUES (9000, 'e', 'extra'), (9001, 'f', 'extra')",
            nodes=(1,),
        )
        assert one.named() == {
            "2": ("different", f"in {second}: name"),
            "3": ("missing", f"is not in {second}"),
            "9000": ("extra", f"is in {second}, not at the source"),
            "9001": ("extra", f"is in {second}, not at the source"),
        }
        (counted,) = ask("verify", "--mode", "count", accept=(1,))["tables"]
        rows = counted["rows"]
        assert (counted["counts_differ"], counted["by_place"][second]) == (True, rows + 1)
        told = {place["place"]: place["row"] for place in ask("explain", f"{one.database}.countries", "3")["places"]}
        assert told == {first: "same as at the source", second: "is not there"}
        (table,) = ask("verify", "--repair")["tables"]
        assert (table["differences"], table["repaired"], table["nodes"]) == (0, 4, NODES)
        assert one.differences() == []

        one.start_reverse()
        (table,) = ask("verify")["tables"]
        assert (table["rows"], table["target_rows"], table["differences"]) == (rows, NODES * rows, 0)

        # Somebody writes at a side that is standby, at one node.
        one.at_nodes("UPDATE countries SET name = 'by hand' WHERE id = 4", nodes=(1,))
        one.drain("--reverse")
        wait(lambda: ask("foreign", "list"), "the write to be listed")
        told_by = one.refused("foreign", "carry", one.nodes[1], "4", code=3)
        assert "was written at this node of a broadcast table, and not at the first one" in told_by
        do("foreign", "discard", one.nodes[1], "4")
        assert one.differences() == []

        ask("cutover")
        one.at_nodes(
            "INSERT INTO countries VALUES (2000, 'new', 'new')",
            "UPDATE countries SET name = 'changed', code = 'x5' WHERE id = 5",
            "DELETE FROM countries WHERE id = 6",
            "UPDATE countries SET id = 2001 WHERE id = 2000",
        )
        one.drain("--reverse")
        assert one.differences() == []
        assert one.rows(box.source, f"{one.database}.countries")[2001] == (2001, "new", "new")

        # Nodes that differ are found, and no rollback goes over them.
        one.at_nodes("UPDATE countries SET name = 'one alone' WHERE id = 7", nodes=(1,))
        one.drain("--reverse")
        assert "target2/" in one.refused("rollback", code=1)
        ((kind, detail),) = one.named("--reverse").values()
        assert (kind, detail.startswith(f"target2/{one.nodes[1]}: not as at the first node")) == ("different", True)
        assert "1 row found different, and not verified since" in one.refused("rollback", code=3)
        one.at_nodes("INSERT INTO countries VALUES (9500, 'g', 'extra')", nodes=(1,))
        (counted,) = ask("--reverse", "verify", "--mode", "count", accept=(1,))["tables"]
        assert (counted["counts_differ"], counted["nodes"]) == (True, NODES)
        assert [(item["key"], item["kind"]) for item in counted["named"]] == [(["9500"], "extra")]
        one.at_nodes("DELETE FROM countries WHERE id = 9500", nodes=(1,))
        one.at_nodes("UPDATE countries SET name = 'one alone' WHERE id = 7", nodes=(0,))
        one.drain("--reverse")
        (table,) = ask("--reverse", "verify")["tables"]
        assert (table["differences"], table["nodes"]) == (0, NODES)

        # A row that somebody wrote at the source, which is standby by now, is carried to every node.
        one.sql("UPDATE countries SET name = 'carried' WHERE id = 8")
        one.drain()
        wait(lambda: ask("foreign", "list"), "the write to be listed")
        do("foreign", "carry", f"{one.database}.countries", "8")
        one.drain("--reverse")
        assert one.differences() == []
        assert one.rows(box.targets[1], one.nodes[1])[8][2] == "carried"

        do("rollback")
        one.sql("DELETE FROM countries WHERE id = 9", "INSERT INTO countries VALUES (3000, 'again', 'again')")
        one.drain()
        assert one.differences() == []
        ask("verify")
        ask("cutover")
        one.at_nodes("DELETE FROM countries WHERE id = 3000")
        one.drain("--reverse")
        assert one.differences() == []
