"""What a batch leaves to be looked at again, on its way to Kafka: empty deletes (invariant tombstone-under-open-chunk),
evicted rows (invariant refresh-settles-doubt)."""

from __future__ import annotations

import time
from contextlib import suppress

from migrate.kafka.admin import describe
from migrate.kafka.producer import OrderedProducer
from migrate.kafka.topic_identity import MAKE_AGAIN, TopicGone
from migrate.model.errors import ServerError
from migrate.model.message import Delay, Message, Op, encode
from migrate.model.partition import Partition
from migrate.settings import Settings
from migrate.state.clock import StateClock
from migrate.state.migration import Migration
from migrate.target.place import Aftermath, EmptyDelete
from migrate.target.refresh import refresh_of

_CONFIRM_SECONDS = 30.0


class AftermathSender:
    """Writes delayed deletes and refreshes, and waits for the broker, so that a commit that follows cannot lose one."""

    def __init__(self, settings: Settings, migration: Migration, clock: StateClock) -> None:
        self.migration = migration
        self._settings = settings
        self._clock = clock
        self._topics = migration.topic_names
        self._producer = OrderedProducer(settings.kafka)

    def send(self, partition: Partition, database: str, left: Aftermath) -> None:
        """Each in the partition of its key: a delete in its tier's topic, an evicted row in the topic itself.

        database: that it happened in. Raises ServerError, TopicGone.
        """
        try:
            self._send(partition, database, left)
        except ServerError:
            self._producer.abandon()
            self._producer = OrderedProducer(self._settings.kafka)  # a failed one stays failed
            self._refuse_gone(self._topics[partition.topic_id])
            raise

    def _flush(self, what: str) -> None:
        if not self._producer.flush(_CONFIRM_SECONDS):
            raise ServerError(f"Kafka did not confirm {what} within {_CONFIRM_SECONDS:.0f} s", hint="tried again")

    def _refuse_gone(self, topic: str) -> None:
        """A delay topic that is not there takes nothing, however often it is tried."""
        with suppress(ServerError):  # the broker is away: that passes
            for name in self._settings.delay_topics(topic):
                if describe(self._settings.kafka, name) is None:
                    raise TopicGone(f"delay topic {name} is not there", hint=MAKE_AGAIN)

    def _send(self, partition: Partition, database: str, left: Aftermath) -> None:
        topic = self._topics[partition.topic_id]
        tiers = self._settings.delay_topics(topic)
        for empty in left.empties:
            due = int((self._clock.now() + self._settings.delay.tiers_seconds[empty.tier]) * 1000)
            self._producer.produce(tiers[empty.tier], partition.number, encode(delayed_message(empty, database, due)))
        for table, row in left.evicted:
            self._producer.produce(topic, partition.number, encode(refresh_of(table, [row])))
        self._flush("delayed deletes")


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
