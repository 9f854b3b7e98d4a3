"""Topics of several replicas, and a user who may not see settings, at three real brokers that go by ACLs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from migrate.kafka import admin
from migrate.preflight.result import Verdict
from migrate.preflight.topics import topic_settings
from migrate.settings import Settings, parse
from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from tests.failover.support import wait
from tests.helpers import raw_settings, unique

_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_USER = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def three(run_root: Path) -> Iterator[KafkaBroker]:
    """The first of three brokers, which is the controller too."""
    with ExitStack() as until:
        first = KafkaBroker(run_root / unique("kafka"), properties=_ACLS)
        until.callback(first.kill)
        first.start()
        for number in (2, 3):
            port = free_port()
            more: dict[str, str | int] = {
                "node.id": number,
                "process.roles": "broker",
                "controller.quorum.voters": f"1@{HOST}:{first._controller_port}",
                "listeners": f"PLAINTEXT://{HOST}:{port}",
            }
            other = KafkaBroker(run_root / unique("kafka"), port=port, properties={**_ACLS, **more})
            other.cluster_id = first.cluster_id
            until.callback(other.kill)
            other.start()
        yield first


def settings_of(kafka: KafkaBroker) -> Settings:
    raw = raw_settings(name=unique("topics"), kafka={"bootstrap": kafka.bootstrap, "partitions": 2, "replication": 3})
    return parse(raw, {})


def client(kafka: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def made(kafka: KafkaBroker, settings: Settings, replicas: int, least: int) -> str:
    (name,) = settings.topics
    config = {**admin.topic_config(settings.kafka), "min.insync.replicas": str(least)}
    topic = NewTopic(name, num_partitions=2, replication_factor=replicas, config=config)
    asking = client(kafka)
    asking.create_topics([topic])[name].result(30)
    admin.require(settings.kafka, name, admin.NEW)
    return name


def _filter(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def told(settings: Settings) -> list[tuple[Verdict, str, str]]:
    return [(one.verdict, one.message, one.mend) for one in topic_settings.check(settings)]


def test_a_topic_whose_messages_one_replica_confirms_is_noted_and_the_command_mends_it(three: KafkaBroker) -> None:
    settings = settings_of(three)
    name = made(three, settings, 3, 1)
    ((verdict, message, mend),) = told(settings)
    assert (verdict, message) == (
        Verdict.NOTE,
        f"topic {name} has min.insync.replicas=1: messages are confirmed that no other replica has:"
        " they go with their broker",
    )
    program, *words = mend.split()
    assert program == "kafka-configs.sh"
    subprocess.run(three._java("kafka.admin.ConfigCommand", *words), check=True, capture_output=True, timeout=120)
    wait(lambda: [verdict for verdict, _, _ in told(settings)] == [Verdict.PASS], "a pass")


def test_a_topic_of_fewer_replicas_is_noted_and_needs_no_more_of_them_than_it_has(three: KafkaBroker) -> None:
    settings = settings_of(three)
    name = made(three, settings, 1, 1)
    ((verdict, message, _),) = told(settings)
    assert (verdict, message.partition(":")[0]) == (
        Verdict.NOTE,
        f"topic {name} has 1 replica, kafka.replication is 3",
    )


def test_settings_that_the_user_may_not_see_are_told_with_the_grant(three: KafkaBroker) -> None:
    settings = settings_of(three)
    name = made(three, settings, 3, 2)
    assert [verdict for verdict, _, _ in told(settings)] == [Verdict.PASS]

    def rule(kind: ResourceType, on: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(kind, on, ResourcePatternType.LITERAL, _USER, "*", operation, permission)

    rules = []
    for kind, on in ((ResourceType.TOPIC, name), (ResourceType.BROKER, "kafka-cluster")):
        rules.append(rule(kind, on, AclOperation.ALL, AclPermissionType.ALLOW))  # the brokers are this user too
        rules.append(rule(kind, on, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY))
    asking = client(three)
    for done in asking.create_acls(rules).values():
        done.result(30)
    try:
        wait(lambda: len(told(settings)) == 2, "the rules to hold")
        brokers, topic = told(settings)
        assert (brokers[0], topic[0]) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
        assert (brokers[1].startswith("brokers: "), topic[1].startswith(f"{name}: ")) == (True, True)
        assert "authorization failed" in (brokers[1] + topic[1]).lower()
        assert "DESCRIBE_CONFIGS" in brokers[2]
        assert "DESCRIBE_CONFIGS" in topic[2]
    finally:
        exactly = [_filter(one) for one in rules]
        for removed in asking.delete_acls(exactly).values():
            removed.result(30)
    wait(lambda: [verdict for verdict, _, _ in told(settings)] == [Verdict.PASS], "a pass")
