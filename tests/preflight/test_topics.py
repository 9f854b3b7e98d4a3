"""Topics that are there already, at a real broker: each setting that loses or refuses messages is named and mended."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from migrate.kafka import admin
from migrate.preflight import topics
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings, parse
from sandbox.broker import KafkaBroker
from tests.helpers import raw_settings, unique

BAD = {
    "cleanup.policy": ("compact", "delete", Verdict.PROBLEM),
    "max.message.bytes": ("50000", "1000000", Verdict.PROBLEM),
    "retention.ms": ("3600000", "604800000", Verdict.PROBLEM),
    "retention.bytes": ("100000000", "-1", Verdict.PROBLEM),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", Verdict.PROBLEM),
    "unclean.leader.election.enable": ("true", "false", Verdict.PROBLEM),
    "min.insync.replicas": ("1", "2", Verdict.NOTE),
}


def settings_of(kafka: KafkaBroker, **more: object) -> Settings:
    raw = raw_settings(name=unique("topics"), kafka={"bootstrap": kafka.bootstrap, "partitions": 1, **more})
    return parse(raw, {})


def made(kafka: KafkaBroker, settings: Settings, name: str, **config: str) -> None:
    """As somebody else's tool makes it: one replica, for there is one broker."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, config=config)])[name].result(30)
    admin.require(settings.kafka, name, admin.NEW)


def one(results: list[Result]) -> Result:
    (found,) = results
    return found


def test_topics_as_init_makes_them_pass_before_and_after(kafka: KafkaBroker) -> None:
    settings = settings_of(kafka)
    assert one(topics.check(settings)).verdict is Verdict.PASS
    (name,) = settings.topics
    for topic in (name, *settings.delay_topics(name)):
        assert admin.create_topic(settings.kafka, topic, 1)
    found = one(topics.check(settings))
    assert (found.verdict, f"{1 + len(settings.delay.tiers_seconds)} topics" in found.message) == (Verdict.PASS, True)


@pytest.mark.parametrize("setting", BAD)
def test_a_topic_that_would_lose_or_refuse_messages_is_named_with_what_mends_it(
    kafka: KafkaBroker, setting: str
) -> None:
    value, wanted, verdict = BAD[setting]
    settings = settings_of(kafka, replication=3)  # as for three brokers: what init would set
    name = settings.delay_topics(settings.topics[0])[0]
    made(kafka, settings, name, **{**admin.topic_config(settings.kafka), setting: value})
    found = one(topics.check(settings))
    assert (found.check, found.subject, found.verdict) == ("topic", name, verdict)
    assert f"{setting}={value}" in found.message
    assert found.mend.endswith(f"--entity-name {name} --add-config {setting}={wanted}")


def test_messages_above_what_a_broker_takes_in_one_request_are_a_problem(kafka: KafkaBroker) -> None:
    found = one(topics.check(settings_of(kafka, max_message_bytes=200_000_000)))
    assert (found.verdict, "socket.request.max.bytes=104857600" in found.message) == (Verdict.PROBLEM, True)
