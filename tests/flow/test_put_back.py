"""Lost: what a target had committed and came back without, put back to its data directory of a minute ago: the next
batch, the end of the copy and the way back went on above the hole (rule "fence compares")."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # Spark starts twice
ROWS, CHUNK = 2_000, 50
COPY = f"copy: {{chunk_rows: {CHUNK}, chunks_at_once: 1, master: 'local[2]'}}\nverify: {{master: 'local[2]'}}\n"
LOST = "a target lost committed transactions"


class Kept:
    """A server's data directory as it was at one moment."""

    def __init__(self, server: DatabaseServer, directory: Path) -> None:
        self._server, self._copy = server, directory
        server.kill()
        shutil.copytree(server.data, directory, ignore=shutil.ignore_patterns("*.sock*"))
        server.start()

    def put_back(self) -> None:
        self._server.kill()
        shutil.rmtree(self._server.data)
        shutil.copytree(self._copy, self._server.data)
        self._server.start()


@contextmanager
def kept(server: DatabaseServer, directory: Path) -> Iterator[Kept]:
    yield Kept(server, directory)
    shutil.rmtree(directory)


def lost(flow: Flow, *options: str) -> Any:
    return flow.migration.ask(*options, "status")["lost"]


def test_a_target_that_comes_back_with_less_gets_it_again_in_the_copy_the_stream_and_the_way_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    faulty, aside = box.targets[1], tmp_path / "aside"
    with closing(Flow(box, kafka, tmp_path, unique("back"), box.source, more=COPY)) as flow:
        flow.fill(box.source, ROWS)
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the first position")
        consumer = flow.child("consume", "consume")
        flow.child("commit", "commit")
        flow.child("requeue", "requeue")
        writer = flow.writer(lambda: box.source.connect(flow.database), 1)
        writer.wait_for(50)
        copy = flow.child("copy", "copy")
        wait(lambda: flow.chunks("done") >= 4, "the first chunks")
        with kept(faulty, aside) as before:
            done = flow.chunks("done")
            wait(lambda: flow.chunks("done") >= done + 4, "more chunks")
            writer.wait_for(50)
            before.put_back()
        assert copy.wait(300), "the copy still runs"
        assert copy.returncode == 0, copy.log_tail()
        assert LOST in copy.log.read_text("utf-8")
        writer.wait_for(50)
        flow.drain()
        assert LOST in consumer.log.read_text("utf-8")

        with kept(faulty, aside) as before:
            writer.wait_for(200)
            writer.stop()
            flow.drain()
            assert flow.differences(box.source) == []
            before.put_back()
            # Nobody writes there: a look finds it.
            wait(lambda: any("t1/" in one for one in lost(flow)), "status to tell")
            assert flow.differences(box.source)
            again = flow.writer(lambda: box.source.connect(flow.database), 101)
            again.wait_for(100)
            again.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == again.lost(flow.source_rows(box.source)) == []
        assert consumer.running
        assert any("t1/" in one for one in lost(flow))
        assert "not verified since" in str(flow.migration.ask("status"))
        flow.migration.do("verify")
        assert lost(flow) == []

        flow.start_way_back()
        flow.put_applications_at("target")
        for child in flow.children("publish"):
            child.stop(SLOW)
        with kept(box.source, aside) as before:
            place = f"{flow.name}_1.orders_0"
            faulty.execute(f"INSERT INTO {place} VALUES (900000, 1, 1, '1')")
            flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
            assert 900000 in flow.source_rows(box.source)
            before.put_back()
            assert 900000 not in flow.source_rows(box.source)
            faulty.execute(f"INSERT INTO {place} VALUES (900002, 1, 1, '1')")
        wait(lambda: {900000, 900002} <= flow.source_rows(box.source).keys(), "what the source lost")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        assert flow.differences(box.source) == []
        assert lost(flow, "--reverse")
