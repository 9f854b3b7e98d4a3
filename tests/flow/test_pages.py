"""Every command of the operator's pages is typed, in the order of the pages, on a real migration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.process import Child
from sandbox.stack import Sandbox
from tests.failover.replicated import replicated
from tests.failover.support import Flow, wait
from tests.flow import launcher
from tests.flow.pages import Hand, told
from tests.flow.test_web import TOKEN, request
from tests.helpers import unique

pytestmark = pytest.mark.long

MORE = (
    "verify: {rechecks: 5, recheck_seconds: 0.5, chunk_rows: 2000, master: 'local[2]'}\n"
    "copy: {master: 'local[2]'}\n"
    "cutover: {stop: read_only, wait_seconds: 1, freeze_seconds: 60, max_lag_seconds: 60}\n"
)
IGNORE = "    ddl: ignore\n"  # as docs/ddl.md says to set it before
ROWS = 1000
PROCESSES = ("migrate publish --source main", "migrate consume", "migrate commit", "migrate requeue", "migrate check")


@contextmanager
def at_a_terminal(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, address: str) -> Iterator[Hand]:
    more = f"{MORE}web: {{listen: '{address}', token: '{TOKEN}'}}\n"
    with closing(Flow(box, kafka, tmp_path, unique("pages"), box.source, lease=3, more=more, table=IGNORE)) as flow:
        words = {"shop.orders": f"{flow.database}.orders"}
        try:
            with closing(Hand(flow, words)) as hand:
                yield hand
        finally:
            for server in (box.source, *box.targets):
                server.execute("SET GLOBAL read_only = 0")


def killed_in_the_freeze(hand: Hand, command: str) -> None:
    """A cutover whose machine goes away while nobody can write: the process that watches goes with it."""
    flow = hand.flow
    held = flow.directory / f"held-{command}"
    line = launcher.command(flow.migration, "hold", "step:drain", 1, command)
    killed = subprocess.Popen(line, env={**flow.migration.environment, "HELD_AT": str(held)})
    wait(held.exists, "the freeze")
    for guardian in Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text("ascii").split():
        os.kill(int(guardian), signal.SIGKILL)
    killed.kill()
    killed.wait()
    flow.nobody_switches()


def stands(hand: Hand) -> tuple[str, str]:
    """The stage, and the command that status says to type next."""
    now = json.loads(hand.types("migrate status --json"))
    return now["stage"], now["next"]


@pytest.mark.timeout(1500)
def test_from_the_first_migration_to_its_end_by_the_pages(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    address = f"{HOST}:{free_port()}"
    with at_a_terminal(box, kafka, tmp_path, address) as hand:
        flow = hand.flow
        flow.fill(box.source, ROWS)
        run = the_first_migration(hand)
        assert hand.untyped("first-migration") == ["migrate finish"]
        hand.by_shell = False
        watch = the_status(hand)
        assert hand.untyped("status") == ["migrate --reverse verify"]
        run = going_on(hand, run)
        back = the_cutover(hand, address, watch)
        the_rollback(hand, box)
        assert hand.untyped("rollback") == ["migrate finish --yes"]
        assert hand.untyped("resume") == []
        the_end(hand, run, back)
        pages = "first-migration status cutover switch foreign-writes rollback ddl sharding re-sharding"
        assert [line for page in pages.split() for line in hand.untyped(page)] == []
        assert flow.differences(box.source) == []


def the_first_migration(hand: Hand) -> Child:
    hand.types("migrate preflight")
    hand.types("migrate init")
    assert stands(hand) == ("created", "migrate run")
    run = hand.keeps("migrate run")
    wait(lambda: "published binlog" in hand.types("migrate status"), "a published position")
    assert stands(hand) == ("capturing", "migrate copy")
    launcher.run_killed(hand.flow.migration, "before", "migrate.copy.table_copy:TableCopy.settle", 1, "copy")
    wait(lambda: stands(hand) == ("copying", "migrate copy"), "the lease of the copy that was killed to end")
    assert f"{ROWS} rows" in hand.types("migrate copy")
    hand.types("migrate copy --table shop.orders")
    hand.types("migrate drain --timeout 3600")
    assert stands(hand) == ("catching up", "migrate --reverse init")
    assert "0 differences" in hand.types("migrate verify")
    hand.flow.box.targets[0].execute("DELETE FROM orders_0 LIMIT 1", database=f"{hand.flow.name}_0")
    hand.types("migrate verify", code=1)
    hand.types("migrate verify --repair")
    hand.types("migrate verify")
    assert hand.flow.differences(hand.flow.box.source) == []
    return run


def the_status(hand: Hand) -> Child:
    assert "stage: verified" in hand.types("migrate status")
    assert stands(hand) == ("verified", "migrate --reverse init")
    watch = hand.keeps("migrate status --watch", says="stage: verified", terminal=True)
    assert "orders" in hand.types("migrate explain shop.orders 7")
    hand.types("migrate status --exit-code")  # 0: what is missing is its next step
    return watch


def going_on(hand: Hand, run: Child) -> Child:
    flow = hand.flow
    run.kill()
    run = hand.keeps("migrate run")
    flow.box.source.execute("INSERT INTO orders VALUES (5001, 1, 1, 'while it was away')", database=flow.database)
    hand.types("migrate drain")
    assert flow.differences(flow.box.source) == []
    hand.types("migrate copy")
    over_the_shards(hand)
    hand.types("migrate verify")
    hand.ends(run)
    for line in PROCESSES:
        alone = hand.keeps(line, says="lease taken" if "consume" not in line else "partition taken")
        hand.ends(alone)
    hand.types("migrate repartition 8")
    hand.types("migrate init")
    return hand.keeps("migrate run")


def over_the_shards(hand: Hand) -> None:
    """A statement at the source and at all shard tables, and back; at one of them first, as the page has it."""
    flow, name = hand.flow, hand.flow.name
    servers = {flow.database: flow.box.source, f"{name}_0": flow.box.targets[0], f"{name}_1": flow.box.targets[1]}

    def altered() -> int:
        sql = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND COLUMN_NAME = 'note'"
        return sum(server.query(sql, (database,))[0][0] for database, server in servers.items())

    plan, run, *rest = told("ddl")[0]
    assert "5 tables: ready" in hand.types(plan)
    assert "1 of 5 tables new; `migrate ddl resume` continues it" in hand.types(run)
    tables = [altered()]
    for line in (*rest, "migrate drain", "migrate ddl resume"):  # behind an undo that loses values, for the other side
        hand.types(line)
        tables.append(altered())
    assert (tables, [line.split()[2] for line in rest]) == ([1, 1, 5, 4, 4, 0], ["status", "resume", "undo"])
    hand.types("migrate drain")
    assert flow.differences(flow.box.source) == []


def the_cutover(hand: Hand, address: str, watch: Child) -> Child:
    flow = hand.flow
    web = hand.keeps("migrate web", says="listening")
    url = f"http://{address}/switch"
    assert request(url, "POST", {"instance": "web-1", "version": 1})[0] == 200
    assert "web-1: version 1" in hand.types("migrate switch")
    hand.types("migrate switch --forget web-1")
    hand.types("migrate --reverse preflight")
    assert "the reverse stream is not there yet" in hand.types("migrate cutover", code=3)
    hand.types("migrate --reverse init")
    wait(lambda: stands(hand)[1] == "migrate --reverse run", "the processes of the forward stream to be up")
    back = hand.keeps("migrate --reverse run")
    wait(lambda: stands(hand) == ("catching up", "migrate verify"), "both streams to run")
    hand.types("migrate verify")
    assert stands(hand) == ("ready", "migrate cutover --rehearse")
    wait(lambda: "stage: ready" in watch.log.read_text("utf-8"), "the screen to show it")
    watch.kill()
    assert "the freeze would take" in hand.types("migrate cutover --rehearse")
    assert "writes are given back, and nothing was switched" in hand.types("migrate cutover --rehearse --freeze")
    shown = [request(url)[1]]
    killed_in_the_freeze(hand, "cutover")
    shown.append(request(url)[1])
    assert stands(hand) == ("switching", "migrate cutover --abort")
    hand.types("migrate cutover --abort")
    shown.append(request(url)[1])
    assert "switched" in hand.types("migrate cutover")
    shown.append(request(url)[1])
    hand.ends(web)
    sides = [(one["side"], one["writes"]) for one in shown]
    assert sides == [("source", "open"), ("source", "closed"), ("source", "open"), ("target", "open")]
    assert all(later["version"] > earlier["version"] for earlier, later in pairwise(shown))
    assert stands(hand) == ("switched", "migrate --reverse verify")
    assert flow.differences(flow.box.source) == []
    return back


def the_rollback(hand: Hand, box: Sandbox) -> None:
    flow = hand.flow
    box.targets[1].execute("UPDATE orders_0 SET value = 99 WHERE id = 2", database=f"{flow.name}_1")
    hand.types("migrate --reverse status")
    hand.types("migrate --reverse drain")
    # by somebody whom read_only does not stop, at the side that was left
    box.source.execute("INSERT INTO orders VALUES (5003, 5003, 8, 'a forgotten job')", database=flow.database)
    hand.types("migrate drain")
    assert '"5003"' in hand.types("migrate foreign list")
    hand.types("migrate foreign discard --all")
    hand.types("migrate foreign compare")
    hand.types("migrate foreign carry --all")  # nothing is left to carry
    assert flow.differences(box.source) == []
    assert "0 differences" in hand.types("migrate --reverse verify")
    assert stands(hand) == ("switched", "migrate finish")
    assert "the freeze would take" in hand.types("migrate rollback --rehearse")
    killed_in_the_freeze(hand, "rollback")
    assert stands(hand) == ("switching", "migrate rollback --abort")
    hand.types("migrate rollback --abort")
    hand.types("migrate rollback")
    assert "stage: reversed" in hand.types("migrate status")
    assert stands(hand) == ("reversed", "migrate cutover")
    assert flow.source_rows(box.source)[2][2] == 99
    assert flow.differences(box.source) == []
    hand.types("migrate cutover")


def the_end(hand: Hand, run: Child, back: Child) -> None:
    for one in (run, back):
        hand.ends(one)
    assert "nothing was changed" in hand.types("migrate finish")
    hand.types("migrate finish --abandon", code=3)
    assert "finished" in hand.types("migrate finish --yes")
    assert stands(hand) == ("finished", "")
    assert "0 differences" in hand.types("migrate verify --show")


@pytest.mark.timeout(600)
def test_a_failover_by_its_page(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path) -> None:
    """Without GTID, so that it is in doubt."""
    with replicated(box, kafka, tmp_path, run_root, gtid=False) as made:
        made.write()
        made.written(100)
        made.fail_over(made.forget_gtids)
        made.flow.migration.start()
        wait(made.switched, "the publisher to go on")
        for writer in made.writers:
            writer.stop()
        with closing(Hand(made.flow, {})) as hand:
            hand.by_shell = False
            assert "IN DOUBT" in hand.types("migrate status")
            second = hand.keeps("migrate publish --source main", says="standing by")
            hand.ends(second)
            hand.types("migrate drain")
            assert "0 differences" in hand.types("migrate verify")
            assert "IN DOUBT" not in hand.types("migrate status")
            assert hand.untyped("failover") == ["migrate copy"]  # which "begins no chunk" meanwhile
        made.check()
