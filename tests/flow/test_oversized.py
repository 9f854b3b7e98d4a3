"""Rows above the broker's message limit: split by row, and one that is too large by itself left out and named."""

from __future__ import annotations

from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline


def test_a_row_too_large_for_kafka_is_named_and_the_rest_arrives(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Pipeline(
        box,
        kafka,
        tmp_path,
        f"large_{box.source.flavour}",
        more="publish: {oversized: park}\n",
        kafka_more=", max_message_bytes: 20000",
    )
    flow.migration.do("init")
    flow.migration.start()
    try:
        flow.close_copy()
        large = "JSON_ARRAY(REPEAT('x', {0}))"
        rows = ", ".join(f"({number}, 1, 1, {large.format(6000)})" for number in range(1, 31))
        flow.sql(
            f"INSERT INTO orders (id, user_id, amount, detail) VALUES {rows}",
            f"UPDATE orders SET detail = {large.format(30000)} WHERE id IN (7, 8)",
            "UPDATE orders SET amount = 2 WHERE id = 9",
        )
        done = flow.migration.ask("drain", "--timeout", "120")
        named = [(row["operation"], row["table"], row["key"]) for row in done["oversized"]]
        assert named == [("UPDATE", "orders", '["7"]'), ("UPDATE", "orders", '["8"]')]
        assert all(row["size"] > 30_000 for row in done["oversized"])
        assert sorted(line.split(":")[0] for line in flow.differences()) == ["different 7", "different 8"]
        assert "LEFT OUT UPDATE" in flow.migration.do("status")
        flow.sql("UPDATE orders SET detail = NULL WHERE id = 7", "DELETE FROM orders WHERE id = 8")
        flow.migration.ask("drain", "--timeout", "120")
        assert flow.differences() == []
    finally:
        flow.migration.stop()
