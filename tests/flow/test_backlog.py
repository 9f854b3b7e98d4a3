"""A consumer whose target does not take anything: its queue is full, its partitions pause, its memory stays flat.

`MESSAGES=5000000` makes it a long one (docs/reliability.md).
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from migrate.kafka.producer import OrderedProducer
from migrate.model.message import Message, encode
from migrate.settings import Kafka
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import TABLES, Flow, wait
from tests.helpers import memory_mb, unique

_MESSAGES = int(os.environ.get("MESSAGES", "60000"))
_QUEUE_BYTES, _POLL = max(1_000_000, _MESSAGES), max(500, _MESSAGES // 1000)
_STEADY_SECONDS = 3.0
_MORE_MB = 96 if _MESSAGES < 100_000 else 192
"""What one merge holds, the client's own queue of 32 MB, and its fetches, which a short backlog does not fill."""
pytestmark = pytest.mark.timeout(120 + _MESSAGES / 200)


def message(flow: Flow, number: int) -> Message:
    return Message(
        database=flow.database,
        table="orders",
        type="INSERT",
        data=({"id": str(number), "user_id": str(number // 2), "value": str(number), "history": "x" * 100},),
        source="main",
        incarnation=1,
        file=1,
        transaction=number,
        rows=(0,),
        pk_names=("id",),
        ts=1_700_000_000_000,
    )


def fill(flow: Flow, kafka: KafkaBroker) -> None:
    """Messages of one row each, in turn over the partitions, with ids from 1 on."""
    producer = OrderedProducer(Kafka(bootstrap=kafka.bootstrap))
    for number in range(1, _MESSAGES + 1):
        producer.produce(f"migrate.{flow.name}", number % 2, encode(message(flow, number)))
    assert producer.flush(60)


class Steady:
    """Gives how many messages are recorded, and the sum of their states, once that has not changed for a while."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._seen: tuple[int, int] | None = None
        self._since = 0.0

    def __call__(self) -> tuple[int, int] | None:
        sql = f"SELECT COUNT(*), COALESCE(SUM(state), 0) FROM {self._flow.name}_state.record"
        ((count, states),) = self._flow.box.targets[0].query(sql)
        if (found := (int(count), int(states))) != self._seen:
            self._seen, self._since = found, time.monotonic()
        return found if count and time.monotonic() - self._since > _STEADY_SECONDS else None


def rows(flow: Flow) -> int:
    counts = [
        flow.box.targets[number].query(f"SELECT COUNT(*) FROM {flow.name}_{number}.orders_{table}")
        for number in range(TABLES)
        for table in range(TABLES)
    ]
    return sum(int(found[0][0]) for found in counts)


def consumed(flow: Flow) -> int:
    """Cheaper to ask for than rows are to count."""
    ((count,),) = flow.box.targets[0].query(f"SELECT COALESCE(SUM(messages), 0) FROM {flow.name}_state.consumed")
    return int(count)


def test_memory_stays_flat_while_messages_wait_for_a_target_that_takes_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Flow(
        box,
        kafka,
        tmp_path,
        unique("backlog"),
        box.source,
        consume=f", poll_messages: {_POLL}, queue_bytes: {_QUEUE_BYTES}",
    )
    with closing(flow):
        flow.migration.do("init")
        flow.close_copy()
        flow.state(  # as of a publisher, whose messages are believed
            "INSERT INTO position"
            " (migration, source, address, server_id, server_uuid, replica_id, incarnation, file, pos, gtid_set)"
            f" VALUES ('{flow.name}', 'main', '127.0.0.1:{box.source.port}', 1, '', 2, 1, 'binlog.000001', 4, '')"
        )
        consumer = flow.child("consume", "consume")
        flow.child("commit", "commit")
        epochs = f"SELECT 1 FROM {flow.name}_0._migrate_fence WHERE source = 'main' HAVING COUNT(*) = 2"
        wait(lambda: box.targets[0].query(epochs), "the consumer to own both partitions")
        before = memory_mb(consumer.pid, "VmRSS")
        with closing(box.targets[0].connect(f"{flow.name}_0", autocommit=False)) as held, held.cursor() as cursor:
            cursor.execute("SELECT * FROM _migrate_fence FOR UPDATE")
            fill(flow, kafka)
            waiting, states = wait(Steady(flow), "the consumer to pause")
            held.rollback()
        assert waiting < _QUEUE_BYTES / len(encode(message(flow, 1))) + 2 * _POLL
        assert states == 0, "it marked what is not at the target"
        wait(lambda: consumed(flow) == _MESSAGES, "the rows", 60 + _MESSAGES / 400)
        assert rows(flow) == _MESSAGES
        assert memory_mb(consumer.pid) < before + _MORE_MB
        assert consumer.running
