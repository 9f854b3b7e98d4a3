"""The reverse stream: writes at targets come to the sources, nothing goes round (invariant own-writes-marked)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique


def start_both_ways(flow: Flow, insert: str) -> None:
    """The forward stream, with its first rows at the targets, and the reverse stream."""
    flow.migration.do("init")
    flow.child("publish", "publish")
    wait(flow.position, "the publisher to begin")
    flow.start_targets()
    flow.box.source.execute(insert, database=flow.database)
    flow.drain()
    flow.start_reverse()


def test_what_is_written_at_the_targets_comes_back_and_nothing_goes_round(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("round"), box.source)) as flow:
        start_both_ways(flow, "INSERT INTO orders VALUES (1, 1, 1, ''), (2, 2, 2, ''), (3, 3, 3, ''), (4, 4, 4, '')")
        there = flow.migration.ask("status")["rows_applied"]

        flow.put_applications_at("target")

        def at(number: int, statement: str) -> None:
            box.targets[number].execute(statement, database=f"{flow.name}_{number}")

        at(1, "UPDATE orders_1 SET value = 10, history = 'back' WHERE id = 1")
        at(0, "DELETE FROM orders_0 WHERE id = 2")
        at(0, "INSERT INTO orders_1 VALUES (5, 6, 5, 'new')")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        # rows that change their shard as an application moves them: two transactions, at two servers, one of which
        # is read much later than the other
        flow.children("back-t1")[0].stop(SLOW)
        at(1, "DELETE FROM orders_1 WHERE id = 3")
        at(0, "INSERT INTO orders_1 VALUES (3, 8, 33, 'moved')")
        at(1, "INSERT INTO orders_0 VALUES (4, 5, 44, 'moved')")
        at(0, "DELETE FROM orders_0 WHERE id = 4")
        moved = {3: (3, 8, 33, "moved"), 4: (4, 5, 44, "moved")}
        wait(lambda: moved.items() <= flow.source_rows(box.source).items(), "rows of which one half was read")
        flow.child("back-t1-again", "--reverse", "publish", "--source", "t1")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        wanted = {1: (1, 1, 10, "back"), **moved, 5: (5, 6, 5, "new")}
        assert flow.source_rows(box.source) == wanted
        flow.drain()
        assert flow.migration.ask("status")["rows_applied"] == there, "what came back went there again"
        assert flow.differences(box.source) == []

        flow.put_applications_at("source")
        box.source.execute("INSERT INTO orders VALUES (7, 7, 7, '')", database=flow.database)
        flow.drain()
        back = flow.migration.ask("--reverse", "status")["rows_applied"]
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        assert flow.migration.ask("--reverse", "status")["rows_applied"] == back
        assert flow.differences(box.source) == []


def test_a_value_that_moves_between_shards_ends_where_the_application_has_it(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """`unique_apart`: the row that takes the value comes before the one that gave it up."""
    table, columns = "    unique_apart: true\n", ", email VARCHAR(40) NULL UNIQUE"
    with closing(Flow(box, kafka, tmp_path, unique("apart"), box.source, table=table, columns=columns)) as flow:
        assert "after a cutover every table has a reverse stream" in flow.migration.do("preflight")
        rows = "(1, 1, 1, '', 'a@x'), (2, 2, 2, '', 'b@x'), (3, 3, 3, '', 'c@x')"
        start_both_ways(flow, f"INSERT INTO orders VALUES {rows}")
        flow.put_applications_at("target")

        flow.children("back-t0")[0].stop(SLOW)
        box.targets[0].execute("UPDATE orders_0 SET email = 'other@x' WHERE id = 2", database=f"{flow.name}_0")
        box.targets[1].execute("UPDATE orders_1 SET email = 'b@x' WHERE id = 1", database=f"{flow.name}_1")
        wait(lambda: flow.source_rows(box.source)[1][4] == "b@x", "the row that takes the value")
        flow.child("back-t0-again", "--reverse", "publish", "--source", "t0")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        emails = {key: row[4] for key, row in flow.source_rows(box.source).items()}
        assert emails == {1: "b@x", 2: "other@x", 3: "c@x"}
        flow.drain()
        assert flow.differences(box.source) == []
