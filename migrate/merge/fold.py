"""Folding a batch: the last change of a key at each place wins (invariant per-key-order)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from migrate.merge.group_conflicts import GroupConflicts
from migrate.model.change import Change, Key
from migrate.model.coordinate import Coordinate
from migrate.target.decide import Intent
from migrate.target.routing import Place, PlannedTable, TargetDatabase

Applied = Mapping[TargetDatabase, Coordinate | None]
"""What each database already has of one partition and source."""
_Planned = tuple[PlannedTable, Intent]
_Where = tuple[Place, str, str]
"""A place and the table whose rows go there: several tables may share it, each with a copy of its own."""


@dataclass(slots=True)
class _Held:
    """What shall be at a place, of a table: the last word on each key, or all where the server alone compares."""

    last: dict[Key, _Planned] = field(default_factory=dict)
    every: list[_Planned] = field(default_factory=list)


class Fold:
    """Collects, for each place, the state every touched key shall have.

    A change says two things: at the place its old row routed to there is no row, at the place its new row routes to
    there is this one. Kept per place with the last word winning, a row that moved s1→s2→s3 leaves a delete at s1 and
    at s2 and a write at s3. A broadcast table's row is at every place. Tables whose keys only the server can compare
    keep every change, in order.
    """

    def __init__(self) -> None:
        self.doubts = GroupConflicts()
        self._held: dict[_Where, _Held] = {}

    def add(self, planned: PlannedTable, changes: Sequence[Change], applied: Applied) -> None:
        """Take in changes of a table, in order, each unless its database has it already.

        A row that does not belong to its table by the sources' own rule is written nowhere: its key is asked for at
        every table of the group. Raises: StopError when no place takes a row of one; nothing is taken in then.
        """
        at = _Places(self._held, planned, applied)
        if planned.broadcast:
            for change in changes:
                for place in planned.places:
                    at.put(place, Intent(change.key, change.after, change.coordinate))
            return
        names = planned.rule.columns
        left = [change.before if _leaves(change, names) else None for change in changes]
        misplaced = _misplaced(planned, changes)
        befores = iter(planned.route_all([row for row in left if row is not None]))
        afters = iter(planned.route_all([change.after for change in changes if change.after is not None]))
        for change, row, strays in zip(changes, left, misplaced, strict=True):
            after = None if change.after is None else next(afters)
            gone = None
            if row is not None and (before := next(befores)) != after:
                gone = before
                at.put(gone, Intent(change.key, None, change.coordinate))
            if planned.group:
                self.doubts.note(planned, change.key, gone, after, misplaced=strays)
            if after is not None and not strays:
                at.put(after, Intent(change.key, change.after, change.coordinate))

    def places(self) -> Iterable[tuple[Place, PlannedTable, list[Intent]]]:
        """Every touched place with what it shall hold, in coordinate order; once for each table that shares it, and
        again where the table's columns changed."""
        for where, held in self._held.items():
            yield from _by_layout(where[0], held.last.values())
            yield from _by_layout(where[0], held.every)


class _Places:
    """The places of a table while some of its changes are taken in: what a place is asked for is looked up once."""

    def __init__(self, held: dict[_Where, _Held], planned: PlannedTable, applied: Applied) -> None:
        self._held = held
        self._planned = planned
        self._applied = applied
        self._exact = planned.table.key_is_exact
        self._known: dict[int, tuple[_Held, Coordinate | None]] = {}  # by id: a plan has one object for each place

    def put(self, place: Place, intent: Intent) -> None:
        if (known := self._known.get(id(place))) is None:
            where = (place, self._planned.table.source, self._planned.table.full_name)
            known = self._held.setdefault(where, _Held()), self._applied.get(place.database)
            self._known[id(place)] = known
        held, have = known
        if have is not None and intent.coordinate <= have:
            return
        if not self._exact:
            held.every.append((self._planned, intent))
            return
        held.last.pop(intent.key, None)  # re-inserted below, so that intents stay in coordinate order
        held.last[intent.key] = self._planned, intent


def _leaves(change: Change, sharding: Sequence[str]) -> bool:
    """Whether the row may have left the place where it was."""
    before, after = change.before, change.after
    return after is None or before is None or any(before.get(name) != after.get(name) for name in sharding)


def _misplaced(planned: PlannedTable, changes: Sequence[Change]) -> list[bool]:
    """Of each change, whether its row stood, or stands now, at a source table where it does not belong."""
    if planned.home is None:
        return [False] * len(changes)
    found = [False] * len(changes)
    images = [(at, row) for at, one in enumerate(changes) for row in (one.before, one.after) if row is not None]
    for (at, _), elsewhere in zip(images, planned.misplaced([row for _, row in images]), strict=True):
        found[at] |= elsewhere is not None
    return found


def _by_layout(place: Place, intents: Iterable[_Planned]) -> Iterable[tuple[Place, PlannedTable, list[Intent]]]:
    for _, group in groupby(intents, key=lambda one: id(one[0])):
        same = list(group)
        yield place, same[0][0], [intent for _, intent in same]
