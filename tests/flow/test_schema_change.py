"""Columns are added and dropped at the source, and at the targets by hand, while all processes run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.helpers import unique
from tests.waiting import SLOW

pytestmark = pytest.mark.timeout(900)  # each starts all processes three times, which a busy machine takes minutes for


@pytest.fixture
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, tmp_path, unique("altered"), table="    ddl: ignore\n")
    flow.migration.do("init")
    flow.migration.start()
    flow.migration.wait(lambda: flow.migration.ask("status")["sources"][0]["published"], SLOW, "a position")
    yield flow
    flow.migration.stop()


def targets(pipeline: Pipeline, alter: str) -> None:
    for database in range(4):
        pipeline.box.targets[database // 2].execute(
            *(f"ALTER TABLE orders_{table} {alter}" for table in range(4)), database=f"{pipeline.name}_{database}"
        )


def started_again(pipeline: Pipeline) -> None:
    pipeline.migration.start()
    pipeline.migration.wait(lambda: not pipeline.migration.ask("status")["halted"], SLOW, "the consumer's start")


def rows(pipeline: Pipeline, column: str) -> dict[int, object]:
    found: dict[int, object] = {}
    for database in range(4):
        server = pipeline.box.targets[database // 2]
        for table in range(4):
            found |= dict(server.query(f"SELECT id, {column} FROM {pipeline.name}_{database}.orders_{table}"))
    return found


def test_columns_come_and_go_without_a_restart(pipeline: Pipeline) -> None:
    insert = "INSERT INTO orders (id, user_id, amount{more}) VALUES ({id}, 1, 1{value})"
    pipeline.close_copy()
    pipeline.sql(insert.format(id=1, more="", value=""))
    targets(pipeline, "ADD COLUMN extra VARCHAR(20) CHARACTER SET latin1 DEFAULT 'none' AFTER user_id")
    pipeline.sql(
        insert.format(id=2, more="", value=""),
        "ALTER TABLE orders ADD COLUMN extra VARCHAR(20) CHARACTER SET latin1 DEFAULT 'none' AFTER user_id",
        insert.format(id=3, more=", extra", value=", 'ö'"),
        "UPDATE orders SET extra = 'now' WHERE id = 1",
    )
    pipeline.migration.ask("drain", "--timeout", "90")
    assert pipeline.differences() == []
    assert rows(pipeline, "extra") == {1: "now", 2: "none", 3: "ö"}

    killed = pipeline.migration.kill("consume")  # a restart of a process after the change
    pipeline.migration.wait(lambda: pipeline.migration.pid("consume") not in (None, killed), SLOW, "the consumer")
    pipeline.sql(
        "ALTER TABLE orders DROP COLUMN extra, MODIFY note VARCHAR(300)",
        insert.format(id=4, more=", note", value=", REPEAT('n', 290)"),
    )
    halted = pipeline.migration.wait(lambda: pipeline.migration.ask("status")["halted"], SLOW, "the consumer to stop")
    assert halted[0]["process"].startswith("consume: migrate.")
    assert "note" in halted[0]["reason"]

    pipeline.migration.stop()
    targets(pipeline, "DROP COLUMN extra, MODIFY note VARCHAR(300)")
    started_again(pipeline)
    pipeline.migration.ask("drain", "--timeout", "90")
    assert pipeline.differences() == []
    assert sorted(rows(pipeline, "note")) == [1, 2, 3, 4]


def test_a_column_that_the_targets_lack_stops_its_partition_until_it_is_there(pipeline: Pipeline) -> None:
    pipeline.sql(
        "ALTER TABLE orders ADD COLUMN extra INT DEFAULT 3",
        "INSERT INTO orders (id, user_id, amount, extra) VALUES (1, 1, 1, 9)",
    )
    halted = pipeline.migration.wait(lambda: pipeline.migration.ask("status")["halted"], SLOW, "the consumer to stop")
    assert halted[0]["process"].startswith("consume: migrate.")
    assert f"{pipeline.source}.orders" in halted[0]["reason"]
    assert "extra" in halted[0]["reason"]
    assert "ALTER every target table" in halted[0]["hint"]
    targets(pipeline, "ADD COLUMN extra INT DEFAULT 3")
    pipeline.migration.wait(
        lambda: not pipeline.migration.ask("status")["halted"], SLOW, "the consumer to go on by itself"
    )
    pipeline.migration.ask("drain", "--timeout", "90")
    assert pipeline.differences() == []
    assert rows(pipeline, "extra") == {1: 9}
