"""A change that the target refuses: its partition alone is stopped, and both ways on work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    with closing(Flow(box, kafka, tmp_path, unique("parked"), box.source)) as made:
        made.migration.do("init")
        let_history_be(made, "VARCHAR(5)")
        made.child("publish", "publish", "--source", "main")
        wait(made.position, "the publisher to begin")
        made.start_targets()
        yield made


def let_history_be(flow: Flow, type_: str) -> None:
    """At every place of the target."""
    for number, server in enumerate(flow.box.targets):
        for table in range(2):
            server.execute(
                f"ALTER TABLE orders_{table} MODIFY history {type_} NOT NULL", database=f"{flow.name}_{number}"
            )


def write(flow: Flow, *statements: str) -> None:
    flow.box.source.execute(*statements, database=flow.database)


def stopped(flow: Flow) -> list[dict[str, str]]:
    found: list[dict[str, str]] = flow.migration.ask("parked", "list")["stopped"]
    return found


def parked(flow: Flow) -> list[tuple[str, str, str]]:
    """(key, change, reason) of each."""
    found: list[Any] = flow.migration.ask("parked", "list")["parked"]
    return [(one["key"], one["change"], one["reason"]) for one in found]


def test_a_refused_change_stops_its_partition_alone_until_the_target_is_mended(flow: Flow) -> None:
    rows = ", ".join(f"({key}, {key}, {key}, 'short')" for key in range(2, 40))
    write(flow, "INSERT INTO orders VALUES (1, 1, 1, 'too long')", f"INSERT INTO orders VALUES {rows}")
    (one,) = wait(lambda: stopped(flow), "the partition to be stopped")
    assert f'the target refuses {flow.database}.orders key ["1"] at (1, ' in one["reason"]
    assert "Data too long for column 'history'" in one["reason"]
    assert f"migrate parked skip {flow.database}.orders '[\"1\"]' --reason" in one["hint"]
    wait(lambda: len(flow.differences(flow.box.source)) < 39, "the other partition to go on")
    assert "missing 1" in flow.differences(flow.box.source)
    let_history_be(flow, "MEDIUMTEXT")
    flow.migration.do("parked", "retry")
    wait(lambda: not stopped(flow), "the partition to go on")
    flow.drain()
    assert flow.differences(flow.box.source) == []
    assert flow.migration.do("parked", "list").strip() == "nothing is refused"


def test_a_change_that_is_set_aside_lets_the_others_pass_and_comes_again_when_asked(flow: Flow) -> None:
    table = f"{flow.database}.orders"
    write(flow, "INSERT INTO orders VALUES (1, 1, 1, 'a'), (3, 3, 3, 'a')")
    flow.drain()
    write(flow, "UPDATE orders SET history = 'longer'")
    wait(lambda: stopped(flow), "a partition to be stopped")
    for key in ("1", '["3"]'):
        flow.migration.do("parked", "skip", table, key, "--reason", "ticket 12")
    flow.drain()
    assert sorted(parked(flow)) == [('["1"]', "write", "ticket 12"), ('["3"]', "write", "ticket 12")]
    assert flow.migration.ask("status")["parked"] == 2
    assert [line[:11] for line in flow.differences(flow.box.source)] == ["different 1", "different 3"]
    write(flow, "UPDATE orders SET history = 'longer still' WHERE id = 1")  # refused too: takes the other's place
    flow.drain()
    assert len(parked(flow)) == 2
    write(flow, "UPDATE orders SET history = 'b' WHERE id = 1")  # the target takes this one
    flow.drain()
    assert parked(flow) == [('["3"]', "write", "ticket 12")]
    assert [line[:11] for line in flow.differences(flow.box.source)] == ["different 3"]
    let_history_be(flow, "MEDIUMTEXT")
    assert flow.migration.do("parked", "retry").startswith("1 row applied again")
    assert (parked(flow), flow.differences(flow.box.source)) == ([], [])


def test_a_row_that_is_deleted_at_the_source_ends_what_is_parked_of_it(flow: Flow) -> None:
    table = f"{flow.database}.orders"
    write(flow, "INSERT INTO orders VALUES (1, 1, 1, 'too long')")
    wait(lambda: stopped(flow), "the partition to be stopped")
    flow.migration.do("parked", "skip", table, "1", "--reason", "a test")
    flow.drain()
    assert parked(flow) == [('["1"]', "write", "a test")]
    write(flow, "DELETE FROM orders")
    flow.drain()
    assert (parked(flow), flow.differences(flow.box.source)) == ([], [])
    write(flow, "INSERT INTO orders VALUES (1, 1, 1, 'too long')")
    flow.drain()
    assert parked(flow) == [('["1"]', "write", "a test")], "set aside once, a row stays so until it is tried again"
    again = flow.child("retry", "parked", "retry", table, "1")
    assert again.wait(90)
    assert again.returncode == 5
    assert "the target refuses" in again.log.read_text("utf-8")
    assert len(stopped(flow)) == 1
