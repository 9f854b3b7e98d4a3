"""What `migrate status` says to type next leads on, from whatever a migration stands at, and to its end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow.support import DOUBT
from tests.flow.test_cutover import MORE, Switched, carried, switched
from tests.flow.test_cutover_sources import two_sources
from tests.helpers import unique

pytestmark = pytest.mark.long

_WATCH = "migrate status --watch"
_SLOW = "copy: {chunk_rows: 8, chunks_at_once: 1, master: 'local[1]'}\n"


def stands(flow: Flow) -> tuple[str, str, list[str]]:
    """The stage, what is to be typed next, and what holds it back."""
    now = flow.migration.ask("status")
    return now["stage"], now["next"], now["holds_back"]


@pytest.mark.timeout(600)
def test_who_types_what_is_next_comes_to_the_end(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        ask("cutover")
        ask("rollback")
        flow.children("consume")[0].stop(SLOW)
        stage, following, held = stands(flow)
        assert (stage, following) == ("reversed", "migrate consume"), "applications went back, whatever is stopped"
        assert "no consumer works on 2 partitions" in held
        flow.child("consume-again", "consume")
        wait(lambda: stands(flow)[:2] == ("reversed", "migrate cutover"), "the consumer")
        ask("cutover")
        assert stands(flow)[:2] == ("switched", "migrate --reverse verify")
        ask("--reverse", "verify")

        stage, following, held = stands(flow)
        assert (stage, following) == ("switched", "migrate finish")
        assert [line for line in held if line.startswith("the migration still runs")], held
        watch = flow.child("watch", "status", "--watch")
        flow.refused("finish")
        stop(one, "back-")
        stage, following, held = stands(flow)
        assert (stage, following) == ("switched", "migrate --reverse run"), "as it may have died"
        assert [line for line in held if line.startswith("the reverse stream does not run")], held
        stop(one, "")
        assert stands(flow) == ("switched", "migrate finish", [])
        # by somebody whom read_only does not stop, at the side that was left
        box.source.execute("INSERT INTO orders VALUES (5011, 1, 8, 'a forgotten job')", database=flow.database)
        publisher = flow.child("publish-late", "publish")
        wait(lambda: sum(part["end"] - part["consumed"] for part in ask("status")["partitions"]), "its message")
        publisher.stop(SLOW)
        stage, following, held = stands(flow)
        assert (stage, following) == ("switched", "migrate run")
        assert held == ["1 message of changes at the sources never came to the targets"]
        flow.refused("finish")
        assert "`migrate finish --unread --yes` does it" in flow.migration.do("finish", "--unread")
        late = [flow.child(f"late-{process}", process) for process in ("publish", "consume")]
        flow.drain()
        for child in late:
            child.stop(SLOW)
        stage, following, held = stands(flow)
        assert (stage, following, len(held)) == ("switched", "migrate foreign compare", 1)
        assert held[0] in flow.refused("finish")
        carried(flow)
        assert stands(flow) == ("switched", "migrate finish", [])

        assert watch.running, watch.log.read_text("utf-8")
        ask("finish", "--yes")
        assert watch.wait(SLOW), "it still watches what has ended"
        assert (watch.returncode, "stage: finished" in watch.log.read_text("utf-8")) == (0, True)
        assert "stage: finished" in flow.migration.do("status", "--watch")


def stop(one: Switched, way: str) -> None:
    """Every process of a way, as whoever ends it does."""
    labels = ("t0", "t1", "consume", "commit", "requeue") if way else ("publish", "consume-again", "commit", "requeue")
    for label in labels:
        one.flow.children(f"{way}{label}")[0].stop(SLOW)


@pytest.mark.timeout(600)
def test_a_copy_that_runs_is_waited_for_and_an_added_table_is_no_copied_one(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("stages"), box.source, lease=3, more=_SLOW)) as flow:
        flow.fill(box.source, 1000)
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the publisher to begin")
        assert stands(flow) == ("capturing", "migrate copy", ["no consumer works on 2 partitions"])
        flow.migration.do("throttle", "--rows-per-second", "8")
        copy = flow.child("copy", "copy")
        wait(lambda: stands(flow)[:2] == ("copying", _WATCH), "the copy to begin")
        assert "a copy runs: wait for it; a second one would end it" in stands(flow)[2]
        flow.migration.do("throttle", "--pause")
        wait(lambda: stands(flow)[1] == "migrate throttle --resume", "it to pause")
        flow.migration.do("throttle", "--reset")
        assert copy.wait(SLOW)
        assert copy.returncode == 0
        assert stands(flow)[:2] == ("catching up", "migrate consume")
        for process in ("consume", "commit", "requeue"):
            flow.child(process, process)
        wait(lambda: stands(flow)[:2] == ("catching up", "migrate --reverse init"), "the consumer")

        box.source.execute("CREATE TABLE added (id INT PRIMARY KEY)", database=flow.database)
        with flow.migration.config.open("a", encoding="utf-8") as config:
            config.write(f'  - {{name: {flow.database}.added, sharding: {{nodes: "ds_0.added"}}}}\n')
        flow.migration.do("init")
        told = f"1 table ({flow.database}.added) added: a publisher that starts after `migrate init` reads it"
        anew = f"{told}; start one that began before it again"
        assert stands(flow) == ("copying", "migrate run", [anew])
        flow.children("publish")[0].stop(SLOW)
        stage, following, held = stands(flow)
        assert (stage, following) == ("copying", "migrate publish --source main")
        assert told in held
        flow.child("publish-again", "publish")
        wait(lambda: stands(flow)[:2] == ("copying", "migrate copy"), "it to take the table up")
        assert f"1 table ({flow.database}.added) not copied yet" in stands(flow)[2]


@pytest.mark.long  # two copies and two verifications
@pytest.mark.timeout(600)
def test_two_sources_in_doubt_are_verified(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with two_sources(box, kafka, tmp_path) as one:
        state = f"{one.name}_state"
        for source in ("source", "second"):
            one.target.execute(DOUBT.format(one.name, source), database=state)
        now = one.migration.ask("status")
        assert (now["stage"], now["next"], len(now["holds_back"])) == ("catching up", "migrate verify", 2), now
        one.migration.ask("verify")

        def lacks() -> tuple[str, list[str]]:
            now = one.migration.ask("status")
            return now["stage"], now["holds_back"]

        # a drain does not wait for the consumer of the reverse stream, as nothing is to be consumed
        wait(lambda: lacks() == ("ready", []), "the reverse stream")


@pytest.mark.timeout(600)
def test_a_row_left_out_holds_a_cutover_back_until_a_verification_finds_it_and_stays_on_record(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(
        Flow(box, kafka, tmp_path, unique("left"), box.source, more=MORE, limit=20_000, publish=", oversized: park")
    ) as flow:
        ask = flow.migration.ask
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, ''), (2, 2, 2, '')", database=flow.database)
        flow.drain()
        ask("verify")

        def large(key: int) -> list[dict[str, Any]]:
            statement = f"UPDATE orders SET history = REPEAT('x', 30000) WHERE id = {key}"
            box.source.execute(statement, database=flow.database)
            wait(lambda: any(row["key"] == f'["{key}"]' for row in ask("status")["oversized"]), "it to be left out")
            flow.drain()
            left: list[dict[str, Any]] = ask("status")["oversized"]
            return left

        large(1)
        held = "1 × row is left out of the stream, and not verified since"
        assert stands(flow) == ("catching up", "migrate verify --repair", [held])
        flow.refused("verify", code=1)
        assert stands(flow)[1] == "migrate verify --repair", "it was not clean"
        ask("verify", "--repair")
        assert stands(flow)[0] == "verified"
        assert flow.differences(box.source) == []
        assert "a verification of all tables that began later was clean" in " ".join(
            flow.migration.do("status").split()
        )

        left = large(2)
        assert [(row["key"], row["verified"]) for row in left] == [('["1"]', True), ('["2"]', False)]
        assert stands(flow) == ("catching up", "migrate verify --repair", [held])
        flow.start_reverse()
        assert held in flow.refused("cutover")
        ask("verify", "--repair")
        wait(lambda: stands(flow) == ("ready", "migrate cutover --rehearse", []), "the reverse stream")
        try:
            ask("cutover")
            assert stands(flow)[0] == "switched"
        finally:
            for server in (box.source, *box.targets):
                server.execute("SET GLOBAL read_only = 0")
        assert flow.differences(box.source) == []
        assert [row["key"] for row in ask("status")["oversized"]] == ['["1"]', '["2"]'], "for an auditor"


@pytest.mark.timeout(600)
def test_a_table_that_is_added_gets_its_reverse_stream_too(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask, do = one.flow, one.flow.migration.ask, one.flow.migration.do
        box.source.execute(
            "CREATE TABLE added (id INT PRIMARY KEY)", "INSERT INTO added VALUES (1)", database=flow.database
        )
        config, named = flow.migration.config, f"  - {{name: {flow.database}.added, sharding: {{nodes: ds_0.added}}}}\n"
        text = config.read_text("utf-8")
        config.write_text(text.replace("tables:\n", f"tables:\n{named}"), "utf-8")  # before the one that is there
        flow.children("publish")[0].stop(SLOW)
        do("init")
        flow.child("publish-again", "publish")
        wait(lambda: stands(flow)[:2] == ("copying", "migrate copy"), "it to take the table up")
        do("copy")
        wait(lambda: stands(flow)[:2] == ("catching up", "migrate --reverse init"), "the copy to be at the target")
        assert f"table {flow.name}_0.added was added after init" in stands(flow)[2][1]
        ask("verify")
        assert stands(flow)[:2] == ("verified", "migrate --reverse init")
        said = flow.child("early", "cutover")
        assert said.wait(SLOW)
        assert said.returncode in (2, 3), "the reverse stream lacks the table"
        do("--reverse", "init")
        added = f"the reverse stream: 1 table ({flow.name}_0.added) added"
        told = f"{added}: start `migrate --reverse run` again if it began before"
        stage, following, held = stands(flow)
        assert (stage, following, held[1:]) == ("catching up", "migrate --reverse run", [told])
        for label, process in {"t0": ("publish", "--source", "t0"), "consume": ("consume",)}.items():
            flow.children(f"back-{label}")[0].stop(SLOW)
            flow.child(f"back-{label}-again", "--reverse", *process)
        wait(lambda: stands(flow)[:2] == ("catching up", "migrate verify"), "it to take the table up")
        ask("verify")
        assert stands(flow) == ("ready", "migrate cutover --rehearse", [])
        ask("cutover")
        box.targets[0].execute("INSERT INTO added VALUES (2)", database=f"{flow.name}_0")
        ask("--reverse", "verify")
        ask("rollback")
        assert box.source.query("SELECT id FROM added ORDER BY id", database=flow.database) == ((1,), (2,))


@pytest.mark.timeout(600)
def test_a_reverse_stream_that_a_cutover_would_refuse_is_not_ready(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask, do = one.flow, one.flow.migration.ask, one.flow.migration.do
        ask("verify")
        ready: tuple[str, str, list[str]] = ("ready", "migrate cutover --rehearse", [])
        wait(lambda: stands(flow) == ready, "the reverse stream")
        table, key = f"{flow.name}_0.orders_0", "8"
        do("--reverse", "parked", "skip", table, key, "--reason", "a test")
        held = "the reverse stream: 1 × key is skipped"
        assert stands(flow) == ("verified", "migrate --reverse parked list", [held])
        assert held in flow.refused("cutover")
        do("--reverse", "parked", "retry", table, key)
        wait(lambda: stands(flow) == ready, "the row to be taken")
        ask("cutover")
        assert stands(flow)[:2] == ("switched", "migrate --reverse verify")

        trigger = (
            "CREATE TRIGGER no BEFORE UPDATE ON orders FOR EACH ROW"
            " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this table'"
        )
        box.source.execute(trigger, database=flow.database)  # a rollback would be refused
        one.write_at_target(0, "UPDATE orders_0 SET value = 9 WHERE id = 8")
        wait(lambda: stands(flow)[1] == "migrate --reverse parked list", "its partition to be stopped")
        assert any("the reverse stream: " in line and "error 1644" in line for line in stands(flow)[2])
        box.source.execute("DROP TRIGGER no", database=flow.database)
        wait(lambda: stands(flow)[1] == "migrate --reverse verify", "it to go on by itself")
        ask("--reverse", "verify")
        ask("rollback")
        assert flow.source_rows(box.source)[8][2] == 9

        ask("cutover")
        box.source.execute(trigger, database=flow.database)
        flow.drain()  # it is read: what was compared before it counts no more
        ask("--reverse", "verify")
        one.write_at_target(0, "UPDATE orders_0 SET value = 10 WHERE id = 8")
        wait(lambda: stands(flow)[1] == "migrate --reverse parked list", "its partition to be stopped")
        do("--reverse", "parked", "skip", table, key, "--reason", "the old table is given up")
        wait(lambda: any("is parked" in line for line in stands(flow)[2]), "it to be parked")
        for process in [*flow.children("publish"), *flow.children("consume")]:
            process.stop(SLOW)
        flow.stop()
        wait(lambda: stands(flow)[:2] == ("switched", "migrate finish"), "the leases to end")
        told = "the sources refused 1 change of the targets: `migrate --reverse parked list` names what the sources"
        assert told in do("finish")
        assert "finished" in do("finish", "--yes")
        assert ask("status")["stage"] == "finished"
