"""The requeue process and the topics that it reads, at a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa

from migrate.delay import requeue
from migrate.delay.lost_deletes import LostDeletes
from migrate.delay.markers import SENDER, Delivered, Markers
from migrate.delay.outdated_keys import OutdatedKeys
from migrate.delay.requeue import Requeue
from migrate.kafka import admin
from migrate.kafka.producer import OrderedProducer
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.kafka.topic_identity import TopicGone
from migrate.model import process_names
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError
from migrate.model.message import Message, encode
from migrate.model.partition import Partition
from migrate.settings import Settings
from migrate.state import acknowledged, compared, reached
from migrate.state import migration as migrations
from migrate.state.clock import StateClock
from migrate.state.lease import Leases
from migrate.state.migration import Migration, Topic
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, plain_table, plan_of, unique


@contextmanager
def requeueing(settings: Settings, there: Migration, state: sa.Engine, stop: threading.Event) -> Iterator[Requeue]:
    """One that has nothing to compare with: its migration has no target here."""
    plan, clock = plan_of(plain_table(), settings=settings), StateClock(state)
    sends, lost = Markers(settings, state, plan, there, stop), LostDeletes(settings, state, plan, there, clock, stop)
    with closing(Leases(state, settings.name, 60.0)) as leases:
        assert leases.acquire(process_names.REQUEUE)
        outdated = OutdatedKeys(settings, state, plan, there, stop)
        yield Requeue(settings, there, leases, clock, stop, sends, lost, outdated)


def test_a_place_in_a_delay_topic_that_the_broker_loses_is_looked_for_anew_by_the_next_process(
    kafka: KafkaBroker, state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped for good, and so did each one after it. Costs 2 s."""
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    for topic in (name, *settings.delay_topics(name)):
        admin.create_topic(settings.kafka, topic, 1)
    there = Migration(name, (Topic(name, "of the topic", 1),))
    monkeypatch.setattr(requeue, "begins", lambda *_: 5)  # as of a partition that is put back from now on
    with requeueing(settings, there, state, stop) as waits, pytest.raises(ServerError) as caught:
        waits.run()
    assert "the offset to read from is no longer at the broker" in caught.value.message
    assert "starts again" in caught.value.hint


def test_a_committed_offset_that_the_broker_does_not_have_is_put_right(kafka: KafkaBroker, state: sa.Engine) -> None:
    """It stayed: once the topic had grown past it, the next process began there, over what was not sent yet."""
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    first, *_ = delays = settings.delay_topics(name)
    for topic in (name, *delays):
        admin.create_topic(settings.kafka, topic, 1)
    stop.set()  # it looks before its first round
    with closing(PartitionReader(settings.kafka, f"{settings.group}.delay")) as reader:
        assert reader.commit(first, {0: 5})
        with requeueing(settings, Migration(name, (Topic(name, "of the topic", 1),)), state, stop) as looks:
            looks.run()
        assert reader.committed(first, 0) == 0


