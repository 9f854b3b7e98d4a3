"""Delayed deletes whose messages went with their topic: the ledgers in the target databases still have them."""

from __future__ import annotations

from contextlib import closing

import sqlalchemy as sa

from migrate.delay.lost_deletes import DeleteSender, entries
from migrate.kafka.reader import PartitionReader
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.migration import Migration, Topic
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan


def send_again(settings: Settings, state: sa.Engine, plan: Plan, known: Migration) -> int:
    """Have every empty delete come back that a ledger waits for, of topics with a delay topic that never had a message.

    One that would have come anyway comes twice then, of which the ledger takes one. Returns how many were sent. Raises
    ServerError.
    """
    with closing(PartitionReader(settings.kafka, f"{settings.group}.init")) as reader:
        new = {topic.name for topic in known.topics if _has_new(settings, reader, topic)}
    if not new:
        return 0
    with closing(TargetPool(settings)) as pool:
        found = [one for one in entries(settings, plan, pool) if (one[0].topic or settings.topic) in new]
    DeleteSender(settings, known, StateClock(state)).send(found)
    return len(found)


def _has_new(settings: Settings, reader: PartitionReader, topic: Topic) -> bool:
    return any(
        all(reader.bounds(name, number)[1] == 0 for number in range(topic.partitions))
        for name in settings.delay_topics(topic.name)
    )
