"""Two publishers for one source: one runs, the other takes over when it is killed or frozen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.failover.topic import late_messages
from tests.forked import Child
from tests.helpers import unique

LEASE = 5.0  # seconds, as Flow configures it
FREEZE_SECONDS = float(os.environ.get("FREEZE_SECONDS", "0"))  # how long past its lease a process stays frozen


class Pair:
    """A flow with a running publisher, one that stands by, and a writer."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.first = self._publisher("publish-a")
        wait(flow.position, "the first publisher's position")
        self.second = self._publisher("publish-b")
        wait(lambda: "standing by" in self.second.log.read_text(), "the second publisher to stand by")
        self.writer = flow.writer(lambda: flow.box.source.connect(flow.database), 1)
        self.writer.wait_for(100)

    def _publisher(self, label: str) -> Child:
        return self.flow.child(label, "publish", "--source", "main")

    def holder(self) -> tuple[int, int]:
        """(process id, epoch) of whoever holds the lease, by the state database."""
        row = self.flow.box.targets[0].query(
            "SELECT holder, epoch FROM lease WHERE name = 'publish:main'", database=f"{self.flow.name}_state"
        )[0]
        return int(row[0].split(":")[1]), int(row[1])

    def taken_over(self) -> bool:
        return self.holder()[0] == self.second.pid

    def published_since(self, place: tuple[str, int]) -> bool:
        """Whether the position moved on from the place (file, position)."""
        now = self.flow.position()
        return (now["file"], now["pos"]) > place

    def place(self) -> tuple[str, int]:
        now = self.flow.position()
        return now["file"], now["pos"]


@pytest.fixture
def pair(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Pair]:
    flow = Flow(box, kafka, tmp_path, unique("standby"), box.source)
    try:
        flow.migration.do("init")
        flow.start_targets()
        yield Pair(flow)
    finally:
        flow.close()


def check(pair: Pair) -> None:
    """Everything that was written is at the target, once, as acknowledged."""
    pair.writer.stop()
    pair.flow.drain()
    assert pair.flow.differences(pair.flow.box.source) == []
    assert pair.writer.lost(pair.flow.source_rows(pair.flow.box.source)) == []
    assert pair.writer.writes > 20


def test_when_the_running_publisher_is_killed_the_other_takes_over_within_the_lease_time(pair: Pair) -> None:
    epoch = pair.holder()[1]
    told = pair.flow.migration.ask("status")
    assert told["leading"]["publish:main"].endswith(f":{pair.first.pid}")
    assert [part["owner"] for part in told["partitions"]] == [told["partitions"][0]["owner"]] * 2 != ["", ""]
    began = time.monotonic()
    pair.first.kill()
    wait(pair.taken_over, "the second publisher to take over")
    # The lease runs from its last renewal; the rest is the standby's poll and what a busy machine adds. A standby that
    # waited for the dead one's session to end would take longer than any machine: an hour or more.
    assert time.monotonic() - began < LEASE + SLOW
    assert pair.holder()[1] == epoch + 1
    place = pair.place()
    pair.writer.wait_for(50)
    wait(lambda: pair.published_since(place), "the second publisher to publish")
    check(pair)


def test_a_frozen_publisher_that_wakes_up_after_its_lease_ends_itself_and_its_late_messages_are_repeats(
    pair: Pair, kafka: KafkaBroker
) -> None:
    """The broker is frozen first, so that the publisher is frozen with messages it has yet to send."""
    with frozen(pair.first.pid):
        with frozen(kafka.pid):
            os.kill(pair.first.pid, signal.SIGCONT)
            pair.writer.wait_for(300)
            os.kill(pair.first.pid, signal.SIGSTOP)
        wait(pair.taken_over, "the second publisher to take over")
        place = pair.place()
        thaws = time.monotonic() + FREEZE_SECONDS
        pair.writer.wait_for(200)
        while time.monotonic() < thaws:
            pair.writer.wait_for(50)
        wait(lambda: pair.published_since(place), "the second publisher to publish")
    assert pair.first.wait(SLOW), "the frozen publisher still runs"
    assert pair.first.returncode == 6, pair.first.log.read_text()[-2000:]  # another process took over
    pair.writer.wait_for(100)
    assert pair.taken_over()
    check(pair)
    assert late_messages(kafka, f"migrate.{pair.flow.name}") > 0


def test_a_publisher_of_a_quiet_source_that_wakes_up_after_its_lease_stops_nothing_but_itself(pair: Pair) -> None:
    """What the source says of its successor comes with the heartbeats, before it looks at anything else."""
    pair.writer.wait_for(200)
    pair.writer.stop()
    pair.flow.drain()
    with frozen(pair.first.pid):
        wait(lambda: "publishing " in pair.second.log.read_text(), "the second publisher to read in its place")
    assert pair.first.wait(SLOW), "the frozen publisher still runs"
    assert pair.first.returncode == 6, pair.first.log.read_text()[-2000:]
    assert pair.flow.migration.ask("status")["halted"] == []
    check(pair)


def test_a_publisher_frozen_and_woken_again_and_again_leaves_every_row_as_the_source_has_it(pair: Pair) -> None:
    """Both publishers are frozen in turn for longer than a lease, a new one takes the place of each that ended."""
    running, standby = pair.first, pair.second
    for turn in range(3):
        with frozen(running.pid):
            wait(lambda standby=standby: pair.holder()[0] == standby.pid, "the standby to take over")  # type: ignore[misc]
            pair.writer.wait_for(50)
        assert running.wait(SLOW), "the frozen publisher still runs"
        assert running.returncode == 6, running.log.read_text()[-2000:]
        running, standby = standby, pair._publisher(f"publish-{turn}")
    check(pair)
