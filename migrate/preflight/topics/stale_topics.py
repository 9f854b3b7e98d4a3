"""Topics that a new migration finds: what another one left in them must not be applied."""

from __future__ import annotations

import time
from contextlib import closing

from migrate.kafka import admin
from migrate.kafka.reader import PartitionReader, RawMessage
from migrate.model.errors import PreflightError, ServerError, StopError
from migrate.model.message import CANAL
from migrate.model.message_reader import decode
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings

_SECONDS = 30.0


def check(settings: Settings) -> list[Result]:
    """What `refuse` would say. Raises ServerError."""
    try:
        refuse(settings)
    except PreflightError as error:
        return [Result("topic", "topics", Verdict.PROBLEM, error.message, error.given)]
    return []


def refuse(settings: Settings) -> None:
    """Before and at the first `init` of a migration. A topic that Canal fills may have messages already.

    Raises PreflightError for a topic with messages of a publisher of ours, or of nobody known; ServerError.
    """
    with closing(PartitionReader(settings.kafka, f"{settings.group}.init")) as reader:
        for topic in settings.topics:
            for name in (topic, *settings.delay_topics(topic)):
                topic_there = admin.describe(settings.kafka, name)
                for number in range(topic_there.partitions if topic_there is not None else 0):
                    low, high = reader.bounds(name, number)
                    if low < high and not _is_canals(_first(settings, reader, name, number, low)):
                        raise PreflightError(
                            f"topic {name} has messages already, and this migration is new",
                            hint="they would be applied: delete the topic, or name another one in the config",
                        )


def _first(settings: Settings, reader: PartitionReader, topic: str, partition: int, offset: int) -> RawMessage:
    reader.assign(topic, partition, offset)
    ends = time.monotonic() + _SECONDS
    while time.monotonic() < ends:
        for raw in reader.poll(1, 1.0):
            reader.unassign(topic, partition)
            return raw
    raise ServerError(f"Kafka at {settings.kafka.bootstrap} did not send what {topic} [{partition}] has at {offset}")


def _is_canals(raw: RawMessage) -> bool:
    try:
        return decode(raw.value, raw.where, raw.offset).source == CANAL
    except StopError:
        return False
