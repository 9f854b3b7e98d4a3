"""What applications see of a cutover: the example with both ways, and a version that knows the shards alone."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from pathlib import Path

import pymysql
import pytest

from examples.application import Application, OneTable, Orders, Server, Shards, Switch
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.demo.shop import Carts
from sandbox.demo.there_and_back import BAR_SECONDS, Move, Moves
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import Switched, switched
from tests.flow.test_grants import statements
from tests.helpers import unique


class Counted:
    """A way to the orders, and how many writes were acknowledged over it."""

    def __init__(self, way: Orders) -> None:
        self._way = way
        self.writes = 0

    def save(self, order: int, user: int, value: int, note: str) -> None:
        self._way.save(order, user, value, note)
        self.writes += 1

    def delete(self, order: int, user: int) -> None:
        self._way.delete(order, user)
        self.writes += 1


class Nowhere:
    """What a version that knows the shards alone has in place of the old way: its work waits for the shards."""

    def save(self, order: int, user: int, value: int, note: str) -> None:
        self.delete(order, user)

    def delete(self, order: int, user: int) -> None:
        raise pymysql.OperationalError(1290, f"order {order} of user {user} has no way yet")


class Applications:
    """Both versions, under the rights that the documents list; the same account at every server."""

    def __init__(self, one: Switched, until: ExitStack) -> None:
        flow, box = one.flow, one.flow.box
        self._user = f"{flow.name}_app"
        for server, database in (
            (box.source, flow.database),
            (box.targets[0], f"{flow.name}_0"),
            (box.targets[1], f"{flow.name}_1"),
        ):
            server.execute(f"CREATE USER '{self._user}'@'%' IDENTIFIED BY 'App-secret-1'")
            server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{self._user}'@'%'")
        box.targets[0].execute(*statements("Applications", box.source.flavour, flow.name))
        shards = Shards([(self._at(box.targets[number]), f"{flow.name}_{number}") for number in range(2)], 2)
        self.old, self.new = Counted(OneTable(self._at(box.source), flow.database)), Counted(shards)
        first, second = (
            until.enter_context(closing(Switch(self._at(box.targets[0]), f"{flow.name}_state", flow.name, instance)))
            for instance in ("both-1", "shards-1")
        )
        self.both = Carts(Application(first, self.old, self.new), range(100_000, 100_060))
        self.alone = Carts(Application(second, Nowhere(), shards), range(200_000, 200_060))

    def _at(self, server: DatabaseServer) -> Server:
        return Server(server.host, server.port, self._user, "App-secret-1", tls=False)

    @property
    def account(self) -> str:
        return f"{self._user}@%"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "stop", ["application", *(pytest.param(one, marks=pytest.mark.long) for one in ("read_only", "revoke"))]
)
def test_applications_go_there_and_back_by_the_switch_alone_and_lose_no_write(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, stop: str
) -> None:
    with switched(box, kafka, tmp_path) as one, ExitStack() as until:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        text = flow.migration.config.read_text("utf-8")
        if stop == "application":
            flow.migration.config.write_text(text.replace("stop: read_only", f"stop: {stop}"))
            refused = flow.child("nobody", "cutover")
            assert refused.wait(SLOW)
            said = refused.log.read_text("utf-8")
            assert (refused.returncode, "no application has acknowledged a version" in said) == (3, True), said
        made = Applications(one, until)
        accounts = f", accounts: ['{made.account}']" if stop == "revoke" else ""
        flow.migration.config.write_text(text.replace("stop: read_only", f"stop: {stop}{accounts}"))
        both, alone = made.both, made.alone
        for working in (both, alone):
            working.start()
            until.callback(working.end)
        both.wait_for(50)
        assert (made.new.writes, alone.done) == (0, 0)
        for command in ("cutover", "rollback", "cutover"):
            left, entered = (made.new, made.old) if command == "rollback" else (made.old, made.new)
            ask(command)
            there, here, without_old = left.writes, entered.writes, alone.done
            both.wait_for(20)
            assert (left.writes, entered.writes >= here + 20) == (there, True), command
            if command == "rollback":
                assert alone.done == without_old
            else:
                alone.wait_for(20)
        both.stop()
        alone.stop()
        until.close()
        assert one.side() == "target"
        ask("--reverse", "drain", "--timeout", str(SLOW))
        assert flow.differences(box.source) == []
        rows = flow.source_rows(box.source)
        for key, value in (both.values | alone.values).items():
            assert (rows[key][2] if key in rows else None) == value, key
        assert ask("switch")["applications"] == []


def tables(server: DatabaseServer, database: str) -> None:
    """Those of the state that an application sees."""
    server.execute(f"CREATE DATABASE {database}")
    server.execute(
        "CREATE TABLE application_switch (migration VARCHAR(48), version BIGINT, side VARCHAR(8), writes VARCHAR(8))",
        "CREATE TABLE application (migration VARCHAR(48), instance VARCHAR(128), version BIGINT,"
        " seen DATETIME(6), PRIMARY KEY (migration, instance))",
        database=database,
    )


def test_a_switch_that_is_not_there_yet_is_named_once_and_followed_as_soon_as_it_is(
    mariadb_box: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    server, database = mariadb_box.targets[0], unique("early")
    caplog.set_level(logging.WARNING, "application")

    def told(text: str) -> int:
        return sum(text in line for line in caplog.messages)

    reached = Server(server.host, server.port, server.user, server.password, tls=False)
    with closing(Switch(reached, database, "shop", "web-1", seconds=0.01)) as follower:
        wait(lambda: told(database), "what the server says")  # no such database
        tables(server, database)
        wait(lambda: told("it has no row"), "that there is no row")
        server.execute("INSERT INTO application_switch VALUES ('shop', 1, 'source', 'open')", database=database)
        with follower.at() as side:
            assert side == "source"
        wait(lambda: server.query(f"SELECT version FROM {database}.application"), "the acknowledgement")
    assert told("it has no row") == 1
    assert server.query(f"SELECT version FROM {database}.application") == ()


def test_a_process_is_waited_for_once_an_earlier_one_of_its_name_has_ended(mariadb_box: Sandbox) -> None:
    server, database = mariadb_box.targets[0], unique("named")
    tables(server, database)
    server.execute("INSERT INTO application_switch VALUES ('shop', 7, 'source', 'open')", database=database)
    reached = Server(server.host, server.port, server.user, server.password, tls=False)

    def known() -> list[int]:
        return [row[0] for row in server.query(f"SELECT version FROM {database}.application WHERE instance = 'web-1'")]

    with closing(Switch(reached, database, "shop", "web-1", seconds=0.01)) as earlier:
        wait(lambda: known() == [7], "the first")
        with closing(Switch(reached, database, "shop", "web-1", seconds=0.01)) as later, later.at():
            earlier.close()
            wait(lambda: known() == [7], "the second one's row")
            # it goes by 7 until its work is over, and says so again all the same
            server.execute("UPDATE application_switch SET version = 8", "DELETE FROM application", database=database)
            wait(lambda: known() == [7], "the row of one that has work open")
    assert known() == []


def test_the_demo_says_which_freeze_was_above_its_bar() -> None:
    made = [Move("cutover", BAR_SECONDS, 9.0), Move("rollback", BAR_SECONDS + 0.31, 0.1)]
    assert Moves(made=made).too_slow() == ["the freeze of `migrate rollback` took 2.31 s, above the bar of 2 s"]
