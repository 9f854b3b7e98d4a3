"""Empty deletes on their way to the delay topics (rule 11)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from migrate.kafka.producer import OrderedProducer
from migrate.model.errors import ServerError
from migrate.model.message import Delay, Message, Op, encode
from migrate.model.partition import Partition
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.migration import Migration
from migrate.target.part import EmptyDelete

_CONFIRM_SECONDS = 30.0


class DelaySender:
    """Writes delayed deletes and waits for the broker, so that a commit that follows cannot lose one."""

    def __init__(self, settings: Settings, migration: Migration, clock: StateClock) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = {topic.id: settings.delay_topics(topic.name) for topic in migration.topics}
        self._producer = OrderedProducer(settings.kafka)

    def send(self, partition: Partition, database: str, empties: Sequence[EmptyDelete]) -> None:
        """Send each delete to its tier's topic, in the partition of its key. Raises ServerError."""
        try:
            self._send(partition, database, empties)
        except ServerError:
            self._producer = OrderedProducer(self._settings.kafka)  # a failed one stays failed
            raise

    def _send(self, partition: Partition, database: str, empties: Sequence[EmptyDelete]) -> None:
        for empty in empties:
            due = int((self._clock.now() + self._settings.delay.tiers_seconds[empty.tier]) * 1000)
            message = delayed_message(empty, database, due)
            self._producer.produce(self._topics[partition.topic_id][empty.tier], partition.number, encode(message))
        if not self._producer.flush(_CONFIRM_SECONDS):
            raise ServerError(
                f"Kafka did not confirm delayed deletes within {_CONFIRM_SECONDS:.0f} s", hint="tried again"
            )


def delayed_message(empty: EmptyDelete, database: str, due_ms: int) -> Message:
    """The delete as it travels through a delay topic: the key, the place, the coordinate it had."""
    at = empty.coordinate
    return Message(
        database=empty.table.database,
        table=empty.table.name,
        type=Op.DELETE,
        data=(dict(zip(empty.table.key, empty.key, strict=True)),),
        source=empty.table.source,
        incarnation=at.incarnation,
        file=at.file,
        transaction=at.transaction,
        rows=(at.ordinal,),
        pk_names=empty.table.key,
        ts=int(time.time() * 1000),
        delay=Delay(empty.tier, due_ms, database, empty.place),
    )
