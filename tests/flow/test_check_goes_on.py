"""`migrate check` where a part cannot be looked at: the rest is, and nothing is clean that nobody looked at."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow.test_repartition_topics import config
from tests.forked import Child, Migration
from tests.helpers import unique

QUICK = "check: {wait_seconds: 20}\nverify: {rechecks: 2, recheck_seconds: 0.3}\n"


def test_a_table_or_a_topic_that_is_gone_stops_no_look_at_the_others(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, children: list[Child]
) -> None:
    """Also where keys of that table are known to differ, and are looked at in each run."""
    name, target = unique("check_on"), box.targets[0]
    box.source.execute(f"CREATE DATABASE {name}_src")
    for table in ("a", "b"):
        box.source.execute(f"CREATE TABLE {name}_src.{table} (id INT PRIMARY KEY, v INT NOT NULL)")
    migration = Migration(box, tmp_path, config(box, kafka, name, tmp_path) + QUICK)
    migration.do("init")
    for process in ("publish", "consume", "commit", "requeue"):
        child = Child(f"migrate {process}", tmp_path / f"{process}.log", Path.cwd())
        child.start(migration.command(process), migration.environment)
        children.append(child)
    wait(lambda: target.query(f"SELECT 1 FROM {name}_state.position"), "the publisher to begin")
    for table in ("a", "b"):
        box.source.execute(f"INSERT INTO {name}_src.{table} VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
        target.execute(
            "REPLACE INTO phase (migration, source, table_schema, table_name, phase)"
            f" SELECT '{name}', source, '{name}_src', '{table}', 'copied' FROM position",
            database=f"{name}_state",
        )
    wait(lambda: target.query(f"SELECT COUNT(*) FROM {name}_1.b")[0][0] == 4, "the rows of b")
    wait(lambda: target.query(f"SELECT COUNT(*) FROM {name}_1.a")[0][0] == 4, "the rows of a")

    def lose(key: int, *tables: str) -> None:
        target.execute(*(f"DELETE FROM {table} WHERE id = {key}" for table in tables), database=f"{name}_1")

    def found(code: int) -> set[tuple[str, str]]:
        assert migration.run("check", "--once").returncode == code
        return {(one["table"].rpartition(".")[2], one["key"][0]) for one in migration.ask("status")["check"]["named"]}

    lose(1, "a", "b")
    known = {("a", "1"), ("b", "1")}
    assert found(1) == known
    target.execute("RENAME TABLE b TO away", database=f"{name}_1")
    lose(2, "a")
    assert found(5) == known | {("a", "2")}
    target.execute("RENAME TABLE away TO b", database=f"{name}_1")
    topic = f"{name}.b"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(SLOW)
    wait(lambda: topic not in admin.list_topics(timeout=SLOW).topics, "the topic to go")
    lose(3, "a", "b")
    assert found(5) == known | {("a", "2"), ("a", "3")}


def test_keys_beyond_those_that_a_chunk_names_are_told_as_not_judged(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("beyond"), box.source, more=QUICK)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        flow.fill(box.source, 5000)
        flow.drain()
        box.targets[0].execute("DELETE FROM orders_0", database=f"{flow.name}_0")
        found = flow.migration.ask("check", "--once", accept=(1,))
        assert (found["differences"], found["last"]["in_motion"]) == (1000, 500)
        (table,) = flow.migration.ask("verify", "--mode", "order", accept=(1,))["tables"]
        assert (table["differences"], table["in_motion"]) == (2000, 500)
