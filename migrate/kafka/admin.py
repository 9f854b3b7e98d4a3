"""Topics: created by `migrate init`, described by everyone else."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # documented there
from confluent_kafka.cimpl import NewPartitions, NewTopic

from migrate.kafka import client_close, token
from migrate.model.errors import PreflightError, ServerError
from migrate.settings import Kafka

_TIMEOUT = 15.0
_POLL = 0.05
NEW = 15.0
"""Seconds of patience with a new topic: the controller knows it first, and each broker in a moment of its own."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    partitions: int
    replicas: int
    """Of the partition that has the fewest."""


def client_options(settings: Kafka) -> dict[str, Any]:
    """What every client of this service starts from.

    The library's own lines stay out: a broker that is away would give twenty a second, and errors are told by calls.
    Raises ServerError where `token_command` brings no token.
    """
    known: dict[str, Any] = {"bootstrap.servers": settings.bootstrap, "client.id": "migrate", "log_level": 2}
    if settings.token_command:
        tokens = token.of(settings.token_command, settings.token_environment)
        tokens.require()
        known["oauth_cb"] = tokens
    return {**known, **settings.security_options}


_NO_ANSWER = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})
_WHO = "check sasl.mechanism, sasl.username and sasl.password under kafka.security"
_RIGHTS = "give the account the right: docs/grants.md lists what each process needs of Kafka"
_HINTS = {
    KafkaError._AUTHENTICATION: _WHO,
    KafkaError.SASL_AUTHENTICATION_FAILED: _WHO,
    KafkaError._SSL: "check ssl.ca.location under kafka.security, and that the broker's certificate names its host",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _RIGHTS,
}
_ONCE_MORE = 5.0


def explain(error: BaseException, settings: Kafka) -> ServerError:
    """One line about a refused or unreachable broker. Where it does not answer a client with an account or a
    certificate, it is asked once more, for at most 5 s: only a callback gets what refuses them."""
    told, code = error_text(error), error_code(error)
    if code in _NO_ANSWER and settings.security and (refused := _refused(settings)) is not None:
        told, code = refused.str(), refused.code()
    hint = _HINTS.get(code or 0, "check that the broker is up, and that kafka.bootstrap is right")
    return ServerError(f"Kafka at {settings.bootstrap}: {told}", hint=hint)


def _refused(settings: Kafka) -> KafkaError | None:
    """Why the broker does not let this client in; None where it does not say."""
    heard: list[KafkaError] = []
    options: dict[str, Any] = {**client_options(settings), "error_cb": heard.append}
    try:
        client = AdminClient(options)
    except KafkaException:  # a certificate is being replaced
        return None
    client_close.drop(client)
    ends = time.monotonic() + _ONCE_MORE
    while time.monotonic() < ends:
        client.poll(_POLL)
        for one in heard:
            if one.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                return one
    return None


def error_text(error: BaseException | KafkaError) -> str:
    kafka_error = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return kafka_error.str() if isinstance(kafka_error, KafkaError) else str(kafka_error)


def error_code(error: BaseException | KafkaError) -> int | None:
    kafka_error = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return kafka_error.code() if isinstance(kafka_error, KafkaError) else None


def brokers(settings: Kafka) -> int:
    """How many there are. Raises ServerError."""
    try:
        return len(AdminClient(client_options(settings)).list_topics(timeout=_TIMEOUT).brokers)
    except KafkaException as error:
        raise explain(error, settings) from error


def refusal(settings: Kafka, name: str, partitions: int) -> str:
    """Why the broker would not create the topic, "" when it would; nothing is created. Raises ServerError."""
    topic = _new_topic(settings, name, partitions)
    admin = AdminClient(client_options(settings))
    try:
        admin.create_topics([topic], request_timeout=_TIMEOUT, validate_only=True)[name].result(_TIMEOUT * 2)
    except KafkaException as error:
        if error_code(error) in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            raise explain(error, settings) from error
        return error_text(error)
    return ""


def _new_topic(settings: Kafka, name: str, partitions: int) -> NewTopic:
    return NewTopic(
        name, num_partitions=partitions, replication_factor=settings.replication, config=topic_config(settings)
    )


