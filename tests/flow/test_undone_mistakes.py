"""Undoing what a person did by mistake: a rewind to too early a place, a target table that was dropped."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import log_end, unique


def test_a_rewind_to_before_the_table_was_made_is_taken_back(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    file, pos = log_end(box.source)
    with closing(Flow(box, kafka, tmp_path, unique("back"), box.source)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, ''), (2, 2, 2, '')", database=flow.database)
        flow.drain()
        middle = flow.position()
        box.source.execute("UPDATE orders SET value = 7", database=flow.database)
        flow.drain()
        reached = flow.position()
        publisher.stop()

        stopped = flow.child("rewound", "publish", "--from", f"{file}:{pos}", "--yes")
        assert stopped.wait(SLOW)
        assert (stopped.returncode, "a statement may change" in stopped.log.read_text("utf-8")) == (5, True)
        assert flow.position()["pos"] <= pos
        ahead = flow.child("ahead", "publish", "--from", f"{reached['file']}:{reached['pos'] + 1000}", "--yes")
        assert ahead.wait(SLOW)
        assert ahead.returncode in (3, 5)
        again = flow.child("again", "publish", "--from", f"{middle['file']}:{middle['pos']}", "--yes")
        wait(lambda: (flow.position()["file"], flow.position()["pos"]) >= (reached["file"], reached["pos"]), "its way")
        box.source.execute("INSERT INTO orders VALUES (3, 3, 3, '')", database=flow.database)
        flow.drain()
        assert again.running
        assert flow.differences(box.source) == []


def test_a_target_table_that_was_dropped_is_not_made_empty_as_if_it_were_copied(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("dropped"), box.source)) as flow:
        flow.migration.do("init")
        drop = ("DROP TABLE orders_1", f"{flow.name}_1")
        box.targets[1].execute(drop[0], database=drop[1])
        assert "1 of 4 target tables created" in flow.migration.do("init")
        flow.close_copy()
        box.targets[1].execute(drop[0], database=drop[1])
        refused = flow.child("init", "init")
        assert refused.wait(SLOW)
        told = refused.log.read_text("utf-8")
        assert (refused.returncode, f"t1/{drop[1]}.orders_1 is gone, and rows of" in told) == (3, True)
        assert box.targets[1].query("SHOW TABLES LIKE 'orders_1'", database=drop[1]) == ()
