"""`migrate verify` while writers write: no live row is called different, a planted one is.

`LOAD_SECONDS=3600` makes it long (docs/reliability.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.helpers import unique

LOAD_SECONDS = float(os.environ.get("LOAD_SECONDS", "10"))
ROWS = 20_000
AMONG, ABOVE, KEYS = 10_000, 1_000_000, 300
"""Where the writers' keys begin, and how many each has."""
MORE = "verify: {rechecks: 5, recheck_seconds: 2, chunk_rows: 2000, master: 'local[2]'}\n"
pytestmark = [pytest.mark.long, pytest.mark.timeout(300 + 2 * LOAD_SECONDS)]


def test_live_rows_are_no_differences_and_a_planted_one_is(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("live"), box.source, lease=15, more=MORE)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        flow.fill(box.source, ROWS)
        among = f"DELETE FROM orders WHERE id BETWEEN {AMONG} AND {AMONG + KEYS - 1}"
        box.source.execute(among, database=flow.database)
        flow.drain()
        writers = [flow.writer(lambda: box.source.connect(flow.database), first, 3, KEYS) for first in (AMONG, ABOVE)]
        wait(lambda: all(writer.writes > 20 for writer in writers), "the writers to write")
        until, runs, looked_at = time.monotonic() + LOAD_SECONDS, 0, 0
        while runs < 2 or time.monotonic() < until:
            before = sum(writer.writes for writer in writers)
            certificate = flow.migration.ask("verify")
            (table,) = certificate["tables"]
            assert (table["named"], certificate["differences"], certificate["in_motion"]) == ([], 0, 0)
            assert table["rows"] > ROWS - KEYS
            assert sum(writer.writes for writer in writers) > before, "nothing was written meanwhile"
            runs, looked_at = runs + 1, looked_at + table["rows"]
        key = 2 * ROWS  # no writer's
        number = key // 2 % 2
        box.targets[number].execute(
            f"UPDATE orders_{key % 2} SET value = value + 1 WHERE id = {key}", database=f"{flow.name}_{number}"
        )
        (table,) = flow.migration.ask("verify", accept=(1,))["tables"]
        assert [(one["kind"], one["key"]) for one in table["named"]] == [("different", [str(key)])]
        assert "value" in table["named"][0]["detail"]
        for writer in writers:
            writer.stop()
        flow.drain()
        (only,) = flow.differences(box.source)
        assert only.startswith(f"different {key}:")
    for name, value in (("verifications", runs), ("rows", looked_at), ("writes", sum(one.writes for one in writers))):
        record_property(name, value)


def test_a_stream_that_is_behind_makes_no_difference(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    """Lost: hours, to looking for 93 rows that a busy consumer had not written yet."""
    more = "verify: {rechecks: 2, recheck_seconds: 0.1, master: 'local[2]'}\n"
    with closing(Flow(box, kafka, tmp_path, unique("behind"), box.source, lease=120, more=more)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        flow.fill(box.source, 500)
        flow.drain()
        (consumer,) = flow.children("consume")
        with frozen(consumer.pid):
            box.source.execute(
                "UPDATE orders SET value = -1 WHERE id < 200",
                "DELETE FROM orders WHERE id > 900",
                database=flow.database,
            )
            verify = flow.child("verify", "verify")
            wait(lambda: "waits for the stream" in verify.log.read_text("utf-8"), "it to wait for the stream")
        assert verify.wait(SLOW)
        assert verify.returncode == 0, verify.log_tail()
