"""Processes that start while one of several topics is gone: what is in the others goes on."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_repartition_topics import config
from tests.forked import Child, Migration
from tests.helpers import unique


def test_a_topic_that_is_gone_at_the_start_stands_still_and_the_others_are_worked_on(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, children: list[Child]
) -> None:
    name = unique("one_gone")
    main, other = f"migrate.{name}", f"{name}.b"
    box.source.execute(f"CREATE DATABASE {name}_src")
    for table in ("a", "b"):
        box.source.execute(f"CREATE TABLE {name}_src.{table} (id INT PRIMARY KEY, v INT NOT NULL)")
    migration = Migration(box, tmp_path, config(box, kafka, name, tmp_path))
    migration.do("init")

    def start(process: str, label: str = "") -> Child:
        child = Child(f"migrate {process}", tmp_path / f"{process}{label}.log", Path.cwd())
        child.start(migration.command(process), migration.environment)
        children.append(child)
        return child

    def rows(table: str) -> tuple[tuple[object, ...], ...]:
        return box.targets[0].query(f"SELECT id FROM {name}_1.{table} ORDER BY id")

    def committed() -> bool:
        sql = "SELECT COUNT(*) FROM record JOIN topic USING (topic_id) WHERE topic.name = '{}' AND state < 2"
        return int(box.targets[0].query(sql.format(main), database=f"{name}_state")[0][0]) == 0

    publisher, consumer = start("publish"), start("consume")
    wait(lambda: box.targets[0].query(f"SELECT 1 FROM {name}_state.position"), "the publisher to begin")
    for table in ("a", "b"):
        box.source.execute(f"INSERT INTO {name}_src.{table} VALUES (1, 1), (2, 2)")
    wait(lambda: [*rows("a"), *rows("b")] == [(1,), (2,)] * 2, "the first rows")
    consumer.stop()
    for table in ("b", "a"):
        box.source.execute(f"INSERT INTO {name}_src.{table} VALUES (3, 3)")
    wait(lambda: all(one["caught_up"] for one in migration.ask("status")["sources"]), "them to be published")
    publisher.stop()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([other])[other].result(SLOW)
    wait(lambda: other not in admin.list_topics(timeout=SLOW).topics, "the topic to go")

    start("consume", "-again")
    start("commit")
    requeue = start("requeue")
    wait(lambda: rows("a") == ((1,), (2,), (3,)), "what is in the other topic")
    wait(committed, "its records to be committed")
    halted = wait(lambda: migration.ask("status")["halted"], "the topic that is gone to be named")
    assert {one["process"] for one in halted} == {f"consume: {other} [0]", f"consume: {other} [1]"}
    assert all(f"topic {other} was deleted at the broker" in one["reason"] for one in halted)
    wait(lambda: "lease taken" in requeue.log.read_text("utf-8"), "requeue to begin")
    assert rows("b") == ((1,), (2,))
    assert requeue.running, requeue.log_tail()
