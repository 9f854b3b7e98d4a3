"""What the topics hold of a source beyond its stored position: sent, and not acknowledged as far as the state knows.

A server that takes the source's place must have all of it, as targets may have it already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from migrate.kafka.reader import PartitionReader
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError, StopError
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


def beyond(
    settings: Settings, migration: Migration, stored: Position, read: Ends, check: Callable[[], None] = lambda: None
) -> UnacknowledgedTransactions:
    """Read each partition back from its end to the first message below the position, which is what the last run of the
    publisher sent; and no further than it was read before.

    check: called while it reads; raises where it is not to go on. Raises: ServerError, what check raises.
    """
    try:
        return _beyond(settings, migration, stored, read, check)
    except StopError as error:  # retention takes messages while they are read, which have nothing that is not older
        raise ServerError(f"messages went while they were looked at: {error.message}", hint="start again") from error


def _beyond(
    settings: Settings, migration: Migration, stored: Position, read: Ends, check: Callable[[], None]
) -> UnacknowledgedTransactions:
    found, ours = UnacknowledgedTransactions(), stored.source.encode()
    with closing(PartitionReader(settings.kafka, f"{settings.group}.published")) as reader:
        lows, found.ends = _bounds(reader, migration, read)
        ends, size = {part: high for part, high in found.ends.items() if lows[part] < high}, _FIRST_BLOCK
        while ends:
            spans = {part: (max(lows[part], end - size), end) for part, end in ends.items()}
            first: dict[tuple[str, int], Coordinate] = {}
            for raw in reader.spans(spans, check):
                if ours not in raw.value:
                    continue
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
    for part in migration.places:
        low, highs[part] = reader.bounds(*part)
        before = read.get(part, 0)
        lows[part] = max(low, before) if before <= highs[part] else low  # else it is another topic
    return lows, highs


class Unacknowledged:
    """Of one publisher: what all its runs sent beyond its position. A run finds in the topics what the last one sent,
    and notes that in the state before it sends anything."""

    def __init__(
        self,
        settings: Settings,
        source: str,
        migration: Migration,
        state: sa.Engine,
        writes: StateWrites,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._source = source
        self._migration = migration
        self._writes = writes
        self._stop = stop
        with state.connect() as connection:
            self._noted = unacknowledged.load(connection, settings.name, source)
            self._gone_back = rewinds.every(connection, settings.name, source)

    def beyond(self, stored: Position) -> UnacknowledgedTransactions:
        """Raises ServerError."""
        before = rewinds.published_up_to(stored, self._gone_back)  # a rewind only notes that it was
        found = beyond(self._settings, self._migration, before, self._noted.ends, self._go_on)
        if gtids := gtid.missing(self._noted.gtids, stored.gtid_set):
            found.gtids.add(gtids)
        if gtids or not self._noted.gtids:
            found.newest = max(found.newest, _later(self._noted.newest, stored))
        return found

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise ServerError(f"source '{self._source}': stopped while it was looked for what had been sent")

    def note(self, stored: Position, found: UnacknowledgedTransactions) -> None:
        """Before anything is sent from this position on, which is stored. found: beyond it. Raises as state writes."""
        gtids = gtid.missing(gtid.compact(found.gtids), stored.gtid_set)
        self._put(Noted(gtids, found.newest if gtids else _later(found.newest, stored), found.ends))

    def note_end(self) -> None:
        """All that was sent is acknowledged, and the position is behind it: the next run need not read it. Raises as
        `beyond` and as the state's writes."""
        with closing(PartitionReader(self._settings.kafka, f"{self._settings.group}.published")) as reader:
            _, ends = _bounds(reader, self._migration, {})
        self._put(replace(self._noted, ends=ends))

    def forget(self, connection: sa.Connection) -> None:
        """In a log that is found by time, or begun at its end, these transactions are not asked for. In the transaction
        that stores the place there."""
        self._noted = replace(self._noted, gtids="")
        unacknowledged.put(connection, self._settings.name, self._source, self._noted)

    def _put(self, noted: Noted) -> None:
        if noted != self._noted:
            self._writes.run(lambda state: unacknowledged.put(state, self._settings.name, self._source, noted))
            self._noted = noted


def _later(newest: int, stored: Position) -> int:
    """0 where the position has come as far."""
    return newest if newest > stored.event_seconds else 0
