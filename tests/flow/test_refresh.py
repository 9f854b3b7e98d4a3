"""`migrate refresh`: a row at the target is set right from its source (invariant refresh-settles-doubt)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, Forwarder, wait
from tests.helpers import unique


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    with closing(Flow(box, kafka, tmp_path, unique("refresh"), box.source)) as made:
        made.migration.do("init")
        made.child("publish", "publish", "--source", "main")
        wait(made.position, "the publisher to begin")
        made.start_targets()
        rows = ", ".join(f"({key}, {key}, {key}, '')" for key in range(1, 9))
        box.source.execute(f"INSERT INTO orders VALUES {rows}", database=made.database)
        made.drain()
        assert made.differences(box.source) == []
        yield made


def at_target(flow: Flow, database: int, *statements: str) -> None:
    flow.box.targets[database].execute(*statements, database=f"{flow.name}_{database}")


def test_rows_that_are_missing_changed_misplaced_or_extra_are_set_right(flow: Flow) -> None:
    source = flow.box.source
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 1", "UPDATE orders_1 SET value = 0 WHERE id = 3")
    at_target(flow, 0, "INSERT INTO orders_1 VALUES (5, 5, 5, '')", "INSERT INTO orders_1 VALUES (99, 2, 2, '')")
    at_target(flow, 0, "UPDATE orders_0 SET history = 'none of its business' WHERE id = 4")
    assert len(flow.differences(source)) == 5
    said = flow.migration.do("refresh", f"{flow.database}.orders", "1", "3", "5", "99", "01")
    assert said.strip() == f"4 rows of {flow.database}.orders refreshed"
    (left,) = flow.differences(source)
    assert left.startswith("different 4")
    assert flow.migration.do("refresh", f"{flow.database}.orders", "4").startswith("1 row of")
    assert flow.differences(source) == []
    source.execute("UPDATE orders SET user_id = user_id + 1, value = 7", database=flow.database)
    flow.drain()
    assert flow.differences(source) == []


def test_a_row_that_is_locked_at_the_source_is_waited_for(flow: Flow) -> None:
    """What its transaction will leave of it is not known yet: an event may come before its commit can be seen."""
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 1")
    with closing(flow.box.source.connect(flow.database, autocommit=False)) as writer, writer.cursor() as cursor:
        cursor.execute("UPDATE orders SET value = 70 WHERE id = 1")
        asked = flow.child("refresh", "refresh", f"{flow.database}.orders", "1")
        (halted,) = wait(lambda: flow.migration.ask("status")["halted"], "the partition to be stopped")
        assert f"source 'main': {flow.database}.orders cannot be read for a refresh: " in halted["reason"]
        assert "Lock wait timeout exceeded" in halted["reason"]
        assert asked.wait(60)
        assert asked.returncode == 5
        writer.commit()
    wait(lambda: not flow.migration.ask("status")["halted"], "the partition to go on")
    flow.drain()
    assert flow.differences(flow.box.source) == []


def test_a_source_that_is_away_holds_up_the_partition_of_a_refresh_alone(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    address = Forwarder(box.source)
    with closing(address), closing(Flow(box, kafka, tmp_path, unique("away"), box.source, at=address)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        rows = ", ".join(f"({key}, {key}, {key}, '')" for key in range(1, 41))
        box.source.execute(f"INSERT INTO orders VALUES {rows}", database=flow.database)
        before = flow.position()
        wait(lambda: flow.position()["pos"] > before["pos"], "all to be published")
        publisher.stop()
        asked = flow.child("refresh", "refresh", f"{flow.database}.orders", "1", "--timeout", "100")
        wait(lambda: sum(part["end"] for part in flow.migration.ask("status")["partitions"]) >= 3, "the request")
        address.switch(None)
        flow.start_targets()
        (halted,) = wait(lambda: flow.migration.ask("status")["halted"], "its partition to be stopped")
        assert f"{flow.database}.orders cannot be read for a refresh" in halted["reason"]
        wait(lambda: len(flow.differences(box.source)) < 40, "the other partition to go on")
        assert flow.migration.ask("status")["halted"]
        address.switch(box.source)
        wait(lambda: not flow.migration.ask("status")["halted"], "the partition to go on")
        assert asked.wait(60)
        assert flow.differences(box.source) == []


def test_what_is_no_table_or_no_key_is_refused_by_name(flow: Flow) -> None:
    def told(*arguments: str) -> tuple[int, str]:
        child = flow.child("refused", "refresh", *arguments)
        assert child.wait(60)
        return child.returncode or 0, child.log.read_text("utf-8")

    code, said = told("shop.nothing", "1")
    assert (code, "the migration has no table shop.nothing" in said) == (2, True)
    code, said = told(f"{flow.database}.orders", "seven")
    assert (code, "seven is no key of" in said) == (2, True)
    code, said = told(f"{flow.database}.orders", json.dumps(["1", "2"]))
    assert (code, "which is made of id" in said) == (2, True)


def test_a_row_whose_unique_value_is_generated_and_another_ones_at_the_target_is_set_right_with_that_one(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: the consumer, which ended by a KeyError at each start, as messages have no generated column."""
    columns = ", e VARCHAR(20) NOT NULL DEFAULT '', g VARCHAR(20) AS (NULLIF(e, '')) STORED, UNIQUE KEY of_g (g)"
    with closing(Flow(box, kafka, tmp_path, unique("generated"), box.source, columns=columns)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        insert = "INSERT INTO orders (id, user_id, value, history, e) VALUES (2, 2, 2, '', 'a'), (4, 4, 4, '', 'b')"
        box.source.execute(insert, database=flow.database)
        flow.drain()
        at_target(
            flow, 0, "UPDATE orders_0 SET e = 'x' WHERE id = 2", "UPDATE orders_0 SET e = 'a', value = 0 WHERE id = 4"
        )
        flow.migration.do("refresh", f"{flow.database}.orders", "2")
        flow.drain()
        assert flow.differences(box.source) == []
        assert flow.migration.ask("status")["halted"] == []
