"""Settings of the topics that are there already, and of the brokers: nothing may vanish unread or be refused."""

from __future__ import annotations

from functools import partial

from migrate.kafka import admin
from migrate.model.words import counted
from migrate.preflight.result import Result, Verdict, guarded
from migrate.settings import Kafka, Settings

_HOUR = 3_600_000
_MAY = "allow the user to DESCRIBE_CONFIGS of the topics and of the cluster, or look with kafka-configs.sh --describe"


def check(settings: Settings) -> list[Result]:
    """One line for each topic that is there and is not as init makes them, and for each broker with too low a limit."""
    names = [name for topic in settings.topics for name in (topic, *settings.delay_topics(topic))]
    there = [found for name in names if (found := admin.describe(settings.kafka, name)) is not None]
    results = guarded("topic", "brokers", partial(_of_brokers, settings.kafka))
    for topic in there:
        results += guarded("topic", topic.name, partial(_of_topic, settings.kafka, topic))
    results = [_told(one) for one in results]
    if not results:
        told = f"{counted(len(there), 'topic')} there already, as init makes them" if there else "no topic is there yet"
        results.append(Result("topic", "topics", Verdict.PASS, f"{told}; the brokers take messages as large as ours"))
    return results


def _told(result: Result) -> Result:
    """Where we may not look, how to."""
    if result.verdict is not Verdict.UNKNOWN:
        return result
    return Result(result.check, result.subject, result.verdict, f"{result.subject}: {result.message}", _MAY)


def _of_topic(settings: Kafka, topic: admin.Topic) -> list[Result]:
    name = topic.name
    found = admin.topic_settings(settings, name, [*admin.topic_config(settings), "retention.bytes"])
    results = _of_replicas(settings, topic)

    def wrong(setting: str, wanted: object, why: str, verdict: Verdict = Verdict.PROBLEM) -> None:
        message = f"topic {name} has {setting}={found[setting]}: {why}"
        alter = f"kafka-configs.sh --bootstrap-server {settings.bootstrap} --alter"
        mend = f"{alter} --entity-type topics --entity-name {name} --add-config {setting}={wanted}"
        results.append(Result("topic", name, verdict, message, mend))

    if "compact" in found["cleanup.policy"]:
        wrong("cleanup.policy", "delete", "of several changes of a row the earlier ones vanish")
    if int(found["max.message.bytes"]) < settings.max_message_bytes:
        why = f"messages may have up to {settings.max_message_bytes} (kafka.max_message_bytes)"
        wrong("max.message.bytes", settings.max_message_bytes, why)
    kept, wanted = int(found["retention.ms"]), settings.retention_hours * _HOUR
    if 0 <= kept < wanted:
        why = f"messages are gone after {kept / _HOUR:g} hours, kafka.retention_hours is {settings.retention_hours}"
        wrong("retention.ms", wanted, why)
    if int(found["retention.bytes"]) >= 0:
        wrong("retention.bytes", -1, "the oldest messages are gone when there are more, read or not")
    if found["message.timestamp.type"] != "LogAppendTime":
        wrong("message.timestamp.type", "LogAppendTime", "retention goes by other clocks than the broker's")
    if found["unclean.leader.election.enable"] == "true":
        wrong(
            "unclean.leader.election.enable",
            "false",
            "a replica that lacks confirmed messages may lead: they are lost then",
        )
    least, in_sync = admin.least_in_sync(min(topic.replicas, settings.replication)), int(found["min.insync.replicas"])
    if in_sync > topic.replicas:
        wrong("min.insync.replicas", least, f"it has {counted(topic.replicas, 'replica')}, so every message is refused")
    elif in_sync < least:
        wrong(
            "min.insync.replicas",
            least,
            "messages are confirmed that no other replica has: they go with their broker",
            Verdict.NOTE,
        )
    return results


def _of_replicas(settings: Kafka, topic: admin.Topic) -> list[Result]:
    if topic.replicas >= settings.replication:
        return []
    has = f"topic {topic.name} has {counted(topic.replicas, 'replica')}, kafka.replication is {settings.replication}"
    told = f"{has}: fewer brokers may be lost with it than with those that init makes"
    mend = "add replicas by kafka-reassign-partitions.sh"
    return [Result("topic", topic.name, Verdict.NOTE, told, mend)]


def _of_brokers(settings: Kafka) -> list[Result]:
    name = "socket.request.max.bytes"  # unlike message.max.bytes, no topic can set it otherwise
    results: list[Result] = []
    for id_, found in admin.broker_settings(settings, [name]).items():
        if int(found[name]) < settings.max_message_bytes:
            told = f"broker {id_} has {name}={found[name]}, kafka.max_message_bytes is {settings.max_message_bytes}"
            mend = f"{name}={settings.max_message_bytes} in its server.properties, or a lower kafka.max_message_bytes"
            results.append(Result("topic", f"broker {id_}", Verdict.PROBLEM, told, mend))
    return results
