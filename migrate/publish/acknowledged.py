"""Up to where the broker acknowledged what one publisher sent (rule "fence compares").

A topic that ends before that lost messages that nobody sends again by itself: the position is behind them. Then nothing
more is published, and the place is named from which to publish once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.kafka.producer import AcknowledgedLost, Ends
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model.partition import Partition
from migrate.settings import Settings
from migrate.state import acknowledged, record
from migrate.state.migration import Migration
from migrate.state.position import Position


class Acknowledged:
    """Of one publisher."""

    def __init__(self, settings: Settings, source: str, migration: Migration, state: sa.Engine) -> None:
        self._settings = settings
        self._source = source
        self._state = state
        self._names = migration.topic_names
        self._ids = {name: id_ for id_, name in self._names.items()}
        with state.connect() as connection:
            found = acknowledged.load(connection, settings.name, source)
        known = {part: end for part, end in found.items() if part.topic_id in self._names}
        self.ends = Ends({(self._names[part.topic_id], part.number): end for part, end in known.items()})
        """For the producers."""

    def refuse_lost(self, position: Position) -> None:
        """Before anything is sent. Raises AcknowledgedLost where the broker has less by now; ServerError."""
        lost: list[tuple[str, int, int]] = []
        with closing(PartitionReader(self._settings.kafka, f"{self._settings.group}.acknowledged")) as reader:
            for (topic, number), end in self.ends.all.items():
                try:
                    _, high = reader.bounds(topic, number)
                except NoSuchTopic:  # told where topics are looked at
                    continue
                if high < end:
                    lost.append((topic, number, high))
        if lost:
            topic, number, high = lost[0]
            raise AcknowledgedLost(
                topic,
                number,
                high,
                self.ends.all[topic, number],
                hint=f"publish again what they held: `migrate publish --source {self._source} --from"
                f" {self._place([self._partition(*one[:2]) for one in lost], position)}`, then a verification",
            )

    def changed(self) -> dict[Partition, int]:
        """What was acknowledged since this was asked last: to be stored with the position that follows from it."""
        return {self._partition(*place): end for place, end in self.ends.changed().items()}

    def _partition(self, topic: str, number: int) -> Partition:
        return Partition(self._settings.name, self._ids[topic], number)

    def _place(self, parts: Sequence[Partition], position: Position) -> str:
        """In the log, a place before everything that was lost: behind it the targets have all of these partitions."""
        with self._state.connect() as connection:
            marks = [record.watermarks(connection, part).get(self._source) for part in parts]
        known = [mark for mark in marks if mark is not None and mark.incarnation == position.incarnation]
        if len(known) < len(parts):
            return "the place where it began first"
        base = position.file.rpartition(".")[0]
        first = min(known)
        return f"{base}.{first.file:06}:{first.transaction}"
