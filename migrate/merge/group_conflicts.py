"""Keys of groups on which no message has the last word (invariants refresh-settles-doubt, sources-never-compare).

Tables of a group share their places, and changes of two sources have no order. So a key that a change takes away from a
place, or that one batch changes at more than one table, is refreshed behind the batch's own changes: all tables of the
group are asked who has it (docs/decisions/0018). Where the sources' rule is known, those alone are asked that changed
the key; its row at the target tells which others (docs/decisions/0044).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.model.table import TableId
from migrate.target.routing import Place, PlannedTable


@dataclass(frozen=True, slots=True)
class Doubt:
    """Of a key that is to be read at its sources again.

    places: those that may be wrong; None: any. tables: those that its changes came from. everywhere: whether each table
    of the group is asked, as its row may be where it does not belong.
    """

    places: frozenset[Place] | None = None
    tables: frozenset[TableId] = frozenset()
    everywhere: bool = False

    def and_more(self, other: Doubt) -> Doubt:
        """Both in one."""
        anywhere = self.places is None or other.places is None
        places = None if anywhere else (self.places or frozenset()) | (other.places or frozenset())
        # A request that names no table speaks of the key wherever it is.
        everywhere = self.everywhere or other.everywhere or bool(self.tables) != bool(other.tables)
        return Doubt(places, self.tables | other.tables, everywhere)


Asked = dict[Key, Doubt]
"""Keys to be read at their sources again, in the order they came."""


@dataclass(slots=True)
class _Touched:
    tables: set[TableId] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)
    left: bool = False
    misplaced: bool = False


class GroupConflicts:
    """What one partition's share of a batch says of keys of groups."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[PlannedTable, dict[Key, _Touched]]] = {}

    def note(
        self, planned: PlannedTable, key: Key, left: Place | None, reached: Place | None, *, misplaced: bool = False
    ) -> None:
        """A change of a table took a key's row away from one place, and wrote it at the other.

        misplaced: it is of a row that does not belong to that table.
        """
        if not misplaced and planned.key_tells_home:
            return  # no other table has changes of the key: the last one is the last word
        touched = self._groups.setdefault(planned.group, (planned, {}))[1].setdefault(key, _Touched())
        touched.tables.add(planned.table.id)
        touched.places.update(place for place in (left, reached) if place is not None)
        touched.left |= left is not None
        touched.misplaced |= misplaced

    def settle(self) -> Iterator[tuple[PlannedTable, Asked]]:
        """Of each group one table, and its keys in doubt."""
        for planned, keys in self._groups.values():
            mixed = len({id_ for touched in keys.values() for id_ in touched.tables}) > 1
            # Where only the server can tell which keys are one, those of two tables may be.
            all_of_them = mixed and not planned.table.key_is_exact
            asked: Asked = {
                key: Doubt(
                    None if all_of_them else frozenset(touched.places),
                    frozenset(touched.tables),
                    touched.misplaced or all_of_them,
                )
                for key, touched in keys.items()
                if touched.left or touched.misplaced or len(touched.tables) > 1 or all_of_them
            }
            if asked:
                yield planned, asked
