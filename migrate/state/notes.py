"""What a merge notes in the state and no message says again, counted by partition until the messages are consumed.

Keys that are carried nowhere and markers of foreign keys are committed before the consumed prefix moves. A state that
loses its last commits in between loses them alone; the count is compared where the prefix moves (`record.put_back`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state import record


class Notes:
    """Of one consumer, which holds the partitions' leases. For any thread."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any]) -> None:
        """run: runs an action in a transaction of the state database."""
        self._run = run
        self._turn = threading.Lock()
        self._epochs: dict[Partition, int] = {}
        self._counts: dict[Partition, int] = {}

    def taken(self, partition: Partition, epoch: int) -> None:
        """What was noted under an earlier lease is compared no more: others may have noted something since."""
        with self._turn:
            if self._epochs.get(partition) != epoch:
                self._epochs[partition] = epoch
                self._counts.pop(partition, None)

    def count(self, partition: Partition) -> int | None:
        """How many notes the state must have of a partition; None where nothing was noted under its lease."""
        return self._counts.get(partition)

    def write(self, partitions: Collection[Partition], action: Callable[[sa.Connection], None]) -> None:
        """Run `action` in a transaction that counts a note of each of these partitions.

        A state that has another count was put back: nothing is counted, so that it is found where the prefix moves.
        """

        def counted(connection: sa.Connection) -> dict[Partition, int]:
            found = record.notes(connection, partitions)
            counts = {
                part: known + 1
                for part in partitions
                # One more is this transaction itself, whose commit was not heard of.
                if found[part] in ((known := self._counts.get(part, found[part])), known + 1)
            }
            record.set_notes(connection, counts)
            action(connection)
            return counts

        with self._turn:
            self._counts.update(self._run(counted))
