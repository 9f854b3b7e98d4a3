"""Folding a batch: the last change of a key at each place wins (rule 2, seed 003 §25)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from migrate.merge.doubt import Doubts
from migrate.model.change import Change, Key
from migrate.model.coordinate import Coordinate
from migrate.target.decide import Intent
from migrate.target.plan import Place, PlannedTable, TargetDatabase

Applied = Mapping[TargetDatabase, Coordinate | None]
"""What each database already has of one partition and source."""
_Planned = tuple[PlannedTable, Intent]
_Where = tuple[Place, str, str]
"""A place and the table whose rows go there: several tables may share it, each with a copy of its own."""


class Fold:
    """Collects, for each place, the state every touched key shall have.

    A change says two things: at the place its old row routed to there is no row, at the place its new row routes to
    there is this one. Kept per place with the last word winning, a row that moved s1→s2→s3 leaves a delete at s1 and
    at s2 and a write at s3. Tables whose keys only the server can compare keep every change, in order.
    """

    def __init__(self) -> None:
        self.doubts = Doubts()
        self._last: dict[_Where, dict[Key, _Planned]] = {}
        self._all: dict[_Where, list[_Planned]] = {}

    def add(self, planned: PlannedTable, changes: Sequence[Change], applied: Applied) -> None:
        """Take in changes of a table, in order, each unless its database has it already.

        Raises: StopError when no place takes a row of one; nothing is taken in then.
        """
        names = planned.rule.columns
        left = [change.before if _leaves(change, names) else None for change in changes]
        befores = iter(planned.route_all([row for row in left if row is not None]))
        afters = iter(planned.route_all([change.after for change in changes if change.after is not None]))
        for change, row in zip(changes, left, strict=True):
            after = None if change.after is None else next(afters)
            gone = None
            if row is not None and (before := next(befores)) != after:
                gone = before
                self._put(planned, gone, Intent(change.key, None, change.coordinate), applied)
            if planned.group:
                self.doubts.note(planned, change.key, gone, after)
            if after is not None:
                self._put(planned, after, Intent(change.key, change.after, change.coordinate), applied)

    def _put(self, planned: PlannedTable, place: Place, intent: Intent, applied: Applied) -> None:
        have = applied.get(place.database)
        if have is not None and intent.coordinate <= have:
            return
        where = (place, planned.table.source, planned.table.full_name)
        if not planned.table.key_is_exact:
            self._all.setdefault(where, []).append((planned, intent))
            return
        intents = self._last.setdefault(where, {})
        intents.pop(intent.key, None)  # re-inserted below, so that intents stay in coordinate order
        intents[intent.key] = planned, intent

    def places(self) -> Iterable[tuple[Place, PlannedTable, list[Intent]]]:
        """Every touched place with what it shall hold, in coordinate order; once for each table that shares it, and
        again where the table's columns changed."""
        for where, last in self._last.items():
            yield from _by_layout(where[0], last.values())
        for where, every in self._all.items():
            yield from _by_layout(where[0], every)


def _leaves(change: Change, sharding: Sequence[str]) -> bool:
    """Whether the row may have left the place where it was."""
    before, after = change.before, change.after
    return after is None or before is None or any(before.get(name) != after.get(name) for name in sharding)


def _by_layout(place: Place, intents: Iterable[_Planned]) -> Iterable[tuple[Place, PlannedTable, list[Intent]]]:
    for _, group in groupby(intents, key=lambda one: id(one[0])):
        same = list(group)
        yield place, same[0][0], [intent for _, intent in same]
