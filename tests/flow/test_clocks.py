"""Clocks that are wrong: no decision rests on one.

Every process runs under a clock of its own, more than an hour ahead or behind; sessions of the source set their time
and time zone. What is checked is told by the servers' clocks, which are right.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.faketime import faketime
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.failover.topic import messages
from tests.forked import Child
from tests.helpers import unique

SKEW = 3900  # seconds; Kafka by itself refuses messages that are more than an hour ahead
TIERS = (2.0, 3.0)  # seconds
COLUMNS = (
    ", seen TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
    ", wall DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
)
SESSIONS = (
    "SET SESSION time_zone = DEFAULT",
    "SET SESSION timestamp = 1000000000.123456, time_zone = '-08:00'",  # 2001
    "SET SESSION timestamp = 2100000000.654321, time_zone = '+13:00'",  # 2036
)
EMPTY = range(900_001, 900_041, 4)  # odd keys, so with user_id 1 in database 1, table 1


class Skewed:
    """A migration whose publisher, requeue process and commands have one wrong clock, the others the opposite one."""

    def __init__(self, flow: Flow, seconds: int) -> None:
        self.flow = flow
        self.skews = {"publish": seconds, "requeue": seconds, "consume": -seconds, "commit": -seconds}
        flow.migration.environment.update(faketime(seconds, flow.directory))

    def start(self, process: str) -> Child:
        environment = faketime(self.skews[process], self.flow.directory)
        return self.flow.child(process, process, environment=environment)

    def sql(self, *statements: str) -> None:
        self.flow.box.source.execute(*statements, database=self.flow.database)

    def writer_of(self, session: str) -> Callable[[], Any]:
        return lambda: self.flow.box.source.connect(self.flow.database, init_command=session, read_timeout=30)

    def status(self) -> Any:
        return self.flow.migration.ask("status")

    def lag_grows(self) -> None:
        """Something waits that was written just now: the lag begins to count, and from nothing."""
        began = time.monotonic()
        lag = wait(lambda: (told := self.status()["lag_seconds"]) > 1 and told, "the lag to grow")
        assert lag < time.monotonic() - began + SLOW < SKEW

    def clocks(self) -> dict[str, float]:
        """By process: seconds by which the time of its first log line is ahead of ours."""
        ahead = {}
        for name in self.skews:
            log = (self.flow.directory / f"{name}.log").read_text("utf-8")
            first = re.search(r"^\d{4}-\d\d-\d\dT[\d:.]+Z", log, re.MULTILINE)
            assert first is not None, log
            ahead[name] = datetime.fromisoformat(first[0]).timestamp() - time.time()
        return ahead


@pytest.fixture(params=[SKEW, -SKEW], ids=["publisher-ahead", "publisher-behind"])
def skewed(request: pytest.FixtureRequest, box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Skewed]:
    box.source.execute("SET GLOBAL time_zone = '+05:30'")
    flow = Flow(box, kafka, tmp_path, unique("clocks"), box.source, columns=COLUMNS, tiers=TIERS, lease=20)
    try:
        yield Skewed(flow, request.param)
    finally:
        flow.close()
        box.source.execute("SET GLOBAL time_zone = 'SYSTEM'")


@pytest.mark.timeout(600)
def test_with_every_clock_wrong_all_changes_arrive_and_delays_are_as_long_as_they_shall_be(
    skewed: Skewed, kafka: KafkaBroker
) -> None:
    flow, targets, source = skewed.flow, skewed.flow.box.targets, skewed.flow.box.source
    keys = ", ".join(str(key) for key in EMPTY)
    insert = f"(id, user_id, value, history) VALUES {', '.join(f'({key}, 1, 0, 0)' for key in EMPTY)}"
    flow.migration.do("init")
    publisher = skewed.start("publish")
    wait(flow.position, "the first position")
    skewed.sql(f"INSERT INTO orders {insert}")
    wait(lambda: skewed.status()["waiting_messages"], "a message that nobody consumes")
    skewed.lag_grows()

    for process in ("consume", "commit", "requeue"):
        skewed.start(process)
    flow.drain()
    writers = [flow.writer(skewed.writer_of(session), 1 + 1000 * number) for number, session in enumerate(SESSIONS)]
    targets[1].execute(f"DELETE FROM orders_1 WHERE id IN ({keys})", database=f"{flow.name}_1")
    skewed.sql(f"DELETE FROM orders WHERE id IN ({keys})")
    for writer in writers:
        writer.wait_for(100)
    for writer in writers:
        writer.stop()
    main, *delays = (f"migrate.{flow.name}{end}" for end in ("", ".delay.0", ".delay.1"))
    wait(lambda: len(list(messages(kafka, delays[1]))) >= len(EMPTY), "the deletes to wait a second time")
    # A copy that read before the deletes writes now; the ledger still names the keys.
    targets[1].execute(f"INSERT INTO orders_1 {insert}", database=f"{flow.name}_1")
    flow.close_copy()
    flow.drain()
    assert flow.differences(source) == []
    final = flow.source_rows(source)
    assert [line for writer in writers for line in writer.lost(final)] == []
    assert {row[4].year for row in final.values()} >= {2001, 2036}, "no session wrote at another time"
    wait(lambda: skewed.status()["records"]["consumed"] == 0, "every consumed record to be committed")

    for topic, seconds in zip(delays, TIERS, strict=True):
        ahead = [message["delay"]["due"] - at for _, at, message in messages(kafka, topic)]
        assert len(ahead) >= len(EMPTY)
        assert (seconds - SLOW) * 1000 < min(ahead) <= max(ahead) < (seconds + 1) * 1000
    early = [message["delay"]["due"] - at for _, at, message in messages(kafka, main) if "delay" in message]
    assert len(early) >= 2 * len(EMPTY)
    assert max(early) < 100, "a delete came back before it was due"

    assert skewed.status()["lag_seconds"] == 0
    publisher.stop()
    skewed.sql(f"INSERT INTO orders {insert}")
    skewed.lag_grows()
    assert skewed.clocks() == pytest.approx(skewed.skews, abs=600)
