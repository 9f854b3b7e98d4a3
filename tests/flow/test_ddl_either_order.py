"""Columns come and go at the source and at the targets, in either order, while the copy runs, while the stream catches
up, and behind the switch, under applications that write rows of both versions. Costs 60 to 90 s a server."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, TABLES, Flow, wait
from tests.flow.test_copy_meets_stream import first_chunk_held, waits_for_a_lock
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
MORE = (
    "copy: {master: 'local[1]', chunk_rows: 300}\n"
    "verify: {rechecks: 5, recheck_seconds: 1, chunk_rows: 1000, master: 'local[2]'}\n"
)
ROWS = 1000
KEYS = range(2, 2 * ROWS + 200, 13)
"""Those that applications write: of rows that the copy reads and of rows that it does not."""


class Application(threading.Thread):
    """Writes rows, some with the new columns and some without: both of its versions run. At the source, or at the
    targets, where it follows the rule."""

    def __init__(
        self, servers: Sequence[tuple[DatabaseServer, str]], users: dict[int, int], columns: list[str]
    ) -> None:
        """servers: with their databases, one for the source. users: of each row that is there, by key."""
        super().__init__(daemon=True)
        self._servers = servers
        self.users = users
        self.columns = columns
        self.writes = 0
        self._random = random.Random(len(servers))  # noqa: S311 - which row to write
        self._asked = threading.Event()
        self._between = threading.Lock()

    def run(self) -> None:
        with ExitStack() as opened:
            connections = [
                opened.enter_context(closing(one.connect(name, autocommit=True))) for one, name in self._servers
            ]
            while not self._asked.is_set():
                with self._between:
                    self._write(connections, self._random.choice(KEYS))
                    self.writes += 1
                time.sleep(0.01)

    def has(self, *columns: str) -> None:
        """From now on it knows these columns; some writes of both versions follow."""
        with self._between:
            self.columns = list(columns)
        self.go_on()

    def go_on(self) -> None:
        wanted = self.writes + 30
        wait(lambda: self.writes >= wanted or not self.is_alive(), "the application to write")
        assert self.is_alive(), "the application was refused"

    def stop(self) -> None:
        self._asked.set()
        self.join(SLOW)
        assert not self.is_alive()

    def _write(self, connections: Sequence[Any], key: int) -> None:
        number, kind = self.writes + 10_000, self._random.randrange(8)
        known = [name for name in self.columns if self._random.randrange(2)]
        user = self.users.get(key)
        if user is None:
            names = "".join(f", {name}" for name in known)
            values = f"{key}, {number}, {number}, 'new'" + f", '{number}'" * len(known)
            sql, user = f"INSERT INTO {{}} (id, user_id, value, history{names}) VALUES ({values})", number
            self.users[key] = user
        elif kind == 0:
            sql = "DELETE FROM {} WHERE id = " + str(key)
            del self.users[key]
        else:
            move = len(connections) if kind == 1 else 0  # at the source it changes the database, at a target it may not
            sets = "".join(f", {name} = '{number}'" for name in known)
            sql = f"UPDATE {{}} SET user_id = user_id + {move}, value = {number}{sets} WHERE id = {key}"
            self.users[key] = user + move
        with connections[user % len(connections)].cursor() as cursor:
            cursor.execute(sql.format("orders" if len(connections) == 1 else f"orders_{key % TABLES}"))


class Altered:
    """A migration, and the ways to alter its tables."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.box = flow, flow.box
        self.source = Application([(self.box.source, flow.database)], {}, [])
        self.targets = Application([(self.box.targets[one], f"{flow.name}_{one}") for one in range(TABLES)], {}, [])

    def close(self) -> None:
        for one in (self.source, self.targets):
            if one.is_alive():
                one.stop()

    def typed_at_source(self, change: str) -> None:
        self.box.source.execute(f"ALTER TABLE orders {change}", database=self.flow.database)

    def typed_at_targets(self, change: str) -> None:
        for number in range(TABLES):
            self.box.targets[number].execute(
                *(f"ALTER TABLE orders_{table} {change}" for table in range(TABLES)),
                database=f"{self.flow.name}_{number}",
            )

    def run(self, change: str, *options: str) -> None:
        done = self.flow.migration.ask("ddl", "run", f"ALTER TABLE {self.flow.database}.orders {change}", *options)
        assert done["finished"] is not None

    def policy(self, ddl: str) -> None:
        """What an operator does who sets another policy."""
        config = self.flow.migration.config
        config.write_text(re.sub(r"( ddl: )\w+", rf"\g<1>{ddl}", config.read_text("utf-8")), "utf-8")
        self.publisher_again()

    def publisher_again(self) -> None:
        self.flow.children("publish")[-1].stop(SLOW)
        self.flow.child("publish", "publish")

    def publisher_stops(self, why: str) -> None:
        child = self.flow.children("publish")[-1]
        wait(lambda: any(why in one["reason"] for one in self.halted()), f"the publisher to stop: {why}")
        assert child.wait(SLOW)

    def halted(self, *way: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.flow.migration.ask(*way, "status")["halted"]
        return found

    def waits(self, column: str, *way: str) -> None:
        """Partitions with rows that have a column which the other side lacks."""
        wait(lambda: any(column in one["reason"] for one in self.halted(*way)), f"a partition to wait for {column}")

    def goes_on(self, *way: str) -> None:
        wait(lambda: not self.halted(*way), "nothing to be halted")

    def columns(self) -> list[tuple[tuple[Any, ...], ...]]:
        """Of the source table and of every target table."""
        places = [(self.box.source, self.flow.database, "orders")] + [
            (self.box.targets[number], f"{self.flow.name}_{number}", f"orders_{table}")
            for number in range(TABLES)
            for table in range(TABLES)
        ]
        sql = (
            "SELECT COLUMN_NAME, COLUMN_TYPE, COLUMN_DEFAULT, IS_NULLABLE FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
        )
        return [server.query(sql, (database, table)) for server, database, table in places]

    def equal(self, columns: str) -> None:
        """Rows and columns of both sides, by the servers' own clients; nothing writes."""
        found = self.columns()
        assert [name for name, *_ in found[0]] == ["id", "user_id", "value", "history", *columns]
        assert found[1:] == found[:1] * TABLES**2
        assert self.flow.differences(self.box.source) == []


@pytest.fixture
def one(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Altered]:
    made = Flow(box, kafka, tmp_path, unique("order"), box.source, lease=15, more=MORE, table="    ddl: apply\n")
    with closing(made) as flow, closing(Altered(flow)) as altered:
        flow.fill(box.source, ROWS)
        altered.source.users |= {key: row[1] for key, row in flow.source_rows(box.source).items() if key in KEYS}
        flow.migration.do("init")
        for process in ("publish", "consume", "commit", "requeue"):
            flow.child(process, process)
        wait(flow.position, "the first position")
        altered.source.start()
        yield altered


def test_both_sides_altered_in_either_order_end_equal(one: Altered) -> None:
    while_the_copy_runs(one)
    while_the_stream_catches_up(one)
    behind_the_switch(one)


def while_the_copy_runs(one: Altered) -> None:
    flow, app = one.flow, one.source
    with first_chunk_held(one.box.targets[0], f"{flow.name}_0") as take:
        copy = flow.child("copy", "copy")
        wait(take, "the first attempt to be opened")
        wait(lambda: waits_for_a_lock(one.box.targets[0]), "the copy to write what it has read")

        one.run(add := "ADD COLUMN a VARCHAR(20) NOT NULL DEFAULT 'none'", "--side", "targets")
        one.typed_at_source(add)
        app.has("a")
        one.publisher_stops("a copy of the table is under way")
        one.policy("ignore")
        one.goes_on()

        one.typed_at_source(add := "ADD COLUMN b INT NULL DEFAULT 3 AFTER value")
        app.has("a", "b")
        one.waits("b")
        one.typed_at_targets(add)
        one.goes_on()

        one.policy("apply")
        one.typed_at_source("ADD COLUMN c INT NOT NULL DEFAULT 7")
        app.has("a", "b", "c")
        one.publisher_stops("a copy of the table is under way")
        assert copy.running
    assert copy.wait(SLOW)
    assert copy.returncode == 0, copy.log_tail()
    one.publisher_again()
    app.go_on()
    flow.drain()


def while_the_stream_catches_up(one: Altered) -> None:
    flow, app = one.flow, one.source
    one.typed_at_targets(widen := "MODIFY a VARCHAR(60) NOT NULL DEFAULT 'none'")
    one.run(f"{widen}, ADD COLUMN d BIGINT NOT NULL DEFAULT 5", "--side", "sources")
    one.box.source.execute("UPDATE orders SET a = REPEAT('x', 50) WHERE id = 4", database=flow.database)
    app.has("a", "b", "c", "d")
    flow.drain()

    one.run(add := "ADD COLUMN e VARCHAR(20) NULL", "--side", "targets")
    one.typed_at_source(add)
    app.has("a", "b", "c", "d", "e")
    one.publisher_stops("it is not run at the targets")
    one.policy("ignore")

    one.run("ADD COLUMN f DATE NULL")
    app.go_on()
    one.typed_at_source(add := "ADD COLUMN g INT NOT NULL DEFAULT 1")
    app.has("a", "b", "c", "d", "e", "g")
    one.waits("g")
    one.run(add, "--side", "targets")
    one.goes_on()

    app.has("a", "c", "d", "e", "g")  # the version that writes b is gone
    one.run("DROP COLUMN b", "--side", "sources", "--allow-data-loss")
    app.go_on()
    flow.drain()
    one.run("DROP COLUMN b", "--side", "targets", "--allow-data-loss")
    app.go_on()
    found = flow.migration.ask("verify")
    assert (found["differences"], found["in_motion"]) == (0, 0)


def behind_the_switch(one: Altered) -> None:
    flow = one.flow
    flow.start_reverse()
    one.source.stop()
    flow.drain()
    one.equal("acdefg")
    flow.put_applications_at("target")
    app = one.targets
    app.users |= one.source.users
    app.columns = one.source.columns
    app.start()

    one.typed_at_targets(add := "ADD COLUMN h INT NOT NULL DEFAULT 9 AFTER history")
    app.has("a", "h")
    one.waits("h", "--reverse")
    one.typed_at_source(add)
    one.goes_on("--reverse")

    one.typed_at_source(add := "ADD COLUMN i VARCHAR(20) NULL DEFAULT 'i'")
    app.go_on()
    one.run(add, "--side", "targets")
    app.has("a", "h", "i")

    one.run("ADD COLUMN j INT NULL DEFAULT 2, MODIFY e VARCHAR(60) NULL")
    app.has("a", "h", "i", "j")
    app.stop()
    flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
    flow.drain()
    one.equal("hacdefgij")
    key = next(key for key in range(2, 2 * ROWS, 2) if key not in KEYS)  # of before all statements
    change = f"UPDATE orders_{key % TABLES} SET j = 1234 WHERE id = {key}"
    one.box.targets[key // 2 % TABLES].execute(change, database=f"{flow.name}_{key // 2 % TABLES}")
    flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
    one.equal("hacdefgij")
    one.box.source.execute(f"UPDATE orders SET j = 2 WHERE id = {key}", database=flow.database)
    (table,) = flow.migration.ask("--reverse", "verify", accept=(1,))["tables"]
    assert [named["kind"] for named in table["named"]] == ["different"]
    assert "j" in table["named"][0]["detail"]
