"""What a killed publisher had on its way stands in `migrate status` until it is cleared or its successor flushes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, frozen, wait
from tests.forked import Child
from tests.helpers import unique


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    made = Flow(box, kafka, tmp_path, unique("left"), box.source)
    made.migration.do("init")
    made.start_targets()
    yield made
    made.close()


def outstanding(flow: Flow) -> dict[str, Any]:
    """As `migrate status` tells it."""
    found: dict[str, Any] = flow.migration.ask("status")["sources"][0]["outstanding"]
    return found


def let_in(flow: Flow) -> None:
    """The next one need not wait until the lease of the killed one runs out."""
    flow.state("UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE name = 'publish:main'")


def kill_with_batches(flow: Flow, publisher: Child, broker: KafkaBroker, key: int) -> dict[str, Any]:
    """Kill a publisher while Kafka owes it confirmations; returns what status says then. `key`: the first to write."""

    def listed() -> int:
        rows = flow.box.targets[0].query("SELECT batches FROM outstanding", database=f"{flow.name}_state")
        return int(rows[0][0]) if rows else 0

    writer = flow.writer(lambda: flow.box.source.connect(flow.database), first=key, rows=3)
    writer.wait_for(5)
    with frozen(broker.pid):
        writer.wait_for(20)
        wait(listed, "batches that Kafka does not confirm")
        publisher.kill()
        writer.stop()
    found = outstanding(flow)
    assert found["batches"] == listed()
    return found


def test_batches_of_a_killed_publisher_are_listed_until_they_are_cleared_or_its_successor_flushes(
    flow: Flow, kafka: KafkaBroker
) -> None:
    first = flow.child("publish-1", "publish")
    wait(flow.position, "a start")
    left = kill_with_batches(flow, first, kafka, 1)
    assert left["rows"] >= left["batches"] > 0
    assert left["bytes"] > 0
    assert [number for number, *_ in left["first"]] == sorted(number for number, *_ in left["first"])
    assert f"{left['batches']} batch" in flow.migration.do("status")

    let_in(flow)
    assert f"{left['batches']} batch" in flow.migration.do("publish", "--clear-batches")
    assert outstanding(flow)["batches"] == 0

    second = flow.child("publish-2", "publish")
    flow.drain()
    assert kill_with_batches(flow, second, kafka, 1001)["batches"] > 0
    let_in(flow)
    flow.child("publish-3", "publish")
    flow.drain()
    wait(lambda: outstanding(flow)["batches"] == 0, "the successor to clear the list")
    assert flow.differences(flow.box.source) == []
    assert [line for writer in flow._writers for line in writer.lost(flow.source_rows(flow.box.source))] == []
