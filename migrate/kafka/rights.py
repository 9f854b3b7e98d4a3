"""What an account may do at the broker: its ACLs (Kafka documentation, "Authorization and ACLs").

A right that is missing shows late and seldom by its name: where an offset may not be committed, a coordinator is waited
for. So it is asked before: a broker tells with a topic, and with a group, what the account may do with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]  # documented there

from migrate.kafka.admin import client_options, error_code, explain
from migrate.kafka.reader import once_settled
from migrate.model import process_names
from migrate.model.errors import ServerError
from migrate.model.words import counted
from migrate.settings import Kafka, Settings

_TIMEOUT = 15.0
_NOT_SAID = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE})
"""By brokers that tell nothing of a group that nobody used, or of rights."""


class Process(StrEnum):
    """Who works at the broker; a process may have an account of its own."""

    PUBLISH = "publish"
    CONSUME = process_names.CONSUME
    COMMIT = process_names.COMMIT
    REQUEUE = process_names.REQUEUE


class Kind(StrEnum):
    TOPIC = "topic"
    GROUP = "group"


class Right(NamedTuple):
    kind: Kind
    name: str
    operation: str
    """As Kafka's tools name it."""

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}"

    def grant(self, settings: Kafka) -> str:
        """The arguments of kafka-acls.sh that add it."""
        account = settings.security_options.get("sasl.username", "NAME")
        return f"--add --allow-principal User:{account} --operation {self.operation} --{self.kind} {self.name}"


def of(settings: Settings, process: Process) -> list[Right]:
    """What a process needs of what is there after `migrate init`."""
    topics = list(settings.topics)
    delays = [name for topic in topics for name in settings.delay_topics(topic)]
    wanted = {
        Process.PUBLISH: _all(topics, "Read", "Write"),  # it looks whether the broker has lost what it acknowledged
        Process.CONSUME: [*_all(topics, "Read", "Write"), *_all(delays, "Write")],
        Process.COMMIT: [*_all(topics, "Read"), Right(Kind.GROUP, settings.group, "Read")],
        Process.REQUEUE: [
            *_all(topics, "Read", "Write"),
            *_all(delays, "Read", "Write"),
            Right(Kind.GROUP, f"{settings.group}.delay", "Read"),
        ],
    }
    return wanted[process]


def _all(topics: Iterable[str], *operations: str) -> list[Right]:
    return [Right(Kind.TOPIC, topic, operation) for topic in topics for operation in operations]


def lacking(settings: Kafka, wanted: Iterable[Right]) -> list[Right]:
    """Those that the account has not; of a topic that is not there, none. A broker without an authorizer gives all of
    them. Raises ServerError."""
    rights = list(dict.fromkeys(wanted))
    admin = AdminClient(client_options(settings))
    held = {
        (kind, name): _topic(settings, admin, name) if kind is Kind.TOPIC else _group(settings, admin, name)
        for kind, name in dict.fromkeys((right.kind, right.name) for right in rights)
    }
    return [
        right for right in rights if (has := held[right.kind, right.name]) is not None and right.operation not in has
    ]


def require(settings: Settings, process: Process) -> None:
    """Raises ServerError, which names what the process's account lacks."""
    if lacks := lacking(settings.kafka, of(settings, process)):
        account = settings.kafka.security_options.get("sasl.username")
        more = f", and {counted(len(lacks) - 1, 'other right')}" if len(lacks) > 1 else ""
        raise ServerError(
            f"Kafka at {settings.kafka.bootstrap}: {f'account {account!r}' if account else 'the account'} lacks"
            f" {lacks[0]}{more}",
            hint=f"kafka-acls.sh {lacks[0].grant(settings.kafka)}; docs/grants.md lists what each process needs",
        )


def _topic(settings: Kafka, admin: AdminClient, name: str) -> frozenset[str] | None:
    """None where that is not said: there is no such topic, or the broker is older than 2.3."""
    try:
        asked = admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=_TIMEOUT
        )
        return _names(asked[name].result(_TIMEOUT * 2).authorized_operations)
    except KafkaException as error:
        if error_code(error) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return frozenset()
        if error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise explain(error, settings) from error


def _group(settings: Kafka, admin: AdminClient, name: str) -> frozenset[str] | None:
    """None where that is not said."""

    def ask() -> frozenset[str] | None:
        asked = admin.describe_consumer_groups([name], include_authorized_operations=True, request_timeout=_TIMEOUT)
        try:
            return _names(asked[name].result(_TIMEOUT * 2).authorized_operations)
        except KafkaException as error:
            if error_code(error) == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return frozenset()
            if error_code(error) in _NOT_SAID:
                return None
            raise

    return once_settled(ask, settings)  # the first question about any group makes the topic that keeps offsets


def _names(operations: Iterable[AclOperation] | None) -> frozenset[str] | None:
    return None if operations is None else frozenset(one.name.title().replace("_", "") for one in operations)
