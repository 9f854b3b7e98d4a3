"""Delayed messages that the broker lost, or deleted before they came back: the ledgers know what waits."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, TABLES, Flow, wait
from tests.helpers import unique

pytestmark = pytest.mark.long

COMPARED = re.compile(r"delay topics compared with the ledgers .*lost=(\d+) partitions=2")
AGAIN = "deletes that no message would bring back sent again"


def test_deletes_whose_messages_the_broker_lost_are_sent_again_from_the_ledgers(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: deletes that waited in a delay topic: of a partition that was put back requeue stopped for good; refilled
    past the offset that it had reached, or kept for too short a time, it was read on behind them without a word."""
    flow = Flow(box, kafka, tmp_path, unique("cut"), box.source, tiers=(900, 901), lease=2)
    delay = f"migrate.{flow.name}.delay.0"
    group = {"bootstrap.servers": kafka.bootstrap, "group.id": f"migrate.{flow.name}.delay"}

    def sql(*statements: str) -> None:
        box.source.execute(*statements, database=flow.database)

    def waiting() -> int:
        asked = "SELECT COUNT(*) FROM {}_{}._migrate_ledger WHERE was_empty"
        return sum(box.targets[one].query(asked.format(flow.name, one))[0][0] for one in range(TABLES))

    def ends() -> list[int]:
        with closing(Consumer(group)) as consumer:
            return [consumer.get_watermark_offsets(TopicPartition(delay, number), 20)[1] for number in range(2)]

    with closing(flow):
        flow.migration.do("init")
        flow.child("publish", "publish")
        consumer = flow.child("consume", "consume")
        wait(flow.position, "the publisher to begin")
        rows = ", ".join(f"({key}, {key}, 0, '')" for key in range(20))
        sql(f"INSERT INTO orders VALUES {rows}")
        wait(lambda: not flow.differences(box.source), "the rows to be at the target")
        for number in range(TABLES):  # as if a copy had yet to bring them
            for table in range(TABLES):
                box.targets[number].execute(f"DELETE FROM {flow.name}_{number}.orders_{table}")
        sql("DELETE FROM orders")
        wait(lambda: waiting() == 20, "the deletes to wait")
        requeue = flow.child("requeue", "requeue")
        compared = wait(lambda: COMPARED.search(requeue.log.read_text("utf-8")), "it to compare")
        assert compared[1] == "0", "all of them are on their way"
        sent = ends()
        assert sum(sent) == 20
        requeue.stop(SLOW)

        # Of one partition nothing is left, and the offset is from before; the other has as many others in their places.
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.delete_records([TopicPartition(delay, 0, sent[0])])[TopicPartition(delay, 0)].result(SLOW)
        with closing(Consumer(group)) as at:
            reached = [TopicPartition(delay, 0, sent[0] + 500), TopicPartition(delay, 1, sent[1])]
            assert all(one.error is None for one in at.commit(offsets=reached, asynchronous=False) or [])
        consumer.stop(SLOW)
        config = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(config.replace("[900, 901]", "[0.5, 1]"), "utf-8")
        # a copy that read before the deletes may have left these
        left = ", ".join(f"({key}, {key}, 0, '')" for key in (0, 4, 8, 12, 16))
        box.targets[0].execute(f"INSERT INTO {flow.name}_0.orders_0 VALUES {left}")
        flow.start_targets()
        requeue = flow.children("requeue")[1]
        wait(lambda: not requeue.running or AGAIN in requeue.log.read_text("utf-8"), "the lost ones to be sent again")
        assert requeue.running, requeue.log_tail()
        flow.drain()
        assert flow.differences(box.source) == []
        assert waiting() == 0
