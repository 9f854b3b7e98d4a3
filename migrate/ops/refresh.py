"""`migrate refresh`: have single rows read at the source again, and set right at every place (rule 16)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress

import sqlalchemy as sa

from migrate.kafka.producer import OrderedProducer
from migrate.kafka.reader import PartitionReader
from migrate.model.change import Key, key_json
from migrate.model.errors import ConfigError, ServerError, StopError
from migrate.model.message import encode
from migrate.model.partition import Partition
from migrate.model.table import Kind
from migrate.mysql.values import parameter
from migrate.ops.runtime import stored_plan
from migrate.settings import Settings
from migrate.state import halt, record
from migrate.state import migration as migrations
from migrate.target.plan import Plan, PlannedTable
from migrate.target.refresh import refresh_message

_CONFIRM_SECONDS = 30.0
_POLL = 0.3


def refresh(
    settings: Settings, state: sa.Engine, name: str, keys: Sequence[str], source: str | None, timeout_seconds: float
) -> int:
    """Ask for rows to be refreshed, and wait until their owner has done so; returns how many.

    Args: name: the table, as database.table. keys: one text for each row, or a JSON list for a key of several columns.
    Raises: ConfigError for a table or key that is none, StopError when the partition stands still, ServerError when
    nothing consumed it in time.
    """
    planned = find(stored_plan(settings, state), name, source)
    wanted = dict.fromkeys(parse_key(planned, text) for text in keys)
    bring(settings, state, planned, [*wanted], timeout_seconds)
    return len(wanted)


def bring(
    settings: Settings, state: sa.Engine, planned: PlannedTable, keys: Sequence[Key], timeout_seconds: float
) -> None:
    """Ask for these rows to be refreshed, and wait until their owner has done so. Raises StopError, ServerError."""
    with state.connect() as connection:
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
    _wait(settings, state, topic, by_partition, time.monotonic() + timeout_seconds)


def partition_for(settings: Settings, planned: PlannedTable, topic: migrations.Topic, key: Key) -> Partition:
    """The partition that the changes of a key travel in."""
    return Partition(settings.name, topic.id, planned.partition(key, topic.partitions))


def find(plan: Plan, name: str, source: str | None) -> PlannedTable:
    """The table of that name. Raises ConfigError when there is none, or one at several sources."""
    found = [one for one in plan.tables.values() if one.table.full_name == name and source in (None, one.table.source)]
    if not found:
        names = ", ".join(sorted({one.table.full_name for one in plan.tables.values()}))
        raise ConfigError(f"the migration has no table {name}", hint=f"its tables: {names}")
    if len(found) > 1:
        sources = ", ".join(sorted(one.table.source for one in found))
        raise ConfigError(f"several sources have {name}", hint=f"choose one with --source: {sources}")
    return found[0]


def parse_key(planned: PlannedTable, text: str) -> Key:
    """The key that a person wrote. Raises ConfigError when it does not fit the table's."""
    table = planned.table
    parts: object = [text]
    if len(table.key) > 1 or text.startswith("["):
        with suppress(ValueError):
            parts = json.loads(text)
    fits = isinstance(parts, list) and len(parts) == len(table.key)
    if not isinstance(parts, list) or not fits or not all(isinstance(part, str | int) for part in parts):
        example = key_json(tuple("7" if column.kind is Kind.INT else "text" for column in table.key_columns))
        raise ConfigError(
            f"{text} is no key of {table.full_name}, which is made of {', '.join(table.key)}",
            hint=f"write it as a JSON list of texts: '{example}'" if len(table.key) > 1 else "write its value",
        )
    try:
        for column, part in zip(table.key_columns, parts, strict=True):
            parameter(column)(str(part))
    except StopError as error:
        raise ConfigError(f"{text} is no key of {table.full_name}: {error.message}") from None
    return tuple(
        str(int(part)) if column.kind is Kind.INT else str(part)
        for column, part in zip(table.key_columns, parts, strict=True)
    )


def _wait(
    settings: Settings, state: sa.Engine, topic: migrations.Topic, partitions: Iterable[Partition], deadline: float
) -> None:
    with closing(PartitionReader(settings.kafka, f"{settings.group}.refresh")) as reader:
        ends = {partition: reader.bounds(topic.name, partition.number)[1] for partition in partitions}
    while True:
        with state.begin() as connection:
            migrations.ask_drain(connection, settings.name)
            left = [
                partition for partition, end in ends.items() if (record.next_offset(connection, partition) or 0) < end
            ]
            stopped = halt.settled(connection, settings.name) if left else []
        if not left:
            return
        names = {halt.of_partition(topic.name, partition.number) for partition in left}
        for process, reason, hint, _ in stopped:
            if process in names or process == "consume":
                raise StopError(f"{process} stands still: {reason}", hint=hint)
        if time.monotonic() > deadline:
            raise ServerError(
                "the request is in the topic and was not consumed in time", hint="is `migrate run` running?"
            )
        time.sleep(_POLL)
