"""Lost: acknowledged messages in whose places other senders wrote since, as where a partition ends says nothing of them
(invariant fence-compares)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from migrate.delay.markers import SENDER
from migrate.kafka import admin
from migrate.kafka.acknowledged import AcknowledgedCheck
from migrate.kafka.producer import AcknowledgedEnds, AcknowledgedLost, OrderedProducer
from migrate.model.errors import ServerError
from migrate.model.message import CASCADE, REFRESH, Delay, Message, encode
from migrate.model.message_reader import senders
from migrate.settings import Kafka
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, unique
from tests.waiting import until

ROW = Message("shop", "orders", "INSERT", ({"id": "1"},), "s1", 1, 7, 400, (0,), pk_names=("id",))
OTHERS = replace(ROW, source="s2")
DELAYED = replace(ROW, type="DELETE", delay=Delay(0, 1, "ds_0", "orders"))
MARKER = replace(ROW, type=CASCADE)


@pytest.mark.parametrize(
    ("message", "known"),
    [
        (ROW, {"s1"}),
        (OTHERS, {"s2"}),
        (replace(ROW, type="TRUNCATE", data=(), rows=()), {"s1"}),
        (DELAYED, {SENDER}),
        (MARKER, {"s1", SENDER}),
        (replace(MARKER, id=1), {"s1", SENDER}),  # a publisher's, for the children of those that it names
        (replace(ROW, type=REFRESH), set()),
        (replace(ROW, type=REFRESH, id=1), {SENDER}),  # a copy left the row out
    ],
)
def test_a_message_says_who_sent_it(message: Message, known: set[str]) -> None:
    assert senders(encode(message)) == known


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"[]", b"1", b'{"pos": 1}', b'{"type": "INSERT", "pos": {"source": []}}']
)
def test_what_is_no_message_is_nobodys(value: bytes) -> None:
    assert senders(value) == frozenset()


def filled(settings: Kafka, *messages: Message) -> str:
    topic = unique("kept")
    admin.create_topic(settings, topic, 2)
    producer = OrderedProducer(settings)
    producer.send(topic, [(0, None, encode(message)) for message in messages])
    assert producer.flush(20)
    return topic


def look(settings: Kafka, ends: AcknowledgedEnds, sender: str = "s1") -> dict[tuple[str, int], tuple[int, int]]:
    AcknowledgedCheck(settings, "kept", ends, sender, threading.Event()).look()
    return ends.lost


def test_the_last_message_of_a_sender_that_is_another_ones_is_lost(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = filled(settings, ROW, DELAYED, OTHERS, ROW)
    place = (topic, 0)
    assert look(settings, AcknowledgedEnds({place: 1})) == {}
    assert look(settings, AcknowledgedEnds({place: 4, (topic, 1): 0})) == {}
    assert look(settings, AcknowledgedEnds({place: 2}), SENDER) == {}
    assert look(settings, AcknowledgedEnds({place: 2})) == {place: (1, 2)}
    assert look(settings, AcknowledgedEnds({place: 3})) == {place: (2, 3)}
    assert look(settings, AcknowledgedEnds({place: 4}), SENDER) == {place: (3, 4)}
    assert look(settings, AcknowledgedEnds({place: 6})) == {place: (4, 6)}  # it ends before
    assert look(settings, AcknowledgedEnds({(topic, 1): 1, place: 3})) == {(topic, 1): (0, 1), place: (2, 3)}


def test_what_was_lost_before_the_sender_wrote_again_is_found_by_the_end_that_it_had_then(kafka: KafkaBroker) -> None:
    """Lost: the messages before a sender's present end, which is right, where it wrote again before the next look."""
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = filled(settings, ROW, OTHERS, OTHERS, ROW)
    place = (topic, 0)
    by_quiet = AcknowledgedEnds({place: 2})
    by_quiet.note(place, 3)
    assert look(settings, by_quiet) == {place: (1, 2)}

    by_look = AcknowledgedEnds({place: 1})
    assert look(settings, by_look) == {}
    by_look.note(place, 1)  # at once: no time for a broker to be put back
    by_look.note(place, 3)
    assert by_look.marked() == {place: {1, 4}}
    assert look(settings, by_look) == {}
    assert by_look.marked() == {place: {4}}


def test_the_present_end_is_looked_at_however_many_came_before_it(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: a sender's last messages of a partition, where it had been quiet there nine times between two looks."""
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = filled(settings, *[ROW, OTHERS] * 9, OTHERS)
    ends = AcknowledgedEnds()
    monkeypatch.setattr("migrate.kafka.producer._BACK", 0.0)
    for offset in range(0, 20, 2):
        ends.note((topic, 0), offset)
    assert look(settings, ends) == {(topic, 0): (18, 19)}


def test_what_was_deleted_by_age_cannot_be_told(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = filled(settings, OTHERS, OTHERS, ROW)
    before = TopicPartition(topic, 0, 2)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.delete_records([before])[before].result(20)
    assert look(settings, AcknowledgedEnds({(topic, 0): 2})) == {}


def test_a_broker_that_is_away_is_looked_at_again(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = filled(settings, OTHERS)
    ends = AcknowledgedEnds({(topic, 0): 1})
    away = AcknowledgedCheck(
        settings.model_copy(update={"bootstrap": "127.0.0.1:1"}), "kept", ends, "s1", threading.Event()
    )
    monkeypatch.setattr("migrate.kafka.reader._TIMEOUT", 0.5)
    with pytest.raises(ServerError):
        away.look()
    away.try_to_look()
    assert ends.lost == {}
    producer = OrderedProducer(settings, ends=ends)
    with AcknowledgedCheck(settings, "kept", ends, "s1", threading.Event()).looking(0.1):
        until(lambda: producer.lost, "the loss to be seen")
    with pytest.raises(AcknowledgedLost):
        producer.poll()
    assert ends.lost == {(topic, 0): (0, 1)}


def test_a_look_ends_with_its_process(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    stop = threading.Event()
    stop.set()
    ends = AcknowledgedEnds({(filled(settings, OTHERS), 0): 1})
    began = time.monotonic()
    AcknowledgedCheck(settings, "kept", ends, "s1", stop).look()
    assert (ends.lost, time.monotonic() - began < 5) == ({}, True)
