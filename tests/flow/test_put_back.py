"""Lost: what a target had committed and came back without, put back to its data directory of a minute ago: the next
batch, the end of the copy and the reverse stream went on above the hole (invariant fence-compares)."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.flow import launcher
from tests.forked import Child
from tests.helpers import unique
from tests.kept import KeptState, kept

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # Spark starts twice
ROWS, CHUNK = 2_000, 50
COPY = f"copy: {{chunk_rows: {CHUNK}, chunks_at_once: 1, master: 'local[2]'}}\nverify: {{master: 'local[2]'}}\n"
COMPARED = ", compare_seconds: 2"
LOST = "a target lost committed transactions"


def lost(flow: Flow, *options: str) -> Any:
    return flow.migration.ask(*options, "status")["lost"]


def test_a_target_that_comes_back_with_less_gets_it_again_in_the_copy_the_stream_and_the_reverse_stream(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: rows that a target had committed before it was put back: the next batch raised its fence over the hole."""
    faulty, aside = box.targets[1], tmp_path / "aside"
    with closing(Flow(box, kafka, tmp_path, unique("back"), box.source, more=COPY, consume=COMPARED)) as flow:
        flow.fill(box.source, ROWS)
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the first position")
        consumer = flow.child("consume", "consume")
        flow.child("commit", "commit")
        flow.child("requeue", "requeue")
        writer = flow.writer(lambda: box.source.connect(flow.database), 1)
        writer.wait_for(50)
        copy = flow.child("copy", "copy")
        wait(lambda: flow.chunks("done") >= 4, "the first chunks")
        with kept(faulty, aside) as before:
            done = flow.chunks("done")
            wait(lambda: flow.chunks("done") >= done + 4, "more chunks")
            writer.wait_for(50)
            before.put_back()
        assert copy.wait(300), "the copy still runs"
        assert copy.returncode == 0, copy.log_tail()
        assert LOST in copy.log.read_text("utf-8")
        writer.wait_for(50)
        flow.drain()
        assert LOST in consumer.log.read_text("utf-8")

        with kept(faulty, aside) as before:
            writer.wait_for(200)
            writer.stop()
            flow.drain()
            assert flow.differences(box.source) == []
            before.put_back()
            # Nobody writes there: a comparison finds it.
            flow.drain()
            assert flow.differences(box.source) == []
            assert any("t1/" in one for one in lost(flow))
            before.put_back()
            again = flow.writer(lambda: box.source.connect(flow.database), 101)
            again.wait_for(100)
            again.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == again.lost(flow.source_rows(box.source)) == []
        assert consumer.running
        assert any("t1/" in one for one in lost(flow))
        assert "not verified since" in str(flow.migration.ask("status"))
        flow.migration.do("verify")
        assert lost(flow) == []

        flow.start_reverse()
        flow.put_applications_at("target")
        for child in flow.children("publish"):
            child.stop(SLOW)
        with kept(box.source, aside) as before:
            place = f"{flow.name}_1.orders_0"
            faulty.execute(f"INSERT INTO {place} VALUES (900000, 1, 1, '1')")
            flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
            assert 900000 in flow.source_rows(box.source)
            before.put_back()
            assert 900000 not in flow.source_rows(box.source)
            faulty.execute(f"INSERT INTO {place} VALUES (900002, 1, 1, '1')")
        wait(lambda: {900000, 900002} <= flow.source_rows(box.source).keys(), "what the source lost")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        assert flow.differences(box.source) == []
        assert lost(flow, "--reverse")


def test_the_reverse_stream_of_a_target_that_was_put_back_begins_at_the_end_of_its_log(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: the reverse stream. Its publisher stopped for good, and nothing of a standby side is to be carried."""
    faulty = box.targets[1]
    with closing(Flow(box, kafka, tmp_path, unique("log"), box.source, more=COPY, consume=COMPARED)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the first position")
        flow.start_targets()
        flow.fill(box.source, 500)
        flow.drain()
        flow.start_reverse()
        flow.migration.do("verify")
        with kept(faulty, tmp_path / "aside") as before:
            flow.children("back-t1")[0].kill()
            later = flow.child("back-later", "--reverse", "publish", "--source", "t1")
            wait(lambda: "position saved" in later.log.read_text("utf-8"), "a position in the next file")
            later.stop(SLOW)
            before.put_back()
        again = flow.child("back-again", "--reverse", "publish", "--source", "t1")
        wait(lambda: "publishing" in again.log.read_text("utf-8"), "the publisher to go on")
        assert "begins at the end of the log" in again.log.read_text("utf-8")
        assert "its log is another one than was read up to" in str(flow.migration.ask("--reverse", "status"))
        assert "its log is another one" in flow.refused("cutover")
        faulty.execute(f"UPDATE {flow.name}_1.orders_0 SET value = -1 WHERE id = 2")
        wait(lambda: flow.migration.ask("foreign", "list")["count"], "the write by hand")
        flow.drain()
        flow.migration.do("foreign", "discard", "--all")
        flow.migration.do("verify")
        assert "its log is another one" not in str(flow.migration.ask("--reverse", "status"))

        again.stop(SLOW)
        flow.put_applications_at("target")
        faulty.execute("RESET MASTER" if box.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS")
        refused = flow.child("refused", "--reverse", "publish", "--source", "t1")
        assert refused.wait(SLOW)
        said = refused.log.read_text("utf-8")
        assert (refused.returncode, "RESET MASTER?" in said) == (5, True), said


def test_a_state_database_that_is_put_back_lets_no_holder_of_the_same_epoch_write_and_loses_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: newer rows, by a consumer that hangs and has the epoch that its successor gets again."""
    with closing(Flow(box, kafka, tmp_path, unique("state"), box.source)) as flow, ExitStack() as ending:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        wait(flow.position, "the first position")
        flow.start_targets()
        (first,) = flow.children("consume")
        writer = flow.writer(lambda: box.source.connect(flow.database), 1)
        writer.wait_for(100)
        flow.drain()
        first.kill()
        before = KeptState(box.targets[0], flow.name)
        held = tmp_path / "held"
        hanging = Child("migrate consume_hanging", tmp_path / "consume_hanging.log", Path.cwd())
        command = launcher.command(flow.migration, "hold", "migrate.merge.merger:Merger.merge", 20, "consume")
        ending.callback(hanging.kill)
        hanging.start(command, {**flow.migration.environment, "HELD_AT": str(held)})
        wait(held.exists, "a batch to be about to be written")
        with frozen(hanging.pid):
            held.unlink()
            writer.wait_for(50)
            before.put_back()
            assert publisher.wait(SLOW), "the publisher goes on behind what the state lost"
            said = publisher.log.read_text("utf-8")
            if publisher.returncode != 6:  # its lease ran out while the state was locked
                assert (publisher.returncode, "put back to an earlier one" in said) == (4, True), said
                assert "put back to an earlier one" in str(flow.migration.ask("status"))
            flow.child("publish_after", "publish")
            after = flow.child("consume_after", "consume")
            wait(lambda: "the state database knew an older epoch" in after.log.read_text("utf-8"), "the epochs")
            writer.wait_for(50)
        wait(lambda: "has another owner" in hanging.log.read_text("utf-8"), "its batch to be refused")
        writer.wait_for(50)
        writer.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []
        assert after.running
