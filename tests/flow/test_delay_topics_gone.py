"""Delay topics that the broker deletes or loses: nobody goes on as if nothing was, and nothing that waited is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, TABLES, Flow, wait
from tests.helpers import unique

pytestmark = pytest.mark.long

STOPPED = 5
MEND = "run `migrate init`, which creates the topic and sends that again"


def test_deletes_that_waited_in_topics_that_were_deleted_come_back_after_an_init(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Flow(box, kafka, tmp_path, unique("delays"), box.source, tiers=(900, 901), lease=2)
    topic = f"migrate.{flow.name}"

    def sql(*statements: str) -> None:
        box.source.execute(*statements, database=flow.database)

    def waiting() -> int:
        asked = "SELECT COUNT(*) FROM {}_{}._migrate_ledger WHERE was_empty"
        return sum(box.targets[one].query(asked.format(flow.name, one))[0][0] for one in range(TABLES))

    def standing() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = flow.migration.ask("status")["halted"]
        return found if len(found) == 1 + 2 else []  # requeue, and both partitions

    with closing(flow):
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        consumer, requeue = flow.child("consume", "consume"), flow.child("requeue", "requeue")
        wait(flow.position, "the publisher to begin")
        rows = ", ".join(f"({key}, {key}, 0, '')" for key in range(40))
        sql(f"INSERT INTO orders VALUES {rows}")
        wait(lambda: not flow.differences(box.source), "the rows to be at the target")
        for number in range(TABLES):  # as if a copy had yet to bring them
            for table in range(TABLES):
                box.targets[number].execute(f"DELETE FROM {flow.name}_{number}.orders_{table} WHERE id < 21")
        sql("DELETE FROM orders WHERE id < 20")
        wait(lambda: waiting() == 20, "the deletes to wait")

        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.delete_topics([f"{topic}.delay.0", f"{topic}.delay.1"]).values():
            future.result(SLOW)
        sql("DELETE FROM orders WHERE id = 20")
        halted = wait(standing, "requeue and both partitions to stop")
        assert {one["process"] for one in halted} == {"requeue", f"consume: {topic} [0]", f"consume: {topic} [1]"}
        assert all(f"delay topic {topic}.delay." in one["reason"] for one in halted), halted
        assert all(MEND in one["hint"] for one in halted), halted
        assert requeue.wait(SLOW)
        assert requeue.returncode == STOPPED, requeue.log_tail()
        again = flow.child("requeue-again", "requeue")
        assert again.wait(SLOW)
        assert again.returncode == STOPPED, again.log_tail()
        assert f"delay topic {topic}.delay.0 was deleted at the broker" in again.log.read_text("utf-8")

        for child in (consumer, publisher):
            child.stop()
        config = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(config.replace("[900, 901]", "[0.5, 1]"), "utf-8")
        assert "20 delayed deletes that the ledgers wait for sent again" in flow.migration.do("init")
        # a copy that read before the deletes may have left these
        box.targets[0].execute(f"INSERT INTO {flow.name}_0.orders_0 VALUES (0, 0, 0, ''), (2, 2, 0, '')")
        flow.child("publish-2", "publish")
        flow.start_targets()
        flow.drain()
        assert flow.differences(box.source) == []
        assert waiting() == 0
