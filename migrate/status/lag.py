"""How old the oldest change is that is not at the target yet, by its commit time at the source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from migrate.kafka.reader import PartitionReader
from migrate.model.errors import MigrateError
from migrate.model.message import decode

_PATIENCE = 5.0
_AHEAD = timedelta(minutes=1)
"""A commit time further ahead of the state server's clock was set by its session: it does not say what is delivered."""


def of_source(now: datetime, caught_up: bool, *delivered_until: datetime | None) -> float:
    """Seconds that a publisher is behind its source.

    Args: now: by the state server, UTC. delivered_until: times up to which everything is delivered: that of the last
    delivered transaction, and that at which the publisher last saw an idle source with nothing on its way.
    """
    known = [time for time in delivered_until if time is not None and time < now + _AHEAD]
    if caught_up or not known:
        return 0.0
    return max(0.0, (now - max(known)).total_seconds())


def of_partition(
    now: datetime, reader: PartitionReader, topic: str, partition: int, consumed: int, event_ms: int
) -> float:
    """Seconds since the commit of the first change that waits in a partition.

    Where that cannot be read, since `event_ms`, the commit of the last one that is applied (Unix milliseconds).
    """
    reader.assign(topic, partition, consumed)
    try:
        for raw in reader.poll(1, _PATIENCE):
            message = decode(raw.value, raw.where, raw.offset)
            event_ms = message.es or message.ts
    except MigrateError:
        pass  # the consumer stops at it, and says why
    finally:
        reader.unassign(topic, partition)
    if not event_ms:
        return 0.0
    committed = datetime.fromtimestamp(event_ms / 1000, UTC).replace(tzinfo=None)
    return max(0.0, (now - committed).total_seconds())
