"""What the topics hold of a source beyond its stored position: sent, and not acknowledged as far as the state knows.

A server that takes the source's place must have all of it, as targets may have it already.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC

import sqlalchemy as sa

from migrate.kafka.reader import PartitionReader
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Message
from migrate.model.message_reader import decode
from migrate.publish.log import gtid
from migrate.publish.state_writes import StateWrites
from migrate.settings import Settings
from migrate.state import rewind as rewinds
from migrate.state import unacknowledged
from migrate.state.migration import Migration
from migrate.state.position import Position
from migrate.state.unacknowledged import Ends, Noted

_FIRST_BLOCK = 500  # messages read back from a partition's end; doubled until one below the position is met


@dataclass(slots=True)
class UnacknowledgedTransactions:
    """Transactions beyond a position."""

    gtids: set[str] = field(default_factory=set)  # or sets of them, as the source writes both
    newest: int = 0  # time of the newest, seconds since 1970
    ends: Ends = field(default_factory=dict)  # of the partitions that were read

    def add(self, message: Message) -> None:
        if message.gtid:
            self.gtids.add(message.gtid)
        self.newest = max(self.newest, message.es // 1000)


def beyond(settings: Settings, migration: Migration, stored: Position, read: Ends) -> UnacknowledgedTransactions:
    """Read each partition back from its end to the first message below the position, which is what the last run of the
    publisher sent; and no further than it was read before. Raises ServerError."""
    found = UnacknowledgedTransactions()
    with closing(PartitionReader(settings.kafka, f"{settings.group}.published")) as reader:
        lows, found.ends = _bounds(reader, migration, read)
        ends, size = {part: high for part, high in found.ends.items() if lows[part] < high}, _FIRST_BLOCK
        while ends:
            spans = {part: (max(lows[part], end - size), end) for part, end in ends.items()}
            first: dict[tuple[str, int], Coordinate] = {}
            for raw in reader.spans(spans):
                try:
                    message = decode(raw.value, raw.where, raw.offset)
                except StopError:  # not one of a publisher
                    continue
                if message.source == stored.source and message.from_log:
                    first.setdefault((raw.topic, raw.partition), message.coordinate)
                    if message.coordinate >= stored.coordinate:
                        found.add(message)
            ends = {
                part: start
                for part, (start, _) in spans.items()
                if start > lows[part] and not (part in first and first[part] < stored.coordinate)
            }
            size *= 2
    return found


def _bounds(reader: PartitionReader, migration: Migration, read: Ends) -> tuple[Ends, Ends]:
    """From where to where each partition is to be read."""
    lows, highs = {}, {}
    for topic in migration.topics:
        for number in range(topic.partitions):
            part = topic.name, number
            low, highs[part] = reader.bounds(*part)
            before = read.get(part, 0)
            lows[part] = max(low, before) if before <= highs[part] else low  # else it is another topic
    return lows, highs


class Unacknowledged:
    """Of one publisher: what all its runs sent beyond its position. A run finds in the topics what the last one sent,
    and notes that in the state before it sends anything."""

    def __init__(
        self, settings: Settings, source: str, migration: Migration, state: sa.Engine, writes: StateWrites
    ) -> None:
        self._settings = settings
        self._source = source
        self._migration = migration
        self._writes = writes
        with state.connect() as connection:
            self._noted = unacknowledged.load(connection, settings.name, source)
            self._gone_back = rewinds.every(connection, settings.name, source)
        self._found: UnacknowledgedTransactions | None = None

    def beyond(self, stored: Position) -> UnacknowledgedTransactions:
        """Raises ServerError."""
        if self._found is None:
            noted = self._noted
            before = rewinds.published_up_to(stored, self._gone_back)  # a rewind only notes that it was
            found = beyond(self._settings, self._migration, before, noted.ends)
            found.gtids |= {noted.gtids} - {""}
            found.newest = max(found.newest, noted.newest)
            self._found = found
        return self._found

    def note(self, stored: Position) -> None:
        """Before anything is sent from this position on. Raises as `beyond` and as the state's writes."""
        found = self.beyond(stored)
        self._put(_left(found, stored))
        self._found = None

    def note_end(self) -> None:
        """All that was sent is acknowledged, and the position is behind it: the next run need not read it. Raises as
        `beyond` and as the state's writes."""
        with closing(PartitionReader(self._settings.kafka, f"{self._settings.group}.published")) as reader:
            _, ends = _bounds(reader, self._migration, {})
        self._put(replace(self._noted, ends=ends))

    def forget(self) -> None:
        """In a log that is found by time, or begun at its end, these transactions are not asked for."""
        self._put(replace(self._noted, gtids=""))

    def _put(self, noted: Noted) -> None:
        if noted != self._noted:
            self._writes.run(lambda state: unacknowledged.put(state, self._settings.name, self._source, noted))
            self._noted = noted


def _left(found: UnacknowledgedTransactions, stored: Position) -> Noted:
    """Without what the position has reached by now."""
    gtids, reached = gtid.compact(found.gtids), stored.gtid_set
    flavour = gtid.flavour_of(reached)
    if flavour and gtids and gtid.parse(gtids, flavour).within(gtid.parse(reached, flavour)):
        return Noted(ends=found.ends)
    last = 0 if stored.event_time is None else int(stored.event_time.replace(tzinfo=UTC).timestamp())
    return Noted(gtids, found.newest if gtids or found.newest > last else 0, found.ends)
