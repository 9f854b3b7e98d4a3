"""Kafka takes nothing for a while: the publisher waits in little memory, and goes on by itself.

The broker is down for DOWN_SECONDS (20; a soak sets 300), its replicas are too few, or its disk is full.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.failover.disk import Disk, small_disk
from tests.failover.support import Flow, Writer, wait
from tests.failover.topic import messages
from tests.helpers import globally, log_end, memory_mb, unique

DOWN_SECONDS = float(os.environ.get("DOWN_SECONDS", "20"))
_LIMIT = 1024 * 1024  # bytes that may be on their way
_LOADS = 16  # of a megabyte each
_MORE_MB = 12  # that the publisher may take for it
_WAITS = "Kafka confirms nothing, waiting for it"

pytestmark = [pytest.mark.long, pytest.mark.timeout(600 + DOWN_SECONDS)]


@pytest.fixture(scope="module")
def broker(run_root: Path) -> Iterator[KafkaBroker]:
    """One that may be killed."""
    made = KafkaBroker(run_root / "kafka-down")
    made.start()
    yield made
    made.kill()


class Run:
    """A whole migration under `migrate run`, with a writer."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.box.source
        flow.migration.do("init")
        flow.migration.start()
        flow.close_copy()
        self.writer: Writer = flow.writer(lambda: self.source.connect(flow.database), 1, pause=DOWN_SECONDS / 1000)
        self.writer.wait_for(50)
        self._moved_on(flow.position())
        self.before_mb = memory_mb(self.publisher, "VmRSS")
        self._loads = 0

    @property
    def publisher(self) -> int:
        pid: int = wait(lambda: self.flow.migration.pid("publish"), "a publisher to run")
        return pid

    def log(self) -> str:
        return (self.flow.directory / "run" / "logs" / "publish-main.log").read_text("utf-8")

    def load(self) -> None:
        """A transaction with a megabyte of rows."""
        self._loads += 1
        self.source.execute(
            "INSERT INTO orders WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 250)"
            f" SELECT {self._loads * 1000} + n, n, n, REPEAT(SHA2(n, 256), 64) FROM seq",
            database=self.flow.database,
        )

    def held_up(self, end: tuple[str, int]) -> None:
        """More is written than the publisher may hold, and it says so; nothing behind `end` counts as published."""
        while self._loads < _LOADS:
            self.load()
        wait(lambda: _WAITS in self.log(), "the publisher to say that it waits")
        self.writer.wait_for(50)
        found = self.flow.position()
        assert (found["file"], found["pos"]) <= end
        assert memory_mb(self.publisher) < self.before_mb + _MORE_MB

    def equal_at_the_end(self) -> None:
        """The whole oracle, once everything is applied."""
        self.writer.stop()
        self.flow.drain()
        assert self.flow.differences(self.source) == []
        rows = self.flow.source_rows(self.source)
        assert self.writer.lost(rows) == []
        assert len(rows) >= 250 * _LOADS
        written = [one for one in (self.flow.directory / "run").rglob("*") if one.is_file()]
        assert any(one.name == "supervisord.pid" for one in written)
        assert [one for one in written if one.stat().st_mode & 0o077] == [], "others may read them"

    def _moved_on(self, before: dict[str, Any]) -> None:
        wait(lambda: self.flow.position() != before, "the position to move")


@contextmanager
def running(box: Sandbox, kafka: KafkaBroker, directory: Path, **more: Any) -> Iterator[Run]:
    publish = f", outstanding_bytes: {_LIMIT}"
    with closing(Flow(box, kafka, directory, unique("down"), box.source, publish=publish, **more)) as flow:
        yield Run(flow)


def test_a_broker_that_is_down_for_long_is_waited_for(
    mariadb_box: Sandbox, broker: KafkaBroker, tmp_path: Path
) -> None:
    """So long that the source, too, gives up sending what the publisher does not read."""
    with globally(mariadb_box.source, "net_write_timeout", 5), running(mariadb_box, broker, tmp_path) as run:
        broker.kill()
        try:
            ends, end = time.monotonic() + DOWN_SECONDS, log_end(mariadb_box.source)
            run.held_up(end)
            while time.monotonic() < ends:
                run.writer.wait_for(10)
            run.held_up(end)
        finally:
            broker.start()
        run.equal_at_the_end()


def test_replicas_too_few_are_waited_for(
    mariadb_box: Sandbox, broker: KafkaBroker, run_root: Path, tmp_path: Path
) -> None:
    port = free_port()
    second = KafkaBroker(
        run_root / unique("kafka-second"),
        port=port,
        properties={
            "node.id": 2,
            "process.roles": "broker",
            "controller.quorum.voters": f"1@{HOST}:{broker._controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
        },
    )
    second.cluster_id = broker.cluster_id
    second.start()
    try:
        with running(mariadb_box, broker, tmp_path, kafka_more=", replication: 2") as run:
            topic = ConfigResource(
                ResourceType.TOPIC,
                f"migrate.{run.flow.name}",
                incremental_configs=[
                    ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
                ],
            )
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.incremental_alter_configs([topic])[topic].result(20)
            publisher = run.publisher
            second.kill()
            run.held_up(log_end(mariadb_box.source))
            assert run.publisher == publisher
            second.start()
            run.equal_at_the_end()
    finally:
        second.kill()


@pytest.fixture(scope="module")
def disk(run_root: Path) -> Iterator[Disk]:
    with small_disk(run_root / "small-disk", 64) as made:
        yield made


@pytest.fixture(scope="module")
def on_disk(disk: Disk) -> Iterator[KafkaBroker]:
    """A broker with all its data on the small disk."""
    made = KafkaBroker(disk.path / "kafka")
    made.start()
    yield made
    made.kill()


def test_a_full_disk_of_the_broker_costs_no_change(
    mariadb_box: Sandbox, on_disk: KafkaBroker, disk: Disk, tmp_path: Path
) -> None:
    with running(mariadb_box, on_disk, tmp_path) as run:
        disk.fill()
        run.load()
        wait(lambda: not on_disk.running, "the broker to end")
        assert "No space left on device" in on_disk.log.read_text("utf-8")
        end = log_end(mariadb_box.source)
        run.held_up(end)
        killed = run.flow.migration.kill("publish")
        wait(lambda: run.publisher != killed, "another publisher")
        disk.grow(64)
        on_disk.start()
        run.equal_at_the_end()
        disk.free()
    assert all(True for _ in messages(on_disk, f"migrate.{run.flow.name}"))  # every one can be read
