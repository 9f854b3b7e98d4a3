"""A statement that the publisher brings to the targets (`ddl: apply`), where a row was read again at its source that is
as the statement made it: its partition is stopped, and the statement waited for that. Costs 25 s a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, TABLES, Flow, wait
from tests.helpers import unique

pytestmark = pytest.mark.timeout(600)
PUBLISH = ("publish", "--source", "main")


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    columns, name = ", extra VARCHAR(5) NOT NULL DEFAULT ''", unique("blocked")
    with closing(Flow(box, kafka, tmp_path, name, box.source, columns=columns, table="    ddl: apply\n")) as made:
        made.migration.do("init")
        made.child("publish", *PUBLISH)
        wait(made.position, "the publisher to begin")
        made.start_targets()
        at_source(made, "INSERT INTO orders VALUES (1, 1, 1, '', 'a'), (2, 2, 2, '', 'b')")
        made.drain()
        yield made


def at_source(flow: Flow, *statements: str) -> None:
    flow.box.source.execute(*statements, database=flow.database)


def halted(flow: Flow) -> dict[str, dict[str, str]]:
    return {one["process"].partition(":")[0]: one for one in flow.migration.ask("status")["halted"]}


def read_again(flow: Flow, label: str, *statements: str) -> dict[str, str]:
    """A statement and a row behind it that no publisher has come to yet, which is read; why its partition stops."""
    flow.children(label)[0].stop(SLOW)
    at_source(flow, *statements)
    flow.child("refresh", "refresh", f"{flow.database}.orders", "1")
    found: dict[str, str] = wait(lambda: halted(flow).get("consume"), "the partition to be stopped")
    return found


def test_a_row_that_waits_for_the_statement_does_not_hold_it_back(flow: Flow) -> None:
    """Lost: the stream, as the publisher waited for the partition, and the partition for the publisher's statement."""
    widen = "ALTER TABLE orders MODIFY extra VARCHAR(60), ADD COLUMN n INT DEFAULT 7"
    update = "UPDATE orders SET extra = REPEAT('x', 50) WHERE id = 1"
    assert "Data too long for column 'extra'" in read_again(flow, "publish", widen, update)["reason"]
    flow.child("widened", *PUBLISH)
    wait(lambda: not halted(flow), "the partition to go on")
    flow.drain()
    assert flow.differences(flow.box.source) == []

    # In front of one that rows from before it cannot come behind, the publisher says what it waits for.
    rename = "ALTER TABLE orders CHANGE extra words VARCHAR(60)"
    unread = read_again(flow, "widened", rename)
    assert "Unknown column" in unread["reason"]
    assert "make the target tables the same by hand, set tables[].ddl: ignore" in unread["hint"]
    renamed = flow.child("renamed", *PUBLISH)
    told = wait(lambda: halted(flow).get("publish"), "the publisher to say it")
    assert f"a statement may change {flow.database}.orders: {rename}; it waits for consume: " in told["reason"]
    assert "make the target tables the same by hand, set tables[].ddl: ignore" in told["hint"]
    assert renamed.running
    renamed.stop(SLOW)
    for number in range(TABLES):
        for table in range(TABLES):
            there = rename.replace("orders", f"orders_{table}")
            flow.box.targets[number].execute(there, database=f"{flow.name}_{number}")
    config = flow.migration.config
    config.write_text(config.read_text("utf-8").replace("ddl: apply", "ddl: ignore"), "utf-8")
    flow.child("ignored", *PUBLISH)
    wait(lambda: not halted(flow), "all to go on")
    flow.drain()
    assert flow.differences(flow.box.source) == []


def test_a_run_that_is_not_ended_is_named_where_the_publisher_waits_for_it_and_its_own_is_not_undone(
    flow: Flow,
) -> None:
    """Lost: the stream of a source stood behind a paused run, and nothing but the log said so; an undo of the
    publisher's run took the column from the targets alone, and all partitions stopped. Costs 20 s a server."""
    for number in range(2):
        flow.box.targets[0].execute(f"CREATE TABLE x_{number} (id INT PRIMARY KEY)", database=f"{flow.name}_0")
    flow.migration.do("ddl", "run", "--nodes", "ds_0.x_${0..1}", "--first", "1", "ALTER TABLE x ADD n INT")
    at_source(flow, "ALTER TABLE orders ADD n INT DEFAULT 7", "UPDATE orders SET n = 8 WHERE id = 1")
    told = wait(lambda: halted(flow).get("publish"), "the publisher to say what it waits for")
    assert "run 1 of `migrate ddl` is not finished: ALTER TABLE x ADD n INT" in told["reason"]
    assert "`migrate ddl resume` continues it, `migrate ddl undo --allow-data-loss` takes it back" in told["hint"]
    flow.migration.do("ddl", "resume")
    wait(lambda: not halted(flow), "the publisher to go on")
    flow.drain()
    assert flow.differences(flow.box.source) == []
    undo = flow.migration.run("ddl", "undo", "--allow-data-loss")
    assert undo.returncode == 3
    assert "run 2 is the publisher's: it brought a statement of source 'main' to the targets" in undo.stderr
