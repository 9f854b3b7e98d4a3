"""Up to where the broker acknowledged what one publisher sent (invariant fence-compares).

A topic that ends before that, or has another sender's message there, lost messages that nobody sends again by itself:
the position is behind them. Then nothing more is published, and the place is named from which to publish once more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing

import sqlalchemy as sa

from migrate.kafka.acknowledged import AcknowledgedCheck
from migrate.kafka.producer import AcknowledgedEnds, AcknowledgedLost
from migrate.kafka.reader import PartitionReader, RawMessage
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Message
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.publish.schema.following import active_again
from migrate.settings import Settings
from migrate.state import acknowledged, leading, reached
from migrate.state.database import in_transaction
from migrate.state.migration import Migration
from migrate.state.position import Position
from migrate.state.reached import BROKER, LostMessages

_FOLLOWS = (
    "applications are at the other side, and older changes would come over newer rows: nothing is published again;"
    " `migrate finish` ends the migration where they are"
)
_FIRST_BLOCK = 500  # messages read back from where a partition lost some; doubled until one of the source is met


class Acknowledged:
    """Of one publisher."""

    def __init__(
        self, settings: Settings, source: str, migration: Migration, state: sa.Engine, stop: threading.Event
    ) -> None:
        self._stop = stop
        self._settings = settings
        self._source = source
        self._state = state
        self._names = migration.topic_names
        self._ids = {name: id_ for id_, name in self._names.items()}
        with state.connect() as connection:
            found = acknowledged.load(connection, settings.name, source)
        known = {part: end for part, end in found.items() if part.topic_id in self._names}
        self.ends = AcknowledgedEnds({(self._names[part.topic_id], part.number): end for part, end in known.items()})
        """For the producers."""
        self._group = f"{settings.group}.acknowledged"
        self._kept = AcknowledgedCheck(settings.kafka, self._group, self.ends, source, stop)

    def looking(self) -> AbstractContextManager[None]:
        """Compare while the block publishes; its producers raise AcknowledgedLost."""
        return self._kept.looking(self._settings.consume.compare_seconds)

    def look(self) -> None:
        """Compare now, as far as the broker answers."""
        self._kept.try_to_look()

    def refuse_lost(self, position: Position) -> None:
        """Before anything is sent. Raises AcknowledgedLost where the broker lost messages that were not published again
        since; ServerError."""
        with self._state.connect() as connection:
            cuts = acknowledged.cuts(connection, self._settings.name, self._source)
        self._kept.look()
        if self.ends.lost:
            cuts.update({part: cut for part, cut in self.note().items() if part not in cuts})
        if not cuts:
            return
        with closing(PartitionReader(self._settings.kafka, self._group)) as reader:
            part, cut = next(iter(cuts.items()))
            topic = self._names[part.topic_id]
            raise AcknowledgedLost(
                topic, part.number, cut, self.ends.all[topic, part.number], hint=self._hint(reader, cuts, position)
            )

    def note(self) -> dict[Partition, int]:
        """Keep that partitions lost messages: they may have others in their places when somebody looks again. Returns
        where each ended, or before that."""
        lost = {self._partition(*place): (place, *ends) for place, ends in self.ends.lost.copy().items()}

        def note(connection: sa.Connection) -> None:
            known = acknowledged.cuts(connection, self._settings.name, self._source)
            for part, ((topic, number), end, had) in lost.items():
                acknowledged.note_cut(connection, self._source, part, end, had)
                if known.get(part, end + 1) > end:  # not what was noted before
                    found = LostMessages(BROKER, f"{topic} [{number}]", end, had, had)
                    reached.note_lost(connection, self._settings.name, found)

        in_transaction(self._state, note, self._stop)
        return {part: end for part, (_, end, _) in lost.items()}

    def changed(self) -> dict[Partition, int]:
        """What was acknowledged since that was `stored`: to be stored with the position that follows from it."""
        self._taken = self.ends.changed()
        return {self._partition(*place): end for place, end in self._taken.items()}

    def stored(self) -> None:
        """What `changed` gave last is in the state."""
        self.ends.stored(self._taken)

    def _partition(self, topic: str, number: int) -> Partition:
        return Partition(self._settings.name, self._ids[topic], number)

    def _hint(self, reader: PartitionReader, cuts: Mapping[Partition, int], position: Position) -> str:
        """Where to publish again from: before everything that was lost. A stream that follows does not."""
        with self._state.connect() as connection:
            if not leading.leads(connection, self._settings.name):
                return _FOLLOWS
        places = [self._before(reader, part, cut, position) for part, cut in cuts.items()]
        again = f"`migrate publish --source {self._source} --from …`, then a verification"
        known = [place for place in places if place is not None]
        if len(known) == len(places):
            with self._state.connect() as connection:
                again_active = active_again(connection, self._settings.name, self._source, position.server)
            first = min(known)
            if again_active is not None and again_active.incarnation == first.incarnation:
                first = max(first, again_active)  # what was before it had come to the targets
            again = again.replace("…", f"{position.file.rpartition('.')[0]}.{first.file:06}:{first.transaction}")
            return f"publish again what they held: {again}"
        return (
            f"publish again from the first place that this migration published, or the oldest that the log has: {again}"
        )

    def _before(self, reader: PartitionReader, part: Partition, cut: int, position: Position) -> Coordinate | None:
        """A place of the log behind which is everything that a partition lost: its last message of the source that the
        broker still has; what it sent behind its position, and was not acknowledged, may stand in their places. None
        where it has none."""
        topic = self._names[part.topic_id]
        low, high = reader.bounds(topic, part.number)
        end, size = min(cut, high), _FIRST_BLOCK
        while end > low:
            start = max(low, end - size)
            block = [_decoded(raw) for raw in reader.between(topic, part.number, start, end)]
            ours = [one.coordinate for one in block if one and one.source == self._source and one.from_log]
            if before := [one for one in ours if one < position.coordinate]:
                found = max(before)
                return found if found.incarnation == position.incarnation else None
            end, size = start, size * 2
        return None


def _decoded(raw: RawMessage) -> Message | None:
    """None for a message that is none, which a person may have left out."""
    try:
        return decode(raw.value, raw.where, raw.offset)
    except StopError:
        return None
