"""A topic that is deleted, or deleted and made again, while it is read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from migrate.kafka import admin
from migrate.kafka.reader import PartitionReader
from migrate.kafka.topic_identity import TopicWatch
from sandbox.broker import KafkaBroker
from tests.consume.support import FakeWriter, Process, World, until
from tests.failover.support import frozen
from tests.helpers import make_settings, unique

pytestmark = pytest.mark.long


def test_a_deleted_topic_stops_its_partitions_by_name(world: World) -> None:
    world.send(0, 2)
    process = Process(world, FakeWriter())
    until(lambda: world.consumed(0) == 2)
    admin.delete_topics(world.settings.kafka, [world.name])
    until(lambda: world.halted().keys() == {0, 1})
    process.end()
    assert set(world.halted().values()) == {f"topic {world.name} was deleted at the broker (id {world.topic_id})"}


def test_a_topic_that_is_made_again_is_not_taken_for_the_one_before(world: World) -> None:
    world.send(0, 2)
    process = Process(world, FakeWriter())
    until(lambda: world.consumed(0) == 2)
    admin.delete_topics(world.settings.kafka, [world.name])
    until(lambda: admin.describe(world.settings.kafka, world.name) is None)
    admin.create_topic(world.settings.kafka, world.name, 2)
    now = admin.require(world.settings.kafka, world.name).id
    until(lambda: world.halted().keys() == {0, 1})
    told = f"topic {world.name} was deleted and made again (id {world.topic_id}, now {now})"
    assert set(world.halted().values()) == {told}
    world.send(0, 3)  # offsets 0 to 2 of the new one
    before = world.halted_at(0)
    until(lambda: world.halted_at(0) > before)  # another attempt
    process.end()
    assert set(world.halted().values()) == {told}
    assert world.consumed(0) == 2


def test_offsets_of_other_topics_are_committed_though_one_is_gone(world: World) -> None:
    other = f"{world.name}.other"
    admin.create_topic(world.settings.kafka, other, 1)
    with closing(PartitionReader(world.settings.kafka, world.name)) as reader:
        admin.delete_topics(world.settings.kafka, [world.name])
        until(lambda: admin.describe(world.settings.kafka, world.name) is None)
        until(lambda: not reader.commit(world.name, {0: 2}))
        assert reader.commit(other, {0: 5})
        assert reader.committed(other, 0) == 5


def test_a_topic_that_is_compacted_stops_its_partitions_until_it_is_not(world: World) -> None:
    """Lost: changes of which the cleaner had left the last one of a table, as preflight alone had looked."""
    process = Process(world, FakeWriter())
    policy(world, "compact,delete")
    until(lambda: world.halted().keys() == {0, 1})
    assert "has cleanup.policy=compact" in world.halted()[0]
    policy(world, "delete")
    world.send(0, 2)
    until(lambda: world.consumed(0) == 2)
    process.end()


def policy(world: World, value: str) -> None:
    entry = ConfigEntry("cleanup.policy", value, incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, world.name, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    client.incremental_alter_configs([topic])[topic].result(20)


@pytest.fixture(scope="module")
def broker(run_root: Path) -> Iterator[KafkaBroker]:
    made = KafkaBroker(run_root / "kafka-topic-gone")
    made.start()
    yield made
    made.kill()


def test_a_broker_that_is_away_or_just_comes_back_is_no_deleted_topic(broker: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": broker.bootstrap}).kafka
    name = unique("watched")
    admin.create_topic(settings, name, 1)
    watch = TopicWatch(settings, {name: admin.require(settings, name).id}, every=0.5)

    def watched(seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            assert watch.gone() == {}
            time.sleep(0.02)

    watched(2)
    with frozen(broker.pid):
        watched(3)
    watched(1)
    broker.kill()
    watched(3)
    broker.start()
    watched(4)
    admin.delete_topics(settings, [name])
    until(lambda: name in watch.gone())
