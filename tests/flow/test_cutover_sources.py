"""A cutover that leaves two servers: both are closed or both are open, whatever is killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import READ_ONLY, account, connected
from tests.flow.test_cutover_killed import CLOSED_ONE, alone_killed
from tests.forked import Child, Migration
from tests.helpers import unique

pytestmark = pytest.mark.long

CONFIG = """\
name: {name}
{servers}copy: {{master: 'local[1]'}}
verify: {{rechecks: 5, recheck_seconds: 0.5, master: 'local[1]'}}
cutover: {{stop: read_only, wait_seconds: 1, freeze_seconds: 60, max_lag_seconds: 60}}
kafka: {{bootstrap: '{bootstrap}', partitions: 2}}
databases: {{one: {{target: target1, database: {name}_1}}, two: {{target: target1, database: {name}_2}}}}
publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5}}
consume: {{merge_interval_seconds: 0.3, idle_seconds: 0.5}}
commit: {{idle_seconds: 0.5}}
delay: {{tiers_seconds: [0.5, 1]}}
lease: {{seconds: 3}}
run_dir: {run_dir}
tables:
  - {{name: {name}_src.orders, source: source, sharding: {{nodes: one.orders}}}}
  - {{name: {name}_src.orders, source: second, sharding: {{nodes: two.orders}}}}
"""
ROWS = "SELECT id, value FROM orders ORDER BY id"


class TwoSources:
    """Table `orders` of two servers, to a table each at one server; both ways run."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box, self.directory, self.name = box, directory, unique("two")
        self.sources, self.target = (box.source, box.targets[1]), box.targets[0]
        self._children: list[Child] = []
        for number, server in enumerate(self.sources, 1):
            server.execute(
                f"CREATE DATABASE {self.name}_src",
                f"CREATE TABLE {self.name}_src.orders (id INT PRIMARY KEY, value INT NOT NULL)",
                f"INSERT INTO {self.name}_src.orders VALUES (0, 0), (1, {number}), (2, 2)",
            )
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        line = next(line for line in servers.splitlines() if "name: target2" in line)
        servers = servers.replace(line + "\n", "").replace(
            "targets:", line.replace("target2", "second", 1) + "\ntargets:"
        )
        values = {"name": self.name, "servers": servers, "bootstrap": kafka.bootstrap, "run_dir": directory / "run"}
        self.migration = Migration(box, directory, CONFIG.format(**values))
        self.accounts: list[dict[str, str]] = []

    def begin(self) -> None:
        self.migration.do("init")
        self.migration.start()
        self.migration.ask("copy")
        self.migration.ask("drain", "--timeout", str(SLOW))
        self.migration.do("--reverse", "init")
        self.child("back", "--reverse", "run")
        self.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        for number, server in enumerate(self.sources, 1):
            self.accounts.append(account(server, f"s{number}{self.name[-20:]}", f"{self.name}_src"))
        self.accounts.append(account(self.target, f"t{self.name[-20:]}", f"`{self.name}_%`"))
        self.migration.ask("verify")

    def child(self, label: str, *arguments: str) -> Child:
        child = Child(f"migrate {label}", self.directory / f"{label}.log", Path.cwd())
        child.start(self.migration.command(*arguments), self.migration.environment)
        self._children.append(child)
        return child

    def state_of(self, question: str) -> Any:
        return self.target.query(question, database=f"{self.name}_state")

    def nobody_switches(self) -> None:
        held = "SELECT COUNT(*) FROM lease WHERE name = 'cutover' AND expires > NOW(6)"
        wait(lambda: self.state_of(held)[0][0] == 0, "the lease of the one that was killed")

    def write(self, number: int, statement: str) -> None:
        """By an application; 0 and 1: at the sources, 2: at the target, where the database is named."""
        server = (*self.sources, self.target)[number]
        database = f"{self.name}_src" if number < 2 else f"{self.name}_1"
        with closing(connected(server, database, self.accounts[number])) as connection:
            connection.cursor().execute(statement)

    def writable(self) -> list[bool]:
        """Whether applications can write at the first source, at the second, and at the target."""
        found = []
        for number in range(3):
            try:
                self.write(number, "UPDATE orders SET value = value WHERE id = 0")
            except pymysql.MySQLError as error:
                if error.args[0] != READ_ONLY:
                    raise
                found.append(False)
            else:
                found.append(True)
        return found

    def stage(self) -> str:
        return str(self.migration.ask("status")["stage"])

    def at_sources(self) -> list[Any]:
        return [server.query(ROWS, database=f"{self.name}_src") for server in self.sources]

    def at_target(self) -> list[Any]:
        return [self.target.query(ROWS, database=f"{self.name}_{number}") for number in (1, 2)]

    def close(self) -> None:
        for child in self._children:
            child.kill()
        self.migration.stop()
        for server in (*self.sources, self.target):
            server.execute("SET GLOBAL read_only = 0")


@contextmanager
def two_sources(box: Sandbox, kafka: KafkaBroker, directory: Path) -> Iterator[TwoSources]:
    with closing(TwoSources(box, kafka, directory)) as made:
        made.begin()
        yield made


@pytest.mark.timeout(600)
def test_two_sources_are_left_together_and_come_back_together(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with two_sources(box, kafka, tmp_path) as one:
        ask, do = one.migration.ask, one.migration.do
        launcher.run_killed(one.migration, "after", *CLOSED_ONE, "cutover")
        wait(lambda: not one.state_of("SELECT 1 FROM cutover WHERE finished IS NULL"), "the guardian")
        one.nobody_switches()
        assert (one.writable(), one.stage()) == ([True, True, True], "ready")

        alone_killed(one, *CLOSED_ONE, "cutover", "hold-after")
        assert one.writable()[:2] == [False, True]
        assert (one.stage(), ask("status")["next"]) == ("switching", "migrate cutover --abort")
        do("cutover", "--abort")
        assert (one.writable(), one.stage()) == ([True, True, True], "ready")

        one.write(0, "UPDATE orders SET value = 11 WHERE id = 1")
        one.write(1, "INSERT INTO orders VALUES (3, 33)")
        report = ask("cutover")
        assert set(report["ends"]) == {"source", "second"}
        assert (one.writable(), one.stage()) == ([False, False, True], "switched")
        assert one.at_target() == [((0, 0), (1, 11), (2, 2)), ((0, 0), (1, 2), (2, 2), (3, 33))]

        one.write(2, f"UPDATE {one.name}_1.orders SET value = 111 WHERE id = 1")
        one.write(2, f"DELETE FROM {one.name}_2.orders WHERE id = 3")
        # given back at one of them
        launcher.run_killed(one.migration, "after", "migrate.state.cutover:drop_block", 1, "rollback")
        wait(lambda: one.writable() == [True, True, False], "the guardian to open the second source too")
        wait(lambda: one.stage() == "reversed", "the guardian to be done")
        assert one.at_sources() == [((0, 0), (1, 111), (2, 2)), ((0, 0), (1, 2), (2, 2))] == one.at_target()