def test_a_delay_topic_that_goes_after_it_was_looked_for_is_named_with_its_way_out(
    kafka: KafkaBroker, state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended as when the broker is away, so that nothing of it was noted in the state. Costs 2 s."""
    monkeypatch.setattr(requeue, "NEW", 0.5)
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    first, *others = settings.delay_topics(name)
    admin.create_topic(settings.kafka, first, 1)
    there = Migration(name, (Topic(name, "of the topic", 1),))
    with requeueing(settings, there, state, stop) as waits:
        with pytest.raises(TopicGone, match=f"delay topic {others[0]} was deleted at the broker") as caught:
            waits.run()
    assert "run `migrate init`, which creates the topic" in caught.value.hint


def test_a_client_that_does_not_find_a_topic_takes_it_for_deleted_only_where_the_broker_does(
    kafka: KafkaBroker, state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped for good: under load a client that was made as the broker started found no topic for 15 s, and the
    controller had it. Costs 2 s."""
    monkeypatch.setattr(requeue, "NEW", 0.5)
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    for topic in (name, *settings.delay_topics(name)):
        admin.create_topic(settings.kafka, topic, 1)

    def unseen(_: PartitionReader, topic: str, number: int) -> tuple[int, int]:
        raise NoSuchTopic(f"{topic} [{number}]")

    monkeypatch.setattr(PartitionReader, "bounds", unseen)
    with requeueing(settings, Migration(name, (Topic(name, "of the topic", 1),)), state, stop) as waits:
        with pytest.raises(ServerError, match="this client does not find it") as caught:
            waits.run()
    assert "has a new client" in caught.value.hint


@pytest.mark.parametrize(
    ("delivered", "of_no_change", "of_a_change"),
    [
        (Delivered(published=False, up_to=None), False, False),
        (Delivered(published=True, up_to=None), True, False),  # changes are published again
        (Delivered(published=True, up_to=Coordinate(1, 2, 3, 0)), True, False),
        (Delivered(published=True, up_to=Coordinate(1, 2, 4, 0)), True, True),
        (Delivered(published=True, up_to=Coordinate(1, 2, 4, 0), former=False), True, True),
        (Delivered(published=True, up_to=Coordinate(2, 1, 1, 0)), True, True),
        # Lost: children of rows that went: their marker overtook their own changes, behind the end of the old server's.
        (Delivered(published=True, up_to=Coordinate(2, 1, 1, 0), former=False), True, False),
    ],
)
def test_a_marker_goes_once_the_change_that_it_follows_is_delivered(
    delivered: Delivered, of_no_change: bool, of_a_change: bool
) -> None:
    assert delivered.is_behind(None) is of_no_change
    assert delivered.is_behind(Coordinate(1, 2, 3, 0)) is of_a_change


def test_markers_that_the_broker_lost_are_noted_and_nothing_counts_as_compared(
    kafka: KafkaBroker, state: sa.Engine
) -> None:
    """Lost: rows that a grandchild's marker would have taken: it was acknowledged, sent by nobody again, and no message
    named them. Costs 3 s."""
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    for topic in (name, *settings.delay_topics(name)):
        admin.create_topic(settings.kafka, topic, 1)
    found = admin.require(settings.kafka, name)
    there = Migration(name, (Topic(name, found.id, 1),))
    part = Partition(name, found.id, 0)
    with state.begin() as connection:
        migrations.create(connection, there, "")
        compared.note(connection, name, {part: 0})
        acknowledged.put(connection, SENDER, {part: 5})

    stop.set()  # it looks before its first round
    with requeueing(settings, there, state, stop) as looks:
        looks.run()
    with state.connect() as connection:
        assert compared.load(connection, name) == {}
        (lost,) = reached.lost_since(connection, name, None)
        assert str(lost) == f"Kafka lost acknowledged messages of {name} [0], from offset 0 or before to 5"
        assert acknowledged.load(connection, name, SENDER) == {part: 0}


def test_markers_in_whose_places_another_sender_wrote_are_noted_at_the_start_and_while_it_runs(
    kafka: KafkaBroker, state: sa.Engine
) -> None:
    """Lost: as above, where a busy publisher had filled the partition again: it ended no earlier. Costs 2 s."""
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(
        name=name,
        kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name},
        consume={"compare_seconds": 0.3},
    )
    for topic in (name, *settings.delay_topics(name)):
        admin.create_topic(settings.kafka, topic, 1)
    found = admin.require(settings.kafka, name)
    there, part = Migration(name, (Topic(name, found.id, 1),)), Partition(name, found.id, 0)
    row = Message("shop", "orders", "INSERT", ({"id": "1"},), "main", 1, 7, 400, (0,), pk_names=("id",))
    producer = OrderedProducer(settings.kafka)
    for _ in range(5):
        producer.produce(name, 0, encode(row))
    assert producer.flush(20)
    with state.begin() as connection:
        migrations.create(connection, there, "")
        acknowledged.put(connection, SENDER, {part: 3})

    def lost() -> list[str]:
        with state.connect() as connection:
            return [str(one) for one in reached.lost_since(connection, name, None)]

    def put_back_once_noted() -> None:
        while not lost():
            time.sleep(0.05)
        looks._markers.ends.all[name, 0] = 5

    with requeueing(settings, there, state, stop) as looks:
        beside = threading.Thread(target=put_back_once_noted, daemon=True)
        beside.start()
        with pytest.raises(ServerError, match="Kafka lost acknowledged messages") as caught:
            looks.run()
    assert "starts again" in caught.value.hint
    assert sorted(lost()) == [
        f"Kafka lost acknowledged messages of {name} [0], from offset {start} or before to {start + 1}"
        for start in (2, 4)
    ]
    with state.connect() as connection:
        assert acknowledged.load(connection, name, SENDER) == {part: 0}
