"""Rows above the broker's message limit: split by row, and one that is too large by itself left out and named."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow.support import Pipeline
from tests.helpers import unique


def test_a_row_too_large_for_kafka_is_named_and_the_rest_arrives(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Pipeline(
        box,
        kafka,
        tmp_path,
        f"large_{box.source.flavour}",
        publish=", oversized: park",
        kafka_more=", max_message_bytes: 20000",
    )
    flow.migration.do("init")
    flow.migration.begin()
    try:
        flow.close_copy()
        large = "JSON_ARRAY(REPEAT('x', {0}))"
        rows = ", ".join(f"({number}, 1, 1, {large.format(6000)})" for number in range(1, 31))
        flow.sql(
            f"INSERT INTO orders (id, user_id, amount, detail) VALUES {rows}",
            f"UPDATE orders SET detail = {large.format(30000)} WHERE id IN (7, 8)",
            "UPDATE orders SET amount = 2 WHERE id = 9",
            f"UPDATE orders SET user_id = 2, detail = {large.format(30000)} WHERE id = 10",
        )
        done = flow.migration.ask("drain", "--timeout", "120")
        named = [(row["operation"], row["table"], row["key"]) for row in done["oversized"]]
        assert named == [("UPDATE", "orders", f'["{key}"]') for key in (7, 8, 10)]
        assert all(row["size"] > 30_000 for row in done["oversized"])
        assert sorted(line.split(":")[0] for line in flow.differences()) == ["different 7", "different 8", "missing 10"]
        told = flow.migration.do("status").replace("\n", " ")
        for row in done["oversized"]:
            assert f"LEFT OUT UPDATE of {flow.source}.orders key {row['key']} at {tuple(row['coordinate'])}" in told
        flow.sql(
            "UPDATE orders SET detail = NULL WHERE id = 7",
            "DELETE FROM orders WHERE id = 8",
            "UPDATE orders SET detail = NULL WHERE id = 10",  # it was in another shard when it was last published
        )
        flow.migration.ask("drain", "--timeout", "120")
        assert flow.differences() == []
    finally:
        flow.migration.stop()


def test_a_row_too_large_for_kafka_stops_the_publisher_and_arrives_once_the_limit_is_raised(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("larger"), box.source, limit=20_000)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        box.source.execute(
            "INSERT INTO orders VALUES (1, 1, 1, '')",
            "INSERT INTO orders VALUES (2, 2, 2, REPEAT('x', 30000))",
            "INSERT INTO orders VALUES (3, 3, 3, '')",
            database=flow.database,
        )
        assert publisher.wait(SLOW), "the publisher still runs"
        assert publisher.returncode == 5
        (halted,) = flow.migration.ask("status")["halted"]
        position = flow.position()
        events = box.source.query(f"SHOW BINLOG EVENTS IN '{position['file']}' FROM {position['pos']} LIMIT 40")
        (large,) = (
            int(row[1]) for row in events if int(row[4]) - int(row[1]) > 20_000
        )  # a row before it may still wait
        start = max(int(row[1]) for row in events if row[2] in ("Gtid", "Anonymous_Gtid") and int(row[1]) < large)
        number = int(position["file"].split(".")[-1])
        assert f'{flow.database}.orders key ["2"] at (1, {number}, {start}, 0)' in halted["reason"]
        assert "raise kafka.max_message_bytes and the topic's max.message.bytes" in halted["hint"]
        assert halted["reason"] in " ".join(flow.migration.do("status").split())

        raised = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, f"migrate.{flow.name}", incremental_configs=[raised])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.incremental_alter_configs([topic])[topic].result(20)
        config = flow.migration.config
        config.write_text(config.read_text("utf-8").replace("max_message_bytes: 20000", "max_message_bytes: 100000"))
        flow.child("publish-again", "publish", "--source", "main")
        flow.drain()
        assert flow.differences(box.source) == []
        assert sorted(flow.source_rows(box.source)) == [1, 2, 3]
