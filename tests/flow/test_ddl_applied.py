"""Statements at the source that the publisher brings to the targets (`ddl: apply`), while all processes run and an
application writes. Costs 40 s a server."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow import launcher
from tests.flow.support import Pipeline
from tests.helpers import unique
from tests.kept import KeptState
from tests.waiting import SLOW

pytestmark = pytest.mark.timeout(900)
PUBLISHER = "publish:source"
STAGE = "publish"


@pytest.fixture
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, tmp_path, unique("applied"), table="    ddl: {columns: apply, truncate: apply}\n")
    flow.migration.do("init")
    flow.migration.start()
    flow.migration.wait(lambda: flow.migration.ask("status")["sources"][0]["published"], SLOW, "a position")
    yield flow
    flow.migration.stop()


def inserted(pipeline: Pipeline, first: int, more: str = "", value: str = "") -> None:
    for key in range(first, first + 20):
        pipeline.sql(f"INSERT INTO orders (id, user_id, amount{more}) VALUES ({key}, {key % 7}, 1{value})")


def last_run(pipeline: Pipeline) -> tuple[int, str]:
    """Its number, and the statement without the comment that says where it stands."""
    found = pipeline.migration.ask("ddl", "status")
    assert found["finished"] is not None
    return found["number"], found["statement"].partition(" */ ")[2]


def test_columns_come_to_the_targets_before_the_rows_that_have_them(pipeline: Pipeline) -> None:
    pipeline.close_copy()
    inserted(pipeline, 1)
    add = "ALTER TABLE orders ADD COLUMN extra VARCHAR(20) DEFAULT 'none' AFTER user_id;"
    pipeline.sql(add)
    inserted(pipeline, 101, ", extra", ", 'new'")
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    killed = pipeline.migration.kill(STAGE)
    pipeline.migration.wait(lambda: pipeline.migration.pid(STAGE) not in (None, killed), SLOW, "the publisher")
    assert last_run(pipeline) == (1, add.rstrip(";"))
    widen = "ALTER TABLE orders MODIFY extra VARCHAR(60) DEFAULT 'none', ADD COLUMN more INT"
    pipeline.sql(f"{widen}, LOCK=NONE")  # which is said to the source alone
    inserted(pipeline, 201, ", extra, more", ", REPEAT('x', 50), 7")
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    assert last_run(pipeline) == (2, widen)
    assert pipeline.migration.ask("status")["halted"] == []
    emptied_and_filled_again(pipeline)
    altered_by_a_tool(pipeline)

    pipeline.sql("ALTER TABLE orders DROP COLUMN more")
    halted = pipeline.migration.wait(lambda: pipeline.migration.ask("status")["halted"], SLOW, "the publisher to stop")
    assert halted[0]["process"] == PUBLISHER
    assert "it is not run at the targets (ddl: apply)" in halted[0]["reason"]
    assert "the statement loses the values of column more" in halted[0]["reason"]
    assert "set tables[].ddl: ignore" in halted[0]["hint"]
    assert last_run(pipeline)[0] == 4


def emptied_and_filled_again(pipeline: Pipeline) -> None:
    """Also of a key whose delete found nothing before, and comes back behind the TRUNCATE."""
    for database in range(4):
        pipeline.box.targets[database // 2].execute(f"DELETE FROM {pipeline.name}_{database}.orders_1")
    pipeline.sql(
        "DELETE FROM orders WHERE id % 4 = 1",
        "INSERT INTO orders (id, user_id, amount) VALUES (990, 1, 1), (991, 2, 1)",  # read together with the next one
        "TRUNCATE TABLE orders",
    )
    inserted(pipeline, 1, ", extra", ", 'again'")
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    assert last_run(pipeline) == (3, f"TRUNCATE TABLE `{pipeline.source}`.`orders`")


def altered_by_a_tool(pipeline: Pipeline) -> None:
    """As gh-ost ends: the table of the new definition takes the name."""
    pipeline.sql(
        "CREATE TABLE _orders_gho LIKE orders",
        "ALTER TABLE _orders_gho ADD COLUMN last INT NOT NULL DEFAULT 9 AFTER user_id",
        "INSERT INTO _orders_gho (id, user_id, amount, extra) SELECT id, user_id, amount, extra FROM orders",
        "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
    )
    inserted(pipeline, 401, ", last", ", 7")
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    number, statement = last_run(pipeline)
    assert number == 4
    assert "ADD COLUMN `last` int" in statement


@pytest.mark.long
def test_tables_are_not_emptied_again_by_a_state_that_was_put_back(pipeline: Pipeline) -> None:
    """Lost: what came behind the TRUNCATE, as its changes were taken for repeats when they came again."""
    migration, state = pipeline.migration, pipeline.box.targets[0]
    pipeline.close_copy()
    inserted(pipeline, 1)
    migration.ask("drain", "--timeout", str(SLOW))
    before = migration.ask("status")["sources"][0]["published"]
    migration.stop()
    kept = KeptState(state, pipeline.name)
    pipeline.sql("TRUNCATE TABLE orders")
    inserted(pipeline, 101)
    migration.start()
    migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    migration.stop()
    kept.put_back("lease")
    kept.close()

    migration.start()
    halted = migration.wait(lambda: migration.ask("status")["halted"], SLOW, "the publisher to stop")
    assert "has changes from behind it: was the state database put back?" in halted[0]["reason"]
    assert "`migrate publish --from` a place up to the statement" in halted[0]["hint"]
    assert pipeline.differences() == []

    migration.stop()
    first = incarnation(pipeline)
    again = migration.command("publish", "--from", before, "--yes")
    with subprocess.Popen(again, env=migration.environment) as publisher:
        migration.wait(lambda: incarnation(pipeline) > first, SLOW, "the place")
        publisher.send_signal(signal.SIGTERM)
        publisher.wait(SLOW)
    migration.start()
    migration.wait(lambda: migration.ask("status")["halted"] == [], SLOW, "the publisher to go on")
    migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    assert last_run(pipeline)[0] == 1


def incarnation(pipeline: Pipeline) -> int:
    return int(pipeline.box.targets[0].query(f"SELECT incarnation FROM {pipeline.name}_state.position")[0][0])


def test_a_publisher_that_is_killed_while_it_runs_a_statement_ends_it_after_its_start(pipeline: Pipeline) -> None:
    pipeline.close_copy()
    inserted(pipeline, 1)
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    pipeline.migration.stop()
    pipeline.sql(add := "ALTER TABLE orders ADD COLUMN extra VARCHAR(20) DEFAULT 'none'")
    inserted(pipeline, 101, ", extra", ", 'new'")
    launcher.run_killed(pipeline.migration, "after", "migrate.ddl.runner:begin", 1, "publish")
    launcher.run_killed(pipeline.migration, "after", "migrate.ddl.step:send", 3, "publish")
    launcher.run_killed(pipeline.migration, "before", "migrate.state.ddl:finish", 1, "publish")
    pipeline.migration.start()
    pipeline.migration.ask("drain", "--timeout", str(SLOW))
    assert pipeline.differences() == []
    assert last_run(pipeline) == (1, add)
