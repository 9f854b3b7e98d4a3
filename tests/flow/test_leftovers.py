"""A new migration whose topic has messages already: what another one left is not applied."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from migrate.kafka import admin
from migrate.kafka.producer import OrderedProducer
from migrate.model.message import Message, encode
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow
from tests.helpers import make_settings, unique

CANAL = b'{"database": "d", "table": "t", "type": "INSERT", "data": [{"id": "1"}], "old": null}'


def test_a_new_migration_refuses_a_topic_with_messages_of_another_and_takes_canals(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = unique("leftover")
    topic = f"migrate.{name}"
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap, "topic": topic}).kafka
    admin.create_topic(settings, topic, 2)
    ours = Message("d", "t", "INSERT", ({"id": "1"},), "main", 1, 1, 4, (0,))

    def put(partition: int, value: bytes) -> None:
        producer = OrderedProducer(settings)
        producer.produce(topic, partition, value)
        assert producer.flush(60)

    with closing(Flow(box, kafka, tmp_path, name, box.source)) as flow:
        put(0, CANAL)
        put(1, encode(ours))
        told = f"topic {topic} has messages already, and this migration is new"
        seen = flow.migration.ask("preflight", accept=(3,))["results"]
        assert [one["message"] for one in seen if one["verdict"] == "problem"] == [told]
        refused = flow.migration.run("init")
        assert refused.returncode == 3
        assert told in refused.stderr
        assert box.targets[0].query(f"SHOW DATABASES LIKE '{name}\\_0'") == ()
        admin.delete_topics(settings, [topic])
        admin.create_topic(settings, topic, 2)
        put(0, CANAL)
        flow.migration.do("preflight")
        flow.migration.do("init")
        put(1, encode(ours))
        flow.migration.do("init")  # no longer new
