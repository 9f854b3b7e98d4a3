"""How old the oldest change is that is not at the target yet, by its commit time at the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from migrate.kafka.reader import PartitionReader
from migrate.model.errors import MigrateError
from migrate.model.message import CANAL, Message
from migrate.model.message_reader import decode

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


@dataclass(frozen=True, slots=True)
class PublishedReach:
    """What the publishers of a migration have stored.

    reach: by source, the incarnation and newest file that messages may be from. in_order: there is one source, and it
    is not replayed: no message of a partition is of an earlier commit than one before it.
    """

    reach: Mapping[str, tuple[int, int]]
    in_order: bool = False

    def believes(self, message: Message) -> bool:
        """Whether its publisher may have sent it: who else can write to the topic may say any time in it."""
        if not message.from_log or message.source == CANAL:
            return True
        known = self.reach.get(message.source)
        return known is not None and (message.incarnation, message.file) <= known


def of_partition(
    now: datetime,
    reader: PartitionReader,
    topic: str,
    partition: int,
    consumed: int,
    event_ms: int,
    published: PublishedReach,
) -> float:
    """Seconds since the commit of the first change that waits in a partition, as its message says.

    Where that cannot be read, or is from no publisher or the future, since `event_ms`, the commit of the last one that
    is applied (Unix milliseconds); no longer than since then where changes come in order.
    """
    applied, committed = _time(event_ms, now), None
    reader.assign(topic, partition, consumed)
    try:
        for raw in reader.poll(1, _PATIENCE):
            message = decode(raw.value, raw.where, raw.offset)
            if published.believes(message):
                committed = _time(message.es or message.ts, now)
    except MigrateError:
        pass  # the consumer stops at it, and says why
    finally:
        reader.unassign(topic, partition)
    if committed is None or (published.in_order and applied is not None):
        committed = max(filter(None, (committed, applied)), default=None)
    return 0.0 if committed is None else max(0.0, (now - committed).total_seconds())


def _time(unix_ms: int, now: datetime) -> datetime | None:
    """UTC; None for none, and for one that is not over."""
    if not 0 < unix_ms < (now + _AHEAD).replace(tzinfo=UTC).timestamp() * 1000:
        return None
    return datetime.fromtimestamp(unix_ms / 1000, UTC).replace(tzinfo=None)
