"""One partition's share of a batch, as each step of a merge leaves it to the next: folded, resolved, planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from migrate.merge.fold import Fold
from migrate.merge.group_conflicts import Asked
from migrate.merge.owned import OwnedPartition
from migrate.model.change import Change, Key
from migrate.model.coordinate import Coordinate
from migrate.model.message import Message, Row
from migrate.model.table import TableId
from migrate.state.foreign import ForeignWrite
from migrate.state.record import Consumed
from migrate.target.part import Part
from migrate.target.place import ReturnedDelete
from migrate.target.refresh import HeldRows
from migrate.target.routing import Place, PlannedTable, TargetDatabase

Parts = dict[TargetDatabase, Part]
CameBack = dict[tuple[Place, TableId], tuple[PlannedTable, list[ReturnedDelete]]]
Refreshes = dict[TableId, tuple[PlannedTable, Asked]]
"""By table, or group."""
Held = Mapping[TableId, frozenset[Key]]
"""Keys by table, or group."""


class Marker(NamedTuple):
    """Of values that rows of a table lost by a foreign key."""

    planned: PlannedTable
    message: Message


@dataclass(frozen=True, slots=True)
class Folded:
    """What its messages say."""

    owned: OwnedPartition
    fold: Fold  # what each place shall hold
    consumed: Consumed  # what is consumed once the databases have it
    refreshes: Refreshes = field(default_factory=dict)  # of which no message has the last word
    returned: CameBack = field(default_factory=dict)
    foreign: Sequence[ForeignWrite] = ()  # written while the side was standby: listed, and carried nowhere
    markers: Sequence[Marker] = ()  # whose rows are to be found once the parts are written
    images: Sequence[tuple[TableId, Key, Row]] = ()  # rows to be refreshed that made way, as the target had them
    repeats: int = 0  # changes that were merged before
    of_parents: Sequence[tuple[PlannedTable, Change]] = ()  # whose rows may have changed without the log


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sources have of keys of a table, or of its group."""

    planned: PlannedTable
    asked: Asked
    rows: Mapping[Key, HeldRows]
    versions: Mapping[TargetDatabase, int]  # of roles, from before the rows were read
    tables: Mapping[Key, frozenset[TableId] | None] = field(default_factory=dict)  # that were asked; None: all
    unread: Mapping[Key, TableId] = field(default_factory=dict)  # that only a lost server may have

    @property
    def rows_by_key(self) -> dict[Key, list[Row]]:
        """None, one, or one of each table of the group that has it."""
        return {key: [row for _, row in held] for key, held in self.rows.items()}


@dataclass(frozen=True, slots=True)
class Resolved:
    """And what the sources have of the keys on which no message has the last word."""

    folded: Folded
    answers: Sequence[Answer] = ()
    late: Refreshes = field(default_factory=dict)  # what is to be read once the parts are written
    held: Held = field(default_factory=dict)  # those of them whose changes are not written: what is read decides


class Marks(NamedTuple):
    """What a part says its database has, once it is written: how far the partition, and each source's changes; None:
    no further than before."""

    end: int
    highest: Mapping[str, Coordinate | None]


@dataclass(frozen=True, slots=True)
class Share:
    """What each database gets."""

    folded: Folded
    parts: Parts
    late: Refreshes = field(default_factory=dict)
    holds: bool = False  # changes wait for what is read late; the fence is raised behind it, so that each try asks

    @property
    def consumed(self) -> Consumed:
        return self.folded.consumed

    @property
    def unfinished(self) -> bool:
        """Whether more is to be written once the parts are."""
        return bool(self.folded.markers or self.late)

    @property
    def marks(self) -> Marks:
        """Of its parts. While more is to be written they say less: what is still to come may be lost without it."""
        consumed = self.consumed
        if not self.unfinished:
            return Marks(consumed.end, consumed.highest)
        return Marks(consumed.start, dict.fromkeys(consumed.highest) if self.holds else consumed.highest)

    @property
    def marks_at_end(self) -> Marks:
        """Of the part that ends it in a database, and has no changes: those that were held back are written by then."""
        return Marks(self.consumed.end, self.consumed.highest if self.holds else {})
