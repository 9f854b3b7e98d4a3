"""`migrate publish --from` while a copy runs: no chunk is begun until everything is published again."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.forked import Child
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark twice
ROWS, CHUNK = 2_000, 50
COPY = f"copy: {{chunk_rows: {CHUNK}, chunks_at_once: 1, master: 'local[2]'}}\n"
LONG = 300  # seconds: a client that fell silent is found after more than a minute
WAITS = "the copy waits for a replay"


def says_that_it_waits(copy: Child) -> bool:
    return WAITS in copy.log.read_text("utf-8")


def chunks_begun(flow: Flow) -> int:
    return flow.chunks("copying") + flow.chunks("done")


def test_a_copy_waits_while_changes_come_again_may_be_stopped_then_and_ends_with_the_sources_rows(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The broker is frozen at the beginning of the replay, so that it lasts; the publisher is killed then."""
    flow = Flow(box, kafka, tmp_path, unique("again"), box.source, more=COPY)
    with closing(flow):
        flow.fill(box.source, ROWS)
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        begin = wait(flow.position, "the first position")
        for process in ("consume", "commit", "requeue"):
            flow.child(process, process)
        writer = flow.writer(lambda: box.source.connect(flow.database), 1)
        writer.wait_for(100)
        first = flow.child("copy", "copy")
        wait(lambda: flow.chunks("done") >= 2, "the first chunks")
        publisher.stop(SLOW)
        with frozen(kafka.pid):
            replay = flow.child("replay", "publish", "--from", f"{begin['file']}:{begin['pos']}", "--yes")
            wait(lambda: says_that_it_waits(first), "the copy to say that it waits")
            begun = chunks_begun(flow)
            assert begun < ROWS // CHUNK
            first.signal(signal.SIGTERM)
            assert first.wait(SLOW), "the copy still waits"
            assert first.returncode == 4, first.log_tail()
            assert "stopped while it waited for source 'main' to be replayed" in first.log_tail()
            second = flow.child("copy_again", "copy")
            wait(lambda: says_that_it_waits(second), "the second copy to say that it waits")
            assert chunks_begun(flow) <= begun
            replay.kill()
        flow.child("publish_on", "publish")
        with flow.kept_up():
            wait(lambda: not second.running, "the copy to end")
            assert second.returncode == 0, second.log_tail()
            writer.stop()
            flow.drain(LONG)
        assert flow.position()["incarnation"] == begin["incarnation"] + 1
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []
