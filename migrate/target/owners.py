"""Whose a row at a place is: the source table where it belongs, by its values there (docs/decisions/0044).

A group's changes of one key come from several tables, in no order. With the sources' own rule a delete asks one table,
the one it came from. That is enough where the row at the place is of that table, or of another one that was asked: else
that other one is asked too, and nothing is written before. Judged with the row locked (invariant locked-decision).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.model.errors import Code, StopError
from migrate.model.table import TableId
from migrate.target.home import Home
from migrate.target.routing import TargetDatabase

AskedTables = Mapping[Key, frozenset[TableId] | None]
"""The source tables that keys were asked for at; None: all of the group. A key without any is not there."""


@dataclass(slots=True)
class Missing:
    """Of one key: the places whose rows tell of the source tables to be asked for it, or of all; and the tables whose
    changes met those rows."""

    places: set[str] = field(default_factory=set)
    tables: set[TableId] = field(default_factory=set)
    everywhere: bool = False
    changed: set[TableId] = field(default_factory=set)


class RowsNotAsked(StopError):  # noqa: N818 - it says what is so
    """Rows at places are of source tables that were not asked for them; nothing was written."""

    code = Code.SOURCE

    def __init__(self, group: str, keys: Mapping[Key, Missing]) -> None:
        super().__init__(
            f"group '{group}': keys are to be asked for at further source tables", hint="they are, by itself"
        )
        self.group = group
        self.keys = keys
        self.database: TargetDatabase | None = None
        """Where the places are."""


class Owners:
    """What was asked of the keys of one group, and what was not and has to be; for one transaction."""

    def __init__(self, home: Home, asked: AskedTables) -> None:
        self.home = home
        self._asked = asked
        self.missing: dict[Key, Missing] = {}

    def judge(self, place: str, changed: TableId, rows: Mapping[Key, TableId]) -> None:
        """rows: whose the row of each key is that a change of a table, or a refresh, meets at a place."""
        for key, owner in rows.items():
            asked = self._asked.get(key, frozenset({changed}))
            if asked is not None and owner not in asked:
                self._miss(place, key, changed).tables.add(owner)

    def judge_deletes(self, place: str, changed: TableId, keys: Iterable[Key]) -> None:
        """Of keys that leave an entry in the ledger, which speaks for every table of the group."""
        for key in keys:
            if self._asked.get(key, frozenset()) is not None:
                self._miss(place, key, changed).everywhere = True

    def _miss(self, place: str, key: Key, changed: TableId) -> Missing:
        missing = self.missing.setdefault(key, Missing())
        missing.places.add(place)
        missing.changed.add(changed)
        return missing
