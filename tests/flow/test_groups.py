"""Tables of two sources into the same target tables: rows that move between the sources end where they are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.flow.grouped import COLUMNS, Grouped
from tests.forked import Child, Migration
from tests.helpers import unique
from tests.waiting import SLOW

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark
ROWS = 1000


def test_rows_moved_between_two_sources_while_they_are_copied_and_a_publisher_dies_end_where_they_are(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Grouped(box, kafka, tmp_path, unique("moved"))) as group:
        group.fill(0, ROWS)
        group.fill(1, ROWS)
        migration = group.migration
        migration.do("init")
        migration.start()
        movers = [group.mover(range(2 + first, 2 * ROWS, 23)) for first in (0, 7)]
        wait(lambda: all(mover.moves > 20 for mover in movers), "rows to move before the copy")
        copied = migration.ask("copy")
        assert [table["skew"] for table in copied["tables"]] == [None, None], "told of all together by preflight"
        status = migration.ask("status")
        assert {one["skew"] for one in status["copies"].values()} == {None}
        shown = status["tables"]
        assert shown == {f"{source}/{group.database}.orders": "copied" for source in ("source", "second")}
        group.drain_behind_a_kill(movers)
        assert group.differences() == []
        certificate = migration.ask("verify")
        (table,) = certificate["tables"]
        assert (table["differences"], table["rows"], table["source"]) == (0, table["target_rows"], "source + second")

        group.at_target(1, "UPDATE orders_1 SET value = -1 LIMIT 1", "DELETE FROM orders_0 LIMIT 1")
        planted = {difference.split(":")[0] for difference in group.differences()}
        assert len(planted) == 2
        (table,) = migration.ask("verify", accept=(1,))["tables"]
        assert {f"{one['kind']} {one['key'][0]}" for one in table["named"]} == planted
        keys = [one["key"][0] for one in table["named"]]
        migration.do("refresh", f"{group.database}.orders", "--source", "second", *keys)
        assert group.differences() == []

        key = keys[0]
        home = 0 if group.sources[0].query(f"SELECT 1 FROM {group.database}.orders WHERE id = {key}") else 1
        ((user, value, note),) = group.sources[home].query(
            f"SELECT user_id, value, note FROM {group.database}.orders WHERE id = {key}"
        )
        group.sql(1 - home, f"INSERT INTO orders VALUES ({key}, {user}, {value}, '{note}')")
        group.drain()
        (table,) = migration.ask("verify", accept=(1,))["tables"]
        assert [(one["kind"], one["key"]) for one in table["named"]] == [("twice", [key])]
        assert f"source/{group.database}.orders and in second/{group.database}.orders" in table["named"][0]["detail"]
        asking = group.child("refresh", "refresh", f"{group.database}.orders", "--source", "source", key)
        assert asking.wait(60)
        assert asking.returncode == 5
        (halted,) = migration.ask("status")["halted"]
        assert f'orders key ["{key}"]' in halted["reason"]
        assert f"is in source/{group.database}.orders, second/{group.database}.orders" in halted["reason"]
        explained = migration.ask("explain", f"{group.database}.orders", key, "--source", "source")
        assert {one["table"] for one in explained["messages"]} >= {f"second/{group.database}.orders"}
        group.sql(home, f"DELETE FROM orders WHERE id = {key}")
        wait(lambda: not migration.ask("status")["halted"], "the partition to go on by itself")
        group.drain()
        assert group.differences() == []


def test_a_source_that_has_not_begun_is_not_asked_and_one_that_is_late_brings_nothing_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Grouped(box, kafka, tmp_path, unique("late"))) as group:
        status = group.migration.ask

        def publish(source: str) -> Child:
            child = group.child(f"publish-{source}", "publish", "--source", source)
            wait(lambda: {one["name"]: one["published"] for one in status("status")["sources"]}[source], source)
            return child

        group.sql(1, "INSERT INTO orders VALUES (1, 1, 1, 'here')")
        group.migration.do("init")
        group.close_copy()
        first = publish("source")
        for process in ("consume", "commit", "requeue"):
            group.child(process, process)
        group.sql(0, "INSERT INTO orders VALUES (1, 0, 0, 'was here')", "DELETE FROM orders WHERE id = 1")
        (halted,) = wait(lambda: status("status")["halted"], "the partition to be stopped")
        assert "the publisher of source 'second' has not begun with" in halted["reason"]
        assert [group.target.query(f"SELECT * FROM {group.name}_{one}.orders_1") for one in range(2)] == [(), ()]
        publish("second")
        wait(lambda: not status("status")["halted"], "the partition to go on")
        group.drain()
        assert group.differences() == []

        first.stop()
        group.sql(
            0,
            "INSERT INTO orders VALUES (2, 0, 0, 'old'), (3, 0, 0, 'old')",
            "UPDATE orders SET user_id = 1 WHERE id = 2",
            "DELETE FROM orders",
        )
        group.sql(1, "INSERT INTO orders VALUES (2, 2, 2, 'new'), (3, 1, 2, 'new')", "UPDATE orders SET value = 3")
        wait(lambda: group.differences() == [], "the moved rows to be where they are now")
        publish("source")
        group.drain()
        assert group.differences() == []


def test_a_table_joins_a_group_that_is_copied_and_drained_and_cannot_leave_it_alone(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = unique("join")
    source, target, both = f"{name}_src", f"{name}_all", "orders_0 UNION ALL SELECT * FROM {0}.orders_1"
    box.source.execute(f"CREATE DATABASE {source}", f"CREATE TABLE {source}.orders_0 ({COLUMNS})")
    box.source.execute("INSERT INTO orders_0 VALUES (1, 1, 1, ''), (2, 2, 2, '')", database=source)
    servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
    config = (
        f"name: {name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
        f"databases: {{ds: {{target: target1, database: {target}}}}}\n"
        "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
        f"lease: {{seconds: 2}}\ncopy: {{master: 'local[1]'}}\nrun_dir: {tmp_path / 'run'}\ntables:\n"
        f"  - {{name: '{source}.orders_?', group: orders, sharding: {{nodes: ds.orders}}, exclude: []}}\n"
    )
    migration = Migration(box, tmp_path, config)

    def differences() -> set[tuple[object, ...]]:
        there = box.source.query(f"SELECT * FROM {source}.{both.format(source)}")
        return {*there} ^ {*box.targets[0].query(f"SELECT * FROM {target}.orders")}

    def refused() -> str:
        child = Child("refused", tmp_path / "refused.log", Path.cwd())
        child.start(migration.command("init"), migration.environment)
        assert child.wait(120)
        assert child.returncode
        return child.log_tail()

    migration.do("init")
    migration.begin()
    try:
        box.source.execute(
            f"CREATE TABLE orders_1 ({COLUMNS})",
            "INSERT INTO orders_1 VALUES (3, 3, 3, ''), (4, 4, 4, '')",
            database=source,
        )
        assert "stop `migrate run`" in refused()
        migration.stop()
        assert (
            f"source/{source}.orders_1 cannot join group 'orders' yet: source/{source}.orders_0 is not co" in refused()
        )
        migration.config.write_text(config.replace("exclude: []", f"exclude: ['{source}.orders_1']"))
        migration.begin()
        migration.ask("copy")
        box.source.execute("DELETE FROM orders_0 WHERE id = 1", database=source)
        box.source.execute("INSERT INTO orders_1 VALUES (1, 1, 10, 'moved')", database=source)
        migration.ask("drain", "--timeout", "120")
        migration.stop()

        migration.config.write_text(config)
        migration.do("init")
        migration.begin()
        added = f"{source}.orders_1"
        migration.wait(lambda: migration.ask("status")["tables"][added] == "created", SLOW, "the publisher to take it")
        migration.ask("copy")
        box.source.execute("DELETE FROM orders_1 WHERE id = 4", database=source)
        box.source.execute("INSERT INTO orders_0 VALUES (4, 4, 40, 'moved')", database=source)
        migration.ask("drain", "--timeout", "120")
        assert differences() == set()
        assert migration.ask("verify")["tables"][0]["table"] == f"{source}.orders_0 + {added}"
        migration.stop()
        migration.config.write_text(config.replace("exclude: []", f"exclude: ['{source}.orders_1']"))
        assert f"source/{added} cannot leave group 'orders'" in refused()
    finally:
        migration.stop()
