"""Targets that are locked, killed, read-only, full of sessions or slow are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pymysql
import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import Flow, frozen, wait
from tests.forked import Child
from tests.helpers import globally, unique

PASSWORD = "canary-pw-4711"


class World:
    """A flow whose second target is written by an account of its own, which no limit makes an exception for."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.faulty: DatabaseServer = flow.box.targets[1]
        self.user = unique("writer")[:30]
        self.faulty.execute(
            f"CREATE USER {self.user}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON {flow.name}_1.* TO {self.user}@'%'",
        )
        config = flow.migration.config
        before = f"port: {self.faulty.port}, user: {self.faulty.user}, password: '{self.faulty.password}'"
        text = config.read_text("utf-8")
        assert text.count(before) == 1
        text = text.replace(before, f"port: {self.faulty.port}, user: {self.user}, password: '{PASSWORD}'")
        config.write_text(text.replace("consume: {", "consume: {retry_seconds: 0.2, retry_max_seconds: 1, "), "utf-8")
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.child("commit", "commit")
        flow.child("requeue", "requeue")
        flow.close_copy()
        self.consumer: Child = flow.child("consume", "consume")
        self._pairs = 0

    def sql(self, *statements: str) -> None:
        self.flow.box.source.execute(*statements, database=self.flow.database)

    def log(self) -> str:
        return self.consumer.log.read_text("utf-8")

    def says(self, error: str) -> bool:
        """Whether the consumer's log has an error of this number; of none, always."""
        return not error or f"(error {error})" in self.log()

    def has(self, key: int) -> bool:
        """Whether a row with an even `user_id` is at its place, in the target that has no fault."""
        place = f"{self.flow.name}_0.orders_{key % 2}"
        return bool(self.flow.box.targets[0].query(f"SELECT 1 FROM {place} WHERE id = {key}"))

    def other_target_goes_on(self) -> None:
        """Of one transaction with rows for both, one arrives where it can."""
        self._pairs += 1
        key = 1_000_000 + 2 * self._pairs
        self.sql(f"INSERT INTO orders VALUES ({key}, 0, 0, 'here'), ({key + 1}, 1, 0, 'there')")
        wait(lambda: self.has(key), "the row of the other target")

    def equal(self) -> None:
        self.flow.drain()
        assert self.flow.differences(self.flow.box.source) == []
        assert self.consumer.running, "it was not started again, nor need it be"


@pytest.fixture
def world(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[World]:
    with closing(Flow(box, kafka, tmp_path, unique("faults"), box.source, lease=20)) as flow:
        made = World(flow)
        made.sql("INSERT INTO orders VALUES (999998, 0, 0, 'a'), (999999, 1, 0, 'a')")
        made.equal()  # from now on every partition has its owner
        yield made
        made.faulty.execute(f"DROP USER {made.user}@'%'")


@contextmanager
def killed(world: World) -> Iterator[None]:
    world.faulty.kill()
    try:
        yield
    finally:
        world.faulty.start()


@contextmanager
def read_only(world: World) -> Iterator[None]:
    with globally(world.faulty, "read_only", 1):
        yield


@contextmanager
def without_room(world: World) -> Iterator[None]:
    """Others have all the sessions that the server allows."""
    with closing(world.faulty.connect()) as session, session.cursor() as admin, ExitStack() as others:
        admin.execute("SELECT @@GLOBAL.max_connections")
        before = admin.fetchall()[0][0]
        # in this session: for a while after the others have left the server has no room for a new one
        others.callback(admin.execute, f"SET GLOBAL max_connections = {before}")
        admin.execute("SET GLOBAL max_connections = 10")
        with suppress(pymysql.OperationalError):
            for _ in range(11):
                others.enter_context(closing(world.faulty.connect()))
        admin.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", [world.user])
        for (ours,) in admin.fetchall():
            with suppress(pymysql.OperationalError):  # it has just ended by itself
                admin.execute(f"KILL {ours}")
        with suppress(pymysql.OperationalError):
            for _ in range(11):
                others.enter_context(closing(world.faulty.connect()))
        yield


@contextmanager
def slow(world: World) -> Iterator[None]:
    """It answers nobody for five seconds at least."""
    ends = time.monotonic() + 5
    with frozen(world.faulty.pid):
        yield
        time.sleep(max(0.0, ends - time.monotonic()))


def test_a_target_that_is_killed_read_only_full_or_slow_is_waited_for_and_nothing_is_lost(world: World) -> None:
    flow = world.flow
    faults: list[tuple[Callable[[World], AbstractContextManager[None]], str]] = [
        (killed, "2003"),
        (read_only, "1290"),
        (without_room, "1040"),
        (slow, ""),
    ]
    writers = []
    for number, (fault, error) in enumerate(faults):
        with fault(world):
            world.other_target_goes_on()
            writers.append(flow.writer(lambda: flow.box.source.connect(flow.database), 100 * number + 1))
            writers[-1].wait_for(100)
            wait(partial(world.says, error), f"an error {error}")
        writers[-1].wait_for(20)
        writers[-1].stop()
        world.equal()
    rows = flow.source_rows(flow.box.source)
    assert [lost for writer in writers for lost in writer.lost(rows)] == []


def test_a_change_that_loses_a_deadlock_arrives_without_a_restart(world: World) -> None:
    world.sql("DELETE FROM orders", "INSERT INTO orders VALUES (1, 1, 0, 'a')")
    world.equal()
    with closing(world.faulty.connect(f"{world.flow.name}_1", autocommit=False)) as other, other.cursor() as cursor:
        # the server ends the one that has changed less
        cursor.execute("CREATE TABLE much (n INT PRIMARY KEY)")
        cursor.execute("INSERT INTO much VALUES " + ", ".join(f"({number})" for number in range(2000)))
        cursor.execute("SELECT * FROM orders_1 WHERE id = 1 FOR UPDATE")
        world.sql("UPDATE orders SET value = 1 WHERE id = 1")
        wait(lambda: waits_for_a_lock(world), "the consumer to wait for the row")
        cursor.execute("SELECT * FROM _migrate_fence FOR UPDATE")  # which the consumer holds
        wait(lambda: "(error 1213)" in world.log(), "the deadlock")
        other.rollback()
        cursor.execute("DROP TABLE much")
    world.equal()
    assert [row[2] for row in world.flow.source_rows(world.flow.box.source).values()] == [1]


@pytest.mark.long  # our sessions wait for a lock as long as a server does by default, 50 s
def test_a_change_that_waits_too_long_for_a_lock_arrives_without_a_restart(world: World) -> None:
    world.sql("INSERT INTO orders VALUES (3, 1, 0, 'a')")
    world.equal()
    with closing(world.faulty.connect(f"{world.flow.name}_1", autocommit=False)) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM orders_1 WHERE id = 3 FOR UPDATE")
        world.sql("UPDATE orders SET value = 2 WHERE id = 3")
        wait(lambda: "(error 1205)" in world.log(), "to wait in vain")
        other.rollback()
    world.equal()
    assert world.flow.source_rows(world.flow.box.source)[3][2] == 2


def waits_for_a_lock(world: World) -> bool:
    sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE TRX_STATE = 'LOCK WAIT'"
    return bool(world.faulty.query(sql)[0][0])
