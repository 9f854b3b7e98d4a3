"""Lost: messages that the broker had acknowledged, where others came in their places in the same `send` (invariant
fence-compares)."""

from __future__ import annotations

import pytest

from migrate.kafka import admin
from migrate.kafka.producer import AcknowledgedEnds, AcknowledgedLost, OrderedProducer
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, unique


@pytest.mark.parametrize("had", [3, 40])
def test_a_partition_that_ends_before_what_was_acknowledged_is_told_by_its_first_message(
    kafka: KafkaBroker, had: int
) -> None:
    """The last message of the send may stand behind what was acknowledged."""
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = unique("cut")
    admin.create_topic(settings, topic, 2)
    producer = OrderedProducer(settings, ends=AcknowledgedEnds({(topic, 0): had}))
    delivered: list[bool] = []
    producer.send(topic, [(number % 2, None, b"x") for number in range(20)], lambda: delivered.append(True))
    with pytest.raises(AcknowledgedLost) as told:
        producer.flush(20)
    assert (told.value.partition, told.value.end, told.value.had) == (0, 0, had)
    assert (producer.lost, delivered) == (True, [])


def test_offsets_that_rise_are_no_loss_and_are_kept(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka
    topic = unique("whole")
    admin.create_topic(settings, topic, 2)
    ends = AcknowledgedEnds()
    for _ in range(2):
        producer = OrderedProducer(settings, ends=ends)
        producer.send(topic, [(number % 2, None, b"x") for number in range(20)])
        assert producer.flush(20)
    first = ends.changed()
    assert first == {(topic, 0): 20, (topic, 1): 20}
    ends.note((topic, 0), 20)
    ends.stored(first)
    assert ends.changed() == {(topic, 0): 21}, "what came since stays to be stored"
