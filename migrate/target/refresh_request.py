"""Asking the owners of keys to refresh them (invariant refresh-settles-doubt), and waiting until they have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.kafka.producer import OrderedProducer
from migrate.kafka.reader import PartitionReader
from migrate.model.change import Key
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.message import encode
from migrate.model.partition import Partition
from migrate.settings import Settings
from migrate.state import leading, record, stop_reason
from migrate.state import migration as migrations
from migrate.target.refresh import refresh_message
from migrate.target.routing import PlannedTable

_CONFIRM_SECONDS = 30.0
_POLL = 0.3


def bring(
    settings: Settings,
    state: sa.Engine,
    planned: PlannedTable,
    keys: Sequence[Key],
    timeout_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Ask for these rows to be refreshed, and wait until their owner has done so. Raises StopError, ServerError.

    sleep: waits so many seconds; what it raises ends the wait.
    """
    with state.connect() as connection:
        leading.refuse_unless(connection, settings.name, "refresh")
        leading.refuse_in_cutover(connection, settings.name)
        topic = migrations.get(connection, settings.name).topic(planned.topic or settings.topic)
    by_partition: dict[Partition, list[Key]] = {}
    for key in keys:
        by_partition.setdefault(partition_for(settings, planned, topic, key), []).append(key)
    producer = OrderedProducer(settings.kafka)
    for partition, some in by_partition.items():
        for key in some:
            producer.produce(topic.name, partition.number, encode(refresh_message(planned.table, [key])))
    if not producer.flush(_CONFIRM_SECONDS):
        raise ServerError(f"Kafka did not confirm the request within {_CONFIRM_SECONDS:.0f} s", hint="ask again")
    _wait(settings, state, topic, by_partition, time.monotonic() + timeout_seconds, sleep)


def partition_for(settings: Settings, planned: PlannedTable, topic: migrations.Topic, key: Key) -> Partition:
    """The partition that the changes of a key travel in."""
    return Partition(settings.name, topic.id, planned.partition(key, topic.partitions))


def _wait(
    settings: Settings,
    state: sa.Engine,
    topic: migrations.Topic,
    partitions: Iterable[Partition],
    deadline: float,
    sleep: Callable[[float], None],
) -> None:
    with closing(PartitionReader(settings.kafka, f"{settings.group}.refresh")) as reader:
        ends = {partition: reader.bounds(topic.name, partition.number)[1] for partition in partitions}
    while True:
        with state.begin() as connection:
            migrations.ask_drain(connection, settings.name)
            left = [
                partition for partition, end in ends.items() if (record.next_offset(connection, partition) or 0) < end
            ]
            stopped = stop_reason.settled(connection, settings.name) if left else []
        if not left:
            return
        names = {stop_reason.of_partition(topic.name, partition.number) for partition in left}
        for process, reason, hint, *_ in stopped:
            if process in names or process == "consume":
                raise StopError(f"{process} is stopped: {reason}", hint=hint, code=Code.STOPPED)
        if time.monotonic() > deadline:
            raise ServerError(
                "the request is in the topic and was not consumed in time",
                hint="it is carried out once the stream from the applications' side runs: see `migrate status`",
            )
        sleep(_POLL)
