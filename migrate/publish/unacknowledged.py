"""What a topic holds of a source beyond its stored position: published, and not yet acknowledged."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from migrate.kafka.reader import PartitionReader
from migrate.model.message import Message
from migrate.model.message_reader import decode
from migrate.settings import Settings
from migrate.state.position import Position

_FIRST_BLOCK = 500  # messages read back from a partition's end; doubled until one at or below the position is met


@dataclass(slots=True)
class UnacknowledgedTransactions:
    """Transactions beyond a position."""

    gtids: set[str] = field(default_factory=set)
    newest: int = 0  # time of the newest, seconds since 1970

    def add(self, message: Message) -> None:
        if message.gtid:
            self.gtids.add(message.gtid)
        self.newest = max(self.newest, message.es // 1000)


def beyond(
    settings: Settings,
    partitions: Iterable[tuple[str, int]],
    without: Container[tuple[str, int, int]],
    stored: Position,
) -> UnacknowledgedTransactions:
    """Read each partition (topic, number) back from its end to the position.

    without: (topic, number, offset) of messages that a person left out. Raises: StopError for another that cannot be
    read, ServerError.
    """
    limit = stored.coordinate
    found = UnacknowledgedTransactions()
    with closing(PartitionReader(settings.kafka, f"{settings.group}.published")) as reader:
        for topic, number in partitions:
            low, high = reader.bounds(topic, number)
            end, size = high, _FIRST_BLOCK
            while end > low:
                start = max(low, end - size)
                block = [
                    decode(raw.value, raw.where, raw.offset)
                    for raw in reader.between(topic, number, start, end)
                    if (topic, number, raw.offset) not in without
                ]
                ours = [message for message in block if message.source == stored.source and message.from_log]
                for message in ours:
                    if message.coordinate >= limit:
                        found.add(message)
                if ours and ours[0].coordinate < limit:
                    break
                end, size = start, size * 2
    return found
