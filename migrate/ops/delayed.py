"""Delayed deletes whose messages went with their topic: the ledgers in the target databases still have them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.kafka.reader import PartitionReader
from migrate.model.partition import Partition
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.migration import Migration, Topic
from migrate.target import ledger
from migrate.target.asking import partition_for
from migrate.target.place import Aftermath, EmptyDelete
from migrate.target.plan import Place, Plan, PlannedTable, TargetPool
from migrate.target.requeue import AftermathSender


def send_again(settings: Settings, state: sa.Engine, plan: Plan, known: Migration) -> int:
    """Have every empty delete come back that a ledger waits for, of topics with a delay topic that never had a message.

    One that would have come anyway comes twice then, of which the ledger takes one. Returns how many were sent. Raises
    ServerError.
    """
    with closing(PartitionReader(settings.kafka, f"{settings.group}.init")) as reader:
        new = {topic.name: topic for topic in known.topics if _has_new(settings, reader, topic)}
    if not new:
        return 0
    sender, sent = AftermathSender(settings, known, StateClock(state)), 0
    # of a group any table speaks for all
    tables = {planned.noted_as.id: planned for planned in plan.tables.values()}
    with closing(TargetPool(settings)) as pool:
        for planned in tables.values():
            if (topic := new.get(planned.topic or settings.topic)) is None:
                continue
            for place in planned.places:
                with explained(str(place)):
                    connection = pool.get(place.database)
                    waiting = ledger.waiting_at(connection, settings.name, planned.noted_as, place.table)
                for partition, left in _by_partition(settings, planned, topic, place, waiting).items():
                    sender.send(partition, place.database.name, left)
                sent += len(waiting)
    return sent


def _has_new(settings: Settings, reader: PartitionReader, topic: Topic) -> bool:
    return any(
        all(reader.bounds(name, number)[1] == 0 for number in range(topic.partitions))
        for name in settings.delay_topics(topic.name)
    )


def _by_partition(
    settings: Settings, planned: PlannedTable, topic: Topic, place: Place, waiting: Sequence[ledger.Entry]
) -> dict[Partition, Aftermath]:
    found: dict[Partition, Aftermath] = {}
    for entry in waiting:
        left = found.setdefault(partition_for(settings, planned, topic, entry.key), Aftermath())
        left.empties.append(EmptyDelete(planned.table, place.table, entry.key, entry.coordinate, 0))
    return found
