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
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from sandbox.workdir import owned
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.support import left_behind
from tests.flow.test_cutover import READ_ONLY, account, connected
from tests.flow.test_cutover_killed import CLOSED_ONE, alone_killed
from tests.forked import Child, Migration
from tests.helpers import unique

pytestmark = pytest.mark.long

CONFIG = """\
name: {name}
{servers}copy: {{master: 'local[1]'}}
verify: {{rechecks: 5, recheck_seconds: 0.5, master: 'local[1]'}}
cutover: {{stop: read_only, wait_seconds: 1, freeze_seconds: 20, max_lag_seconds: 60}}
kafka: {{bootstrap: '{bootstrap}', partitions: 2}}
databases: {{ds_0: {{target: target1, database: {name}_1}}, ds_1: {{target: {third}, database: {name}_2}}}}
source_databases:
  src_0: {{source: source, database: {name}_src}}
  src_1: {{source: second, database: {name}_src}}
publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5}}
consume: {{merge_interval_seconds: 0.3, idle_seconds: 0.5}}
commit: {{idle_seconds: 0.5}}
delay: {{tiers_seconds: [0.5, 1]}}
lease: {{seconds: 3}}
run_dir: {run_dir}
tables:
"""
TABLE = """\
  - name: {name}_src.orders
    source: {source}
    group: orders
    sharding:
      nodes: "ds_${{0..1}}.orders"
      database: {{column: value, algorithm: MOD, props: {{sharding-count: 2}}}}
    home:
      nodes: "src_${{0..1}}.orders"
      database: {{column: owner, algorithm: MOD, props: {{sharding-count: 2}}}}
"""
ROWS = "SELECT id, owner, value FROM orders ORDER BY id"


AT_SOURCES, AT_TARGETS = [True, True, False, False], [False, False, True, True]
Rows = tuple[tuple[int, int, int], ...]


class Wider(Sandbox):
    """Another sandbox's servers, and one more target."""

    def __init__(self, box: Sandbox, further: DatabaseServer) -> None:
        self.flavour, self.root, self._kafka = box.flavour, box.root, None
        self.source, self.targets = box.source, [*box.targets, further]


