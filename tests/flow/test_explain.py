"""`migrate explain`: what is known of one row, from the source to its last message."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique


def test_a_row_is_followed_from_its_first_message_to_what_the_target_has(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("explain"), box.source)) as flow:
        table = f"{flow.database}.orders"

        def explained(key: int) -> Any:
            return flow.migration.ask("explain", table, str(key))

        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        write = [
            "INSERT INTO orders VALUES (1, 1, 1, 'canary'), (2, 2, 2, '')",
            "UPDATE orders SET user_id = 2, value = 10 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
        ]
        box.source.execute(*write, database=flow.database)
        wait(lambda: len(explained(1)["messages"]) == 2, "its messages")
        found = explained(1)
        assert (found["at_source"], found["places"]) == (f"t0/{flow.name}_0.orders_1", [])
        assert [(one["type"], one["record"]) for one in found["messages"]] == [
            ("INSERT", "not read yet"),
            ("UPDATE", "not read yet"),
        ]
        flow.start_targets()
        flow.drain()
        found = explained(1)
        assert found["places"] == [{"place": f"t0/{flow.name}_0.orders_1", "row": "same as at the source"}]
        assert {one["record"] for one in found["messages"]} <= {"consumed", "committed"}
        assert found["consumed_to"] == found["topic_end"]
        decided = [(one["place"].split(".")[-1], one["what"], one["coordinate"]) for one in found["decisions"]]
        assert decided[0] == ("orders_1", "inserted", found["messages"][-1]["coordinate"])

        box.targets[0].execute("UPDATE orders_1 SET value = 0", database=f"{flow.name}_0")
        box.targets[1].execute("INSERT INTO orders_0 VALUES (1, 1, 1, '')", database=f"{flow.name}_1")
        places = {one["place"]: one["row"] for one in explained(1)["places"]}
        assert places == {
            f"t0/{flow.name}_0.orders_1": "differs in value",
            f"t1/{flow.name}_1.orders_0": "differs in user_id, value, history, misplaced",
        }
        gone = explained(2)
        assert (gone["at_source"], gone["places"]) == ("absent", [])
        assert [one["type"] for one in gone["messages"]] == ["INSERT", "DELETE"]
        said = flow.migration.do("explain", table, "1")
        assert "differs in value" in said
        assert "canary" not in said
        assert "it has no such row" in flow.migration.do("explain", table, "77")
