"""The partitions that this consumer writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.merge.trusted_places import Place as LogFile
from migrate.model.coordinate import Coordinate
from migrate.state.record import Partition
from migrate.target.reached import Claim
from migrate.target.routing import TargetDatabase


@dataclass(slots=True)
class OwnedPartition:
    """A partition we write: by which lease, what is merged of it, and what each database has."""

    claim: Claim
    watermark: dict[str, Coordinate]  # by source, over everything merged so far (invariant repeats-by-coordinate)
    applied: dict[str, dict[TargetDatabase, Coordinate | None]] = field(default_factory=dict)  # by source
    reached: dict[TargetDatabase, int] = field(default_factory=dict)  # the offset that each has come to
    writes: dict[TargetDatabase, int] = field(default_factory=dict)  # how many transactions each has counted
    behind: dict[TargetDatabase, int] = field(default_factory=dict)  # that lost writes: the offset they had come to
    found: set[TargetDatabase] = field(default_factory=set)  # that have more than the state knows
    noted: dict[TargetDatabase, int] = field(default_factory=dict)  # of how many notes each was told

    @property
    def partition(self) -> Partition:
        return self.claim.partition

    def place(self, source: str) -> LogFile:
        """The latest of a source that was applied anywhere; of no incarnation where nothing was."""
        marks = [self.watermark.get(source), *self.applied.get(source, {}).values()]
        return max(((mark.incarnation, mark.file) for mark in marks if mark is not None), default=(0, 0))
