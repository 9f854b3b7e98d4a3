"""Lost: messages that the broker had acknowledged and came back without, put back to its data of a minute ago: the
position was behind them, and the consumer went on behind what came in their places (invariant fence-compares)."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts a broker of its own three times


def put(flow: Flow, *keys: int) -> None:
    rows = ", ".join(f"({key}, {key}, {key}, '{key}')" for key in keys)
    flow.box.source.execute(f"REPLACE INTO orders VALUES {rows}", database=flow.database)


def test_a_topic_that_ends_before_what_was_acknowledged_is_named_and_published_and_read_again(
    mariadb_box: Sandbox, tmp_path: Path
) -> None:
    """Lost: changes that the broker had acknowledged, as nobody compares where a partition ends."""
    broker, aside = KafkaBroker(tmp_path / "broker"), tmp_path / "aside"
    broker.start()
    with closing(Flow(mariadb_box, broker, tmp_path, unique("cut"), mariadb_box.source)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        wait(flow.position, "the first position")
        flow.start_targets()
        (consumer,) = flow.children("consume")
        put(flow, *range(1, 21))
        flow.drain()
        broker.kill()
        shutil.copytree(broker.root / "data", aside)
        broker.start()
        put(flow, *range(21, 41))
        flow.drain()
        consumer.kill()  # what comes now is acknowledged, and not applied
        put(flow, *range(41, 61))
        end = flow.box.source.query("SHOW MASTER STATUS")[0]
        wait(lambda: flow.position()["pos"] >= end[1], "it to be published")
        broker.kill()
        shutil.rmtree(broker.root / "data")
        shutil.copytree(aside, broker.root / "data")
        broker.start()
        assert "Kafka lost acknowledged messages" in flow.refused("drain", code=5)  # and no switch takes it for drained
        put(flow, *range(61, 101))
        assert publisher.wait(SLOW)
        assert publisher.returncode == 5
        assert "Kafka lost acknowledged messages" in publisher.log.read_text("utf-8")
        started = flow.child("publish_again", "publish")
        assert started.wait(SLOW)
        place = re.search(r"--from (\S+:\d+)", started.log.read_text("utf-8").replace("\n", " "))
        assert place is not None, started.log_tail()
        flow.child("publish_back", "publish", "--from", place[1], "--yes")
        consumer = flow.child("consume_again", "consume")
        flow.drain()
        assert "the broker lost acknowledged messages" in consumer.log.read_text("utf-8")
        assert flow.differences(flow.box.source) == []
        assert any("Kafka lost" in one for one in flow.migration.ask("status")["lost"])
        put(flow, *range(200, 220))
        flow.drain()
        assert flow.differences(flow.box.source) == []
    broker.kill()
