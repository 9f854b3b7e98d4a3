"""Keys of groups on which no message has the last word (invariants refresh-settles-doubt, sources-never-compare).

Tables of a group share their places, and changes of two sources have no order. So a key that a change takes away from a
place, or that one batch changes at more than one table, is refreshed behind the batch's own changes: all tables of the
group are asked who has it (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.model.table import TableId
from migrate.target.routing import Place, PlannedTable

Asked = dict[Key, set[Place] | None]
"""Keys to be read at their sources again, in the order they came, and the places that may be wrong; None: any."""


@dataclass(slots=True)
class _Touched:
    tables: set[TableId] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)
    left: bool = False


class GroupConflicts:
    """What one partition's share of a batch says of keys of groups."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[PlannedTable, dict[Key, _Touched]]] = {}

    def note(self, planned: PlannedTable, key: Key, left: Place | None, reached: Place | None) -> None:
        """A change of a table took a key's row away from one place, and wrote it at the other."""
        touched = self._groups.setdefault(planned.group, (planned, {}))[1].setdefault(key, _Touched())
        touched.tables.add(planned.table.id)
        touched.places.update(place for place in (left, reached) if place is not None)
        touched.left |= left is not None

    def settle(self) -> Iterator[tuple[PlannedTable, Asked]]:
        """Of each group one table, and its keys in doubt."""
        for planned, keys in self._groups.values():
            mixed = len({id_ for touched in keys.values() for id_ in touched.tables}) > 1
            # Where only the server can tell which keys are one, those of two tables may be.
            all_of_them = mixed and not planned.table.key_is_exact
            asked: Asked = {
                key: touched.places
                for key, touched in keys.items()
                if touched.left or len(touched.tables) > 1 or all_of_them
            }
            if all_of_them:
                asked = dict.fromkeys(asked)
            if asked:
                yield planned, asked
