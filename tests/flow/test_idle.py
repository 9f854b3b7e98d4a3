"""A source without a write for IDLE_SECONDS (5; a soak sets 600): the lag stays true, the next write arrives."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, frozen, wait
from tests.helpers import memory_mb, unique

IDLE_SECONDS = float(os.environ.get("IDLE_SECONDS", "5"))
_MORE_MB = 8  # that the publisher may grow by meanwhile

pytestmark = pytest.mark.timeout(300 + IDLE_SECONDS)


def test_a_write_to_a_long_idle_source_arrives_and_the_lag_is_true(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("idle"), box.source, lease=60)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, '1')", database=flow.database)
        flow.drain()
        before = flow.position()
        taken_mb = memory_mb(publisher.pid, "VmRSS")
        ends = time.monotonic() + IDLE_SECONDS
        asked = 0
        while time.monotonic() < ends or not asked:
            assert flow.migration.ask("status")["lag_seconds"] == 0
            asked += 1
        assert flow.position() == before
        assert memory_mb(publisher.pid) < taken_mb + _MORE_MB

        with frozen(publisher.pid):
            written = time.monotonic()
            box.source.execute("INSERT INTO orders VALUES (2, 2, 2, '2')", database=flow.database)
            lag = wait(lambda: flow.migration.ask("status")["lag_seconds"], "a lag")
            # not since the row before: the source was seen idle at each flush
            assert lag <= time.monotonic() - written + 3
        flow.drain()
        assert flow.migration.ask("status")["lag_seconds"] == 0
        assert publisher.running
        assert publisher.log.read_text("utf-8").count(" publishing ") == 1  # one connection all the time
        assert flow.differences(box.source) == []
        assert sorted(flow.source_rows(box.source)) == [1, 2]
