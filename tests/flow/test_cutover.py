"""Cutover and rollback on real servers: writers that follow the switch lose nothing, and one side is open."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pymysql
import pytest
from confluent_kafka.admin import AdminClient

from migrate.state.finished import DETAILS
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.flow import launcher
from tests.forked import Child
from tests.helpers import unique

READ_ONLY = 1290
MORE = (
    "verify: {rechecks: 5, recheck_seconds: 0.5, chunk_rows: 2000, master: 'local[2]'}\n"
    "cutover: {stop: read_only, wait_seconds: 1, freeze_seconds: 60, max_lag_seconds: 60}\n"
)


def account(server: DatabaseServer, name: str, database: str) -> dict[str, str]:
    """An application's account: no more than rights on its database."""
    server.execute(
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'App-secret-1'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{name}'@'%'",
    )
    return {"user": name, "password": "App-secret-1"}


def connected(server: DatabaseServer, database: str, account: dict[str, str]) -> Any:
    user, password = account["user"], account["password"]
    return pymysql.connect(
        host=server.host,
        port=server.port,
        database=database,
        user=user,
        password=password,
        autocommit=True,
        ssl_disabled=True,
    )


class Switched:
    """A migration that is copied, verified and has its reverse stream running."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.box = flow.box
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        flow.fill(self.box.source, 1000)
        flow.drain()
        flow.start_reverse()
        name = flow.name[-20:]
        self.at_source = account(self.box.source, f"s{name}", flow.database)
        self.at_target = [
            account(self.box.targets[number], f"t{number}{name}", f"{flow.name}_{number}") for number in range(2)
        ]

    def write_at_source(self, statement: str) -> None:
        with closing(connected(self.box.source, self.flow.database, self.at_source)) as connection:
            connection.cursor().execute(statement)

    def write_at_target(self, number: int, statement: str) -> None:
        server, database = self.box.targets[number], f"{self.flow.name}_{number}"
        with closing(connected(server, database, self.at_target[number])) as connection:
            connection.cursor().execute(statement)

    def side(self) -> str:
        return str(self.flow.migration.ask("switch")["switch"]["side"])

    def stage(self) -> tuple[str, str]:
        """Where `migrate status` says that it stands, and what to type next."""
        now = self.flow.migration.ask("status")
        return now["stage"], now["next"]

    def source_writable(self) -> bool:
        try:
            self.write_at_source("UPDATE orders SET value = value WHERE id = 0")
        except pymysql.MySQLError as error:
            if error.args[0] != READ_ONLY:
                raise
            return False
        return True

    def writable(self) -> list[str]:
        """The sides at which an application can write now."""
        found = []
        for name in ("source", "target"):
            try:
                if name == "source":
                    self.write_at_source("UPDATE orders SET value = value WHERE id = 0")
                else:
                    self.write_at_target(0, "UPDATE orders_0 SET value = value WHERE id = 0")
            except pymysql.MySQLError as error:
                if error.args[0] != READ_ONLY:
                    raise
            else:
                found.append(name)
        return found


@contextmanager
def switched(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, more: str = MORE, **of_flow: Any) -> Iterator[Switched]:
    """of_flow: further arguments of `Flow`."""
    options = {"lease": 15, "more": more, **of_flow}
    with closing(Flow(box, kafka, tmp_path, unique("cut"), box.source, **options)) as flow:
        try:
            yield Switched(flow)
        finally:
            for server in (box.source, *box.targets):
                server.execute("SET GLOBAL read_only = 0")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_there_and_back_and_there_again_loses_no_write(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with switched(box, kafka, tmp_path, lease=30) as one:  # its consumer is stopped for some commands
        flow, do, ask = one.flow, one.flow.migration.do, one.flow.migration.ask
        assert one.stage() == ("catching up", "migrate verify")
        refused = flow.child("early", "cutover")
        assert refused.wait(SLOW)
        assert (refused.returncode, "no verification of all tables was clean" in refused.log.read_text("utf-8")) == (
            3,
            True,
        )
        never = flow.child("never", "--reverse", "verify", "--show")
        assert never.wait(SLOW)
        assert (never.returncode, "hint: `migrate --reverse verify`" in never.log.read_text("utf-8")) == (3, True)
        ask("verify")
        assert one.stage() == ("ready", "migrate cutover --rehearse")
        one.write_at_source("UPDATE orders SET value = -1, user_id = user_id + 1 WHERE id <= 20")
        refused_behind(one)
        rehearsed = ask("cutover", "--rehearse")
        assert (rehearsed["freeze_seconds"] > 0, rehearsed["measured"]) == (True, False)
        one.write_at_source("UPDATE orders SET value = value + 1 WHERE id = 30")
        frozen_once = ask("cutover", "--rehearse", "--freeze")
        assert (frozen_once["measured"], frozen_once["keys"]) == (True, 0), "compared before the freeze"
        assert list(frozen_once["parts"])[2:] == ["stop writes", "lock", "drain", "compare"]
        assert flow.state_of("SELECT outcome FROM cutover")[-1:] == (("aborted",),)
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
        assert one.stage() == ("ready", "migrate cutover --rehearse")

        report = ask("cutover")
        assert report["freeze_seconds"] > 0
        assert one.side() == "target"
        assert one.stage() == ("switched", "migrate --reverse verify")
        assert one.writable() == ["target"]
        box.source.execute("SET GLOBAL read_only = 0")  # as after a start
        held = ask("status")["holds_back"]
        assert any("source 'main' is no longer read-only" in line for line in held), held
        box.source.execute("SET GLOBAL read_only = 1")
        assert flow.differences(box.source) == []
        one.write_at_target(0, "INSERT INTO orders_1 VALUES (5001, 2, 7, 'new side')")
        one.write_at_target(1, "UPDATE orders_0 SET value = 99 WHERE id = 2 AND user_id = 1")
        one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 22")
        with pytest.raises(SandboxError, match="verify ended with 3"):
            do("verify")

        refused_misplaced(one)
        back = ask("rollback")
        assert back["freeze_seconds"] > 0
        assert (one.side(), one.writable()) == ("source", ["source"])
        assert one.stage() == ("reversed", "migrate cutover")
        ask("cutover", "--rehearse", "--freeze")
        assert one.stage() == ("reversed", "migrate cutover"), "after a rehearsal too"
        assert flow.source_rows(box.source)[5001] == (5001, 2, 7, "new side")
        assert flow.differences(box.source) == []
        one.write_at_source("INSERT INTO orders VALUES (5003, 5003, 8, 'old side again')")

        ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        assert flow.differences(box.source) == []
        assert {5003, 5007} <= flow.source_rows(box.source).keys()
        finished(one, kafka)


@pytest.mark.timeout(600)
def test_a_consumer_that_gathers_for_long_is_hurried_and_no_lag(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow = one.flow
        flow.migration.ask("verify")
        text = flow.migration.config.read_text("utf-8")
        slow = text.replace("merge_interval_seconds: 0.3", "merge_interval_seconds: 60")
        flow.migration.config.write_text(slow.replace("max_lag_seconds: 60", "max_lag_seconds: 2"))
        for label, way in (("consume", ()), ("back-consume", ("--reverse",))):
            flow.children(label)[0].stop(SLOW)
            flow.child(f"slow-{label}", *way, "consume")
        one.write_at_source("INSERT INTO orders VALUES (5001, 1, 1, 'merged at once')")
        one.write_at_target(0, "UPDATE orders_0 SET value = value WHERE id = 0")
        wait(lambda: not flow.state_of("SELECT 1 FROM record WHERE state = 0"), "the first merges")
        one.write_at_source("UPDATE orders SET value = 2 WHERE id = 5001")
        wait(lambda: flow.migration.ask("status")["lag_seconds"] > 2.5, "a lag")
        assert one.stage()[0] == "ready", "up to the interval that a lag is of itself"
        flow.migration.ask("cutover")
        assert flow.differences(box.source) == []


def refused_misplaced(one: Switched) -> None:
    """Lost: a row that an application wrote at another shard than the rule's. The rollback brought it to the source and
    said of both streams that all is equal, and after the next cutover nobody who follows the rule found it."""
    flow, name = one.flow, one.flow.name
    one.write_at_target(0, "INSERT INTO orders_0 VALUES (5007, 2, 7, 'elsewhere')")
    told = f'["5007"] misplaced: is in t0/{name}_0.orders_0, belongs in t0/{name}_0.orders_1'
    assert told in flow.refused("rollback", code=1)
    assert (one.side(), one.writable()) == ("target", ["target"])
    assert '["5007"] misplaced' in flow.refused("--reverse", "verify", code=1, seconds=300)
    one.write_at_target(0, "INSERT INTO orders_1 SELECT * FROM orders_0 WHERE id = 5007")
    one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 5007")
    assert "1 row found different, and not verified since" in flow.refused("rollback")
    flow.migration.ask("--reverse", "verify")


def refused_behind(one: Switched) -> None:
    """Above the limit of the lag nothing is begun."""
    flow = one.flow
    text = flow.migration.config.read_text("utf-8")
    flow.migration.config.write_text(text.replace("max_lag_seconds: 60", "max_lag_seconds: 1"))
    before = flow.migration.ask("switch")["switch"]
    with frozen(flow.children("consume")[0].pid):
        one.write_at_source("UPDATE orders SET value = value + 1 WHERE id = 30")
        wait(lambda: flow.migration.ask("status")["lag_seconds"] > 1.3, "a lag")
        assert one.stage() == ("catching up", "migrate drain")
        behind = flow.child("behind", "cutover")
        assert behind.wait(SLOW)
    said = behind.log.read_text("utf-8")
    assert (behind.returncode, "s behind, above cutover.max_lag_seconds (1)" in said) == (3, True), said
    assert flow.migration.ask("switch")["switch"] == before
    assert one.writable() == ["source", "target"]
    flow.migration.config.write_text(text)
    flow.drain()
    wait(lambda: one.stage()[0] == "ready", "the consumer to work again")


def carried(flow: Flow) -> None:
    """To the targets, by hand, and by the stream from there, which runs for that long."""
    processes = (("publish", "--source", "t0"), ("publish", "--source", "t1"), ("consume",))
    running = [flow.child(f"carrying-{number}", "--reverse", *process) for number, process in enumerate(processes)]
    flow.migration.do("foreign", "carry", "--all")
    for child in running:
        child.stop(SLOW)


def finished(one: Switched, kafka: KafkaBroker) -> None:
    """It ends for good: refused while it runs, gone on with after a kill, and the rows and what was found are kept."""
    flow, ask = one.flow, one.flow.migration.ask
    topics = {f"migrate.{flow.name}", f"migrate.{flow.name}-reverse"}
    refused = flow.child("finish-early", "finish", "--yes")
    assert refused.wait(SLOW)
    assert (refused.returncode, "processes still run: " in refused.log.read_text("utf-8")) == (3, True)
    certificate = ask("verify", "--show")
    flow.children("consume")[0].stop(SLOW)
    for label in ("publish", "commit", "requeue"):
        for child in (*flow.children(label), *flow.children(f"back-{label}")):
            child.stop(SLOW)
    for child in (*flow.children("back-consume"), *flow.children("back-t0"), *flow.children("back-t1")):
        child.stop(SLOW)
    # by somebody whom read_only does not stop, at the side that was left; lost: it was in no topic
    one.box.source.execute("INSERT INTO orders VALUES (5011, 1, 8, 'a forgotten job')", database=flow.database)
    unread = flow.child("finish-unread", "finish", "--yes")
    assert unread.wait(SLOW)
    said = unread.log.read_text("utf-8")
    assert (unread.returncode, "1 message of changes at the sources never came to the targets" in said) == (3, True), (
        said
    )
    again = [flow.child(f"again-{label}", label) for label in ("publish", "consume")]
    flow.drain()
    for child in again:
        child.stop(SLOW)
    listed = flow.refused("finish")
    assert "1 row written at a standby side" in listed
    carried(flow)
    planned = ask("finish")
    assert (planned["done"], topics <= set(planned["topics"])) == (False, True)
    text = flow.migration.config.read_text("utf-8")
    flow.migration.config.write_text(f"{text}hooks: {{before: {{finish: ['false']}}}}\n", "utf-8")
    assert "`finish` is not begun, hooks.before.finish refuses" in flow.refused("finish", "--yes", code=4)
    flow.migration.config.write_text(text, "utf-8")
    assert one.stage()[0] == "switched"
    launcher.run_killed(flow.migration, "before", "migrate.kafka.admin:delete_topics", 1, "finish", "--yes")
    assert one.stage() == ("finished", "migrate finish --yes")
    flow.nobody_switches()
    done = ask("finish", "--yes")
    assert (done["done"], done["details"] > 0) == (True, True)
    assert "read_only" in {block["method"] for block in done["blocks"]}
    assert one.stage() == ("finished", "")
    assert "stage: finished" in flow.migration.do("status")
    assert (one.side(), one.writable()) == ("target", ["target"])
    assert flow.differences(one.box.source) == []
    assert ask("verify", "--show") == certificate
    broker = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(lambda: not {name for name in broker.list_topics(timeout=SLOW).topics if flow.name in name}, "no topic of it")
    names = f"IN ('{flow.name}', '{flow.name}-reverse')"
    kept = ("cutover", "cutover_step", "application_switch", "position", "schema_history")
    for table in (*kept, *DETAILS):
        rows = flow.state_of(f"SELECT COUNT(*) FROM `{table}` WHERE migration {names}")[0][0]
        assert (rows > 0) is (table in kept), table
    for server in (one.box.source, *one.box.targets):
        ours = server.query("SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_NAME = '_migrate_fence'")
        assert not [name for (name,) in ours if str(name).startswith(flow.name)]
    for command in (("init",), ("run",), ("cutover",), ("rollback",), ("verify",), ("--reverse", "init")):
        refused = flow.child(f"ended-{'-'.join(command)}", *command)
        assert refused.wait(SLOW)
        assert (refused.returncode, "is finished, since" in refused.log.read_text("utf-8")) == (3, True), command


@pytest.mark.timeout(600)
def test_open_transactions_are_ended_and_named_and_a_freeze_that_is_too_long_gives_writes_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        with closing(connected(box.source, flow.database, one.at_source)) as held:
            held.autocommit(False)
            with held.cursor() as cursor:
                cursor.execute("UPDATE orders SET value = 12345 WHERE id = 2")
                told = flow.migration.do("cutover")
                assert f"ended {one.at_source['user']}@" in told
                with pytest.raises(pymysql.MySQLError):
                    cursor.execute("COMMIT")
        assert flow.source_rows(box.source)[2][2] != 12345
        assert flow.differences(box.source) == []
        ask("rollback")

        text = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(text.replace("freeze_seconds: 60", "freeze_seconds: 5"))
        held = tmp_path / "held"
        command = launcher.command(flow.migration, "hold", "step:drain", 1, "cutover")
        late = Child("late cutover", tmp_path / "late.log", Path.cwd())
        late.start(command, {**flow.migration.environment, "HELD_AT": str(held)})
        wait(held.exists, "the cutover to come to its drain")
        ends = time.monotonic() + 5
        wait(lambda: time.monotonic() > ends, "the freeze to take too long")
        held.unlink()
        assert late.wait(SLOW)
        said = late.log.read_text("utf-8")
        assert (late.returncode, "writes are given back" in said) == (7, True), said
        assert (one.side(), one.writable()) == ("source", ["source"])
        flow.migration.config.write_text(text)
        ask("cutover")
        assert flow.differences(box.source) == []


@pytest.mark.timeout(600)
def test_whatever_hangs_in_the_freeze_writes_are_given_back_in_time(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = MORE.replace("freeze_seconds: 60", "freeze_seconds: 5")  # seconds to come to its drain, on a busy machine
    with switched(box, kafka, tmp_path, more, lease=12) as one:  # seconds, longer than the state hangs
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        for hangs in ("target", "state", "cutover"):
            hung(one, hangs, box, tmp_path)
        text = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(text.replace("freeze_seconds: 5", "freeze_seconds: 60"))  # nothing hangs now
        ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        assert flow.differences(box.source) == []


def hung(one: Switched, hangs: str, box: Sandbox, tmp_path: Path) -> None:
    """A cutover in whose drain a server, or it itself, hangs for longer than a freeze may take."""
    flow = one.flow
    held = tmp_path / f"held-{hangs}"
    command = launcher.command(flow.migration, "hold", "step:drain", 1, "cutover")
    late = Child(f"cutover, {hangs} hangs", tmp_path / f"late-{hangs}.log", Path.cwd())
    late.start(command, {**flow.migration.environment, "HELD_AT": str(held)})
    wait(held.exists, f"the cutover to come to its drain ({hangs} is to hang)")
    pids = {"target": box.targets[1].pid, "state": box.targets[0].pid, "cutover": late.pid}
    with frozen(pids[hangs]) if hangs != "cutover" else nullcontext():
        if hangs == "cutover":
            os.kill(late.pid, signal.SIGSTOP)  # as by Ctrl-Z
        held.unlink()
        wait(one.source_writable, f"writes to be given back while {hangs} hangs")
        assert hangs == "cutover" or late.running or late.returncode == 7, hangs
    assert late.wait(SLOW), hangs
    said = late.log.read_text("utf-8")
    if hangs == "target":
        # whichever of the two limits is met first
        reasons = ("the freeze took longer than 5 s", "source 't1' at ")
        assert (late.returncode, any(f"writes are given back: {one}" in said for one in reasons)) == (7, True), said
    if hangs == "cutover":
        assert (late.returncode, "it is killed" in said) == (-signal.SIGKILL, True), said
    ended = "SELECT outcome FROM cutover ORDER BY run DESC LIMIT 1"
    wait(lambda: flow.state_of(ended)[0][0] == "aborted", f"the run to be over ({hangs} hung)")
    assert (one.side(), "source" in one.writable()) == ("source", True), hangs
    flow.drain()
    flow.nobody_switches()
    wait(lambda: one.stage()[1] == "migrate cutover --rehearse", "the stream and the reverse stream to go on")
