"""`migrate explain`: what is known of one row, from the source to its last message."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.flow.test_repartition_topics import config
from tests.forked import Migration
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


def test_a_row_is_found_under_every_spelling_that_the_servers_take_for_its_key(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = unique("spelled")
    box.source.execute(f"CREATE DATABASE {name}_src")
    for table in ("a", "b"):
        columns = "id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT NOT NULL"
        box.source.execute(f"CREATE TABLE {table} ({columns})", database=f"{name}_src")
    migration = Migration(box, tmp_path, config(box, kafka, name, tmp_path))
    migration.do("init")
    migration.begin()
    try:
        write = ("INSERT INTO a VALUES ('ABC', 1), ('abd', 1)", "UPDATE a SET id = 'abc', v = 2 WHERE id = 'ABC'")
        box.source.execute(*write, database=f"{name}_src")
        migration.ask("drain", "--timeout", "120")
        told = [migration.ask("explain", f"{name}_src.a", key) for key in ("ABC", "abc", "aBc ")]
        box.targets[0].execute("ALTER TABLE a MODIFY v TINYINT NOT NULL", database=f"{name}_1")
        migration.do("parked", "skip", f"{name}_src.a", "ABC", "--reason", "a test")
        box.source.execute(
            "DELETE FROM a WHERE id = 'abc'", "INSERT INTO a VALUES ('aBC', 1000)", database=f"{name}_src"
        )
        migration.ask("drain", "--timeout", "120")
        aside = migration.ask("explain", f"{name}_src.a", "abc ")
        box.targets[0].execute("ALTER TABLE a MODIFY v INT NOT NULL", database=f"{name}_1")
        migration.do("parked", "retry", f"{name}_src.a", "Abc")
        mended = migration.ask("explain", f"{name}_src.a", "ABC"), migration.ask("parked", "list")
    finally:
        migration.stop()
    for found in told:
        assert [one["row"] for one in found["places"]] == ["same as at the source"]
        assert {one["type"] for one in found["messages"]} >= {"INSERT", "DELETE"}
        assert found["messages"] == told[0]["messages"]
        assert [one["what"] for one in found["decisions"]][-1] in ("updated", "inserted")
        assert found["decisions"] == told[0]["decisions"]
    assert ([one["reason"] for one in aside["parked"]], aside["set_aside"]) == (["a test"], "a test")
    assert [one["row"] for one in mended[0]["places"]] == ["same as at the source"]
    assert (mended[1]["parked"], mended[1]["skips"]) == ([], [])