def topic_config(settings: Kafka) -> dict[str, str]:
    """The settings that topics are made with."""
    return {
        "retention.ms": str(settings.retention_hours * 3_600_000),
        "max.message.bytes": str(settings.max_message_bytes),
        "cleanup.policy": "delete",
        "min.insync.replicas": str(least_in_sync(settings.replication)),
        "unclean.leader.election.enable": "false",
        # by the broker: retention goes by it, and a time far ahead of the broker's would be refused
        "message.timestamp.type": "LogAppendTime",
    }


def least_in_sync(replicas: int) -> int:
    """How many of a topic's replicas must have a message: acks=all means little when one of three is enough."""
    return max(1, replicas - 1)


def create_topic(settings: Kafka, name: str, partitions: int) -> bool:
    """Create a topic unless it is there; returns whether it was created. Raises ServerError."""
    topic = _new_topic(settings, name, partitions)
    admin = AdminClient(client_options(settings))
    try:
        admin.create_topics([topic], operation_timeout=_TIMEOUT, request_timeout=_TIMEOUT)[name].result(_TIMEOUT * 2)
    except KafkaException as error:
        if error_code(error) == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise explain(error, settings) from error
    require(settings, name, NEW)
    return True


def add_partitions(settings: Kafka, name: str, partitions: int) -> None:
    """Let a topic have that many partitions; nothing when it has. Raises ServerError."""
    if require(settings, name).partitions >= partitions:
        return
    admin = AdminClient(client_options(settings))
    try:
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(_TIMEOUT * 2)
    except KafkaException as error:
        raise explain(error, settings) from error
    deadline = time.monotonic() + _TIMEOUT
    while require(settings, name).partitions < partitions:
        if time.monotonic() > deadline:
            raise ServerError(f"Kafka at {settings.bootstrap}: {name} does not show its new partitions")
        time.sleep(_POLL)


def describe(settings: Kafka, name: str) -> Topic | None:
    """The topic's id and number of partitions; None when there is no such topic. Raises ServerError."""
    admin = AdminClient(client_options(settings))
    try:
        future = admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT)[name]
        found = future.result(_TIMEOUT * 2)
    except KafkaException as error:
        if error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise explain(error, settings) from error
    replicas = min(len(partition.replicas) for partition in found.partitions)
    return Topic(name, str(found.topic_id), len(found.partitions), replicas)


def topic_settings(settings: Kafka, name: str, wanted: Iterable[str]) -> dict[str, str]:
    """A topic's settings in force. Raises ServerError, also where the user may not see one or the broker has it not."""
    return _described(settings, ConfigResource(ConfigResource.Type.TOPIC, name), wanted)


def broker_settings(settings: Kafka, wanted: Iterable[str]) -> dict[int, dict[str, str]]:
    """Settings in force of each broker, by its id. Raises as `topic_settings`."""
    try:
        ids = AdminClient(client_options(settings)).list_topics(timeout=_TIMEOUT).brokers
    except KafkaException as error:
        raise explain(error, settings) from error
    resources = {id_: ConfigResource(ConfigResource.Type.BROKER, str(id_)) for id_ in sorted(ids)}
    return {id_: _described(settings, resource, wanted) for id_, resource in resources.items()}


def _described(settings: Kafka, resource: ConfigResource, wanted: Iterable[str]) -> dict[str, str]:
    admin = AdminClient(client_options(settings))
    try:
        found = admin.describe_configs([resource], request_timeout=_TIMEOUT)[resource].result(_TIMEOUT * 2)
    except KafkaException as error:
        raise explain(error, settings) from error
    told = {name: entry.value for name, entry in found.items()}
    if missing := [name for name in wanted if told.get(name) is None]:
        raise ServerError(f"Kafka at {settings.bootstrap} does not report {', '.join(missing)}")
    return {name: str(told[name]) for name in wanted}


def require(settings: Kafka, name: str, patience: float = 0.0) -> Topic:
    """As `describe`, but a topic that is missing for so many seconds is a PreflightError."""
    deadline = time.monotonic() + patience
    while (found := describe(settings, name)) is None and time.monotonic() < deadline:
        time.sleep(_POLL)
    if found is None:
        raise PreflightError(f"Kafka topic {name} is not there", hint="run `migrate init` first")
    return found


def delete_topics(settings: Kafka, names: list[str]) -> None:
    """Delete topics; those that are not there do not matter. Raises ServerError."""
    admin = AdminClient(client_options(settings))
    for future in admin.delete_topics(names, operation_timeout=_TIMEOUT).values():
        try:
            future.result(_TIMEOUT * 2)
        except KafkaException as error:
            if error_code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise explain(error, settings) from error