class TwoSources:
    """Table `orders` of two servers, sharded there by owner, to a table in each of two databases, by value; both ways
    run. `third`: a server of its own for the second of these."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, third: DatabaseServer | None) -> None:
        self.directory, self.name = directory, unique("two")
        self.sources, self.target = (box.source, box.targets[1]), box.targets[0]
        self.targets = (self.target, third or self.target)
        self.servers = tuple(dict.fromkeys((*self.sources, *self.targets)))
        self._children: list[Child] = []
        for number, server in enumerate(self.sources):
            server.execute(
                f"CREATE DATABASE {self.name}_src",
                f"CREATE TABLE {self.name}_src.orders (id INT PRIMARY KEY, owner INT NOT NULL, value INT NOT NULL)",
                f"INSERT INTO {self.name}_src.orders VALUES ({number}, {number}, 0), ({number + 2}, {number}, 1)",
            )
        box = box if third is None else Wider(box, third)
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        line = next(line for line in servers.splitlines() if "name: target2" in line)
        servers = servers.replace(line + "\n", "").replace(
            "targets:", line.replace("target2", "second", 1) + "\ntargets:"
        )
        values = {"name": self.name, "servers": servers, "bootstrap": kafka.bootstrap, "run_dir": directory / "run"}
        config = CONFIG.format(**values, third="target3" if third else "target1")
        tables = (TABLE.format(name=self.name, source=source) for source in ("source", "second"))
        self.migration = Migration(box, directory, config + "".join(tables))
        self.accounts: list[dict[str, str]] = []
        self.back: Child | None = None

    def begin(self) -> None:
        self.migration.do("init")
        self.migration.start()
        self.migration.ask("copy")
        self.migration.ask("drain", "--timeout", str(SLOW))
        self.migration.do("--reverse", "init")
        self.back = self.child("back", "--reverse", "run")
        self.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        for number, server in enumerate(self.sources, 1):
            self.accounts.append(account(server, f"s{number}{self.name[-20:]}", f"{self.name}_src"))
        of_target = {server: account(server, f"t{self.name[-20:]}", f"`{self.name}_%`") for server in {*self.targets}}
        self.accounts += [of_target[server] for server in self.targets]
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

    def refused(self, *arguments: str, code: int = 3) -> str:
        """What a command says that ends with this exit code."""
        ended = self.migration.run(*arguments, timeout=2 * SLOW)
        said = ended.stdout + ended.stderr
        assert ended.returncode == code, (arguments, said)
        return said

    def write(self, number: int, statement: str) -> None:
        """By an application; 0 and 1: at the sources, 2 and 3: in the databases of the targets."""
        server = (*self.sources, *self.targets)[number]
        database = f"{self.name}_src" if number < 2 else f"{self.name}_{number - 1}"
        with closing(connected(server, database, self.accounts[number])) as connection:
            connection.cursor().execute(statement)

    def writable(self) -> list[bool]:
        """Whether applications can write at each of the sources, and of the targets."""
        found = []
        for number in range(4):
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

    def at_sources(self) -> list[Rows]:
        return [server.query(ROWS, database=f"{self.name}_src") for server in self.sources]

    def at_targets(self) -> list[Rows]:
        return [server.query(ROWS, database=f"{self.name}_{n}") for n, server in enumerate(self.targets, 1)]

    def close(self) -> None:
        for child in self._children:
            child.kill()
        self.migration.stop()
        for server in self.servers:
            if server.running:
                server.execute("SET GLOBAL read_only = 0")


@contextmanager
def two_sources(
    box: Sandbox, kafka: KafkaBroker, directory: Path, third: DatabaseServer | None = None
) -> Iterator[TwoSources]:
    with closing(TwoSources(box, kafka, directory, third)) as made:
        made.begin()
        yield made


@pytest.fixture
def third(box: Sandbox, run_root: Path) -> Iterator[DatabaseServer]:
    """A server that one test may lose."""
    with owned(run_root / unique("third"), keep=False) as root:
        server = DatabaseServer(box.flavour, root / "server", server_id=9)
        server.start()
        yield server
        server.kill()


@pytest.mark.timeout(900)
def test_two_sources_are_left_together_come_back_together_and_a_server_that_is_lost_is_left_by_name(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, third: DatabaseServer
) -> None:
    with two_sources(box, kafka, tmp_path, third) as one:
        killed_on_the_way(one)
        left_without_a_source(one)
        left_without_a_target(one, third)
        given_up(one)


def killed_on_the_way(one: TwoSources) -> None:
    """There and back, killed while one of two servers is closed, or is given back."""
    ask, do = one.migration.ask, one.migration.do
    launcher.run_killed(one.migration, "after", *CLOSED_ONE, "cutover")
    wait(lambda: not one.state_of("SELECT 1 FROM cutover WHERE finished IS NULL"), "the guardian")
    one.nobody_switches()
    assert (one.writable(), one.stage()) == ([True] * 4, "ready")

    alone_killed(one, *CLOSED_ONE, "cutover", "hold-after")
    assert one.writable()[:2] == [False, True]
    assert (one.stage(), ask("status")["next"]) == ("switching", "migrate cutover --abort")
    do("cutover", "--abort")
    assert (one.writable(), one.stage()) == ([True] * 4, "ready")

    one.write(0, "UPDATE orders SET value = 11 WHERE id = 2")
    one.write(1, "INSERT INTO orders VALUES (5, 1, 33)")
    report = ask("cutover")
    assert set(report["ends"]) == {"source", "second"}
    assert (one.writable(), one.stage()) == (AT_TARGETS, "switched")
    assert one.at_targets() == [((0, 0, 0), (1, 1, 0)), ((2, 0, 11), (3, 1, 1), (5, 1, 33))]

    one.write(2, "UPDATE orders SET owner = 1 WHERE id = 0")  # whose home is the second source then
    one.write(3, "UPDATE orders SET owner = 2, value = 111 WHERE id = 3")
    one.write(3, "DELETE FROM orders WHERE id = 5")
    rehearsed = ask("rollback", "--rehearse")
    assert (rehearsed["freeze_seconds"] > 0, rehearsed["measured"], one.writable()) == (True, False, AT_TARGETS)
    rehearsed = ask("rollback", "--rehearse", "--freeze")
    assert (set(rehearsed["ends"]), rehearsed["measured"]) == ({"target1", "target3"}, True)
    assert (one.writable(), one.stage()) == (AT_TARGETS, "switched")
    # given back at one of them
    launcher.run_killed(one.migration, "after", "migrate.state.cutover:drop_block", 1, "rollback")
    wait(lambda: one.writable() == AT_SOURCES, "the guardian to open the second source too")
    wait(lambda: one.stage() == "reversed", "the guardian to be done")
    assert one.at_sources() == [((2, 0, 11), (3, 2, 111)), ((0, 1, 0), (1, 1, 0))]
    assert one.at_targets() == [((0, 1, 0), (1, 1, 0)), ((2, 0, 11), (3, 2, 111))]


def left_without_a_source(one: TwoSources) -> None:
    """It comes back after all, and gets what belongs to it."""
    one.nobody_switches()
    lost = one.sources[1]
    lost.kill()
    try:
        assert "source 'second': " in one.refused("cutover")
        assert "there are: source, second" in one.refused("cutover", "--without", "target3")
        told = one.migration.do("cutover", "--without", "second")
        assert ("'second': up to " in told, "nothing was changed" in told, one.stage()) == (True, True, "reversed")
        assert "switched: applications are at the targets" in one.migration.do(
            "cutover", "--without", "second", "--yes"
        )
        one.write(2, "UPDATE orders SET owner = 2 WHERE id = 1")  # leaves the one that is lost
        one.write(3, "UPDATE orders SET owner = 3 WHERE id = 2")  # belongs there from now on
    finally:
        lost.start()
    wait(lambda: one.at_sources() == [((1, 2, 0), (3, 2, 111)), ((0, 1, 0), (2, 3, 11))], "the reverse stream")
    wait(lambda: one.migration.ask("status")["next"] == "migrate --reverse verify", "it to be all that is missing")
    assert "was left out of that switch, not verified since" in one.refused("rollback")
    one.migration.ask("--reverse", "verify")


def left_without_a_target(one: TwoSources, lost: DatabaseServer) -> None:
    """Its rows stay at the sources, each where it belongs, and what the other target has arrives."""
    one.write(3, "INSERT INTO orders VALUES (7, 1, 7)")
    one.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
    assert "'target3' answers" in one.refused("rollback", "--without", "target3", "--yes")
    lost.kill()
    assert "source 'target3': " in one.refused("rollback")
    assert "there are: target1, target3" in one.refused("rollback", "--without", "second")
    told = one.migration.do("rollback", "--without", "target3")
    assert ("'target3': up to " in told, "nothing was changed" in told, one.stage()) == (True, True, "switched")
    one.write(2, "UPDATE orders SET owner = 5 WHERE id = 1")
    one.write(2, "INSERT INTO orders VALUES (8, 8, 8)")
    done = one.migration.do("rollback", "--without", "target3", "--yes")
    assert "switched: applications are at the sources" in done
    assert one.stage() == "reversed"
    assert one.at_sources() == [((3, 2, 111), (8, 8, 8)), ((0, 1, 0), (1, 5, 0), (2, 3, 11), (7, 1, 7))]


def given_up(one: TwoSources) -> None:
    """Nothing stays at the servers that are there."""
    assert "processes still run" in one.refused("finish", "--abandon", "--without", "target3", "--yes")
    if one.back is not None:
        one.back.stop(SLOW)
    one.migration.stop()
    told = one.migration.do("finish", "--abandon", "--without", "target3", "--yes")
    assert f"target3, database {one.name}_2: left as it is" in told
    living = one.servers[:3]
    assert left_behind(living, one.name) == []
    assert [server.query("SELECT @@read_only")[0][0] for server in living] == [0, 0, 1]
    assert one.stage() == "finished"
