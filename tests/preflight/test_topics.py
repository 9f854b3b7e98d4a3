"""Topics that are there already, at a real broker: each setting that loses or refuses messages is named and mended."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic

from migrate.kafka import admin
from migrate.model.errors import ServerError
from migrate.preflight.result import Result, Verdict
from migrate.preflight.topics import topic_settings
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
    "min.insync.replicas": ("2", "1", Verdict.PROBLEM),
}


def settings_of(kafka: KafkaBroker, **more: object) -> Settings:
    raw = raw_settings(name=unique("topics"), kafka={"bootstrap": kafka.bootstrap, "partitions": 1, **more})
    return parse(raw, {})


def made(kafka: KafkaBroker, settings: Settings, name: str, **config: str) -> None:
    """As somebody else's tool makes it: one replica, for there is one broker."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, config=config)])[name].result(30)
    admin.require(settings.kafka, name, admin.NEW)


def altered(kafka: KafkaBroker, mend: str) -> None:
    """What the command that is advised does."""
    words = mend.split()
    name, (setting, _, value) = words[words.index("--entity-name") + 1], words[-1].partition("=")
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.incremental_alter_configs([resource])[resource].result(30)


def one(results: list[Result]) -> Result:
    (found,) = results
    return found


def test_topics_as_init_makes_them_pass_before_and_after(kafka: KafkaBroker) -> None:
    settings = settings_of(kafka)
    assert one(topic_settings.check(settings)).verdict is Verdict.PASS
    (name,) = settings.topics
    for topic in (name, *settings.delay_topics(name)):
        assert admin.create_topic(settings.kafka, topic, 1)
    found = one(topic_settings.check(settings))
    assert (found.verdict, f"{1 + len(settings.delay.tiers_seconds)} topics" in found.message) == (Verdict.PASS, True)


@pytest.mark.parametrize("setting", BAD)
def test_a_topic_that_would_lose_or_refuse_messages_is_named_with_what_mends_it(
    kafka: KafkaBroker, setting: str
) -> None:
    """Lost: acknowledged messages, with an unclean election or a replica that was not in sync."""
    value, wanted, verdict = BAD[setting]
    settings = settings_of(kafka)
    name = settings.delay_topics(settings.topics[0])[0]
    made(kafka, settings, name, **{**admin.topic_config(settings.kafka), setting: value})
    found = one(topic_settings.check(settings))
    assert (found.check, found.subject, found.verdict) == ("topic", name, verdict)
    assert f"{setting}={value}" in found.message
    assert found.mend.endswith(f"--entity-name {name} --add-config {setting}={wanted}")
    altered(kafka, found.mend)
    assert one(topic_settings.check(settings)).verdict is Verdict.PASS


def test_every_fault_of_a_topic_is_told_at_once(kafka: KafkaBroker) -> None:
    settings = settings_of(kafka)
    made(kafka, settings, settings.topics[0], **{setting: value for setting, (value, _, _) in BAD.items()})
    assert len(topic_settings.check(settings)) == len(BAD)


def test_a_topic_that_keeps_its_messages_for_longer_passes(kafka: KafkaBroker) -> None:
    settings = settings_of(kafka)
    more = {"retention.ms": "-1", "max.message.bytes": "2000000"}
    made(kafka, settings, settings.topics[0], **{**admin.topic_config(settings.kafka), **more})
    assert one(topic_settings.check(settings)).verdict is Verdict.PASS


def test_a_setting_that_a_broker_has_not_is_no_pass(kafka: KafkaBroker) -> None:
    with pytest.raises(ServerError, match=r"does not report no\.such\.setting$"):
        admin.broker_settings(settings_of(kafka).kafka, ["socket.request.max.bytes", "no.such.setting"])


def test_messages_above_what_a_broker_takes_in_one_request_are_a_problem(kafka: KafkaBroker) -> None:
    found = one(topic_settings.check(settings_of(kafka, max_message_bytes=200_000_000)))
    assert (found.verdict, "socket.request.max.bytes=104857600" in found.message) == (Verdict.PROBLEM, True)
