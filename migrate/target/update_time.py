"""The update-time filter of a table (`tables[].update_time`): which changes it skips. No I/O.

Order decides, and this only filters (docs/decisions/0050): until a table is copied and caught up, a row at the target
that is newer by the column is kept, and its key is refreshed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from migrate.model.change import NoChange
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ConfigError
from migrate.model.table import Column, Kind, Table
from migrate.target.decide import Intent

_TIMES = frozenset({Kind.DATETIME, Kind.TIMESTAMP})
_DIGITS = 6
"""Of the longest fraction of a second that a server keeps."""


class UpdateTimeError(ConfigError):
    """The named column tells no order of a table's changes."""


def checked(name: str | None, table: Table) -> str | None:
    """The column's name, as it is. Raises UpdateTimeError where changes of a table cannot be filtered by it."""
    if name is None:
        return None
    what = f"tables: {table.full_name}: update_time: "
    column = table.by_name.get(name)
    if column is None:
        raise UpdateTimeError(
            f"{what}'{name}' is not a column of the table",
            hint=f"its columns: {', '.join(table.by_name)}; or leave update_time out",
        )
    why = ""
    if name in table.key:
        why = "is part of the key, so that a row never changes it"
    elif column.generated:
        why = "is generated: the target computes it by itself"
    elif column.kind not in _TIMES and column.kind is not Kind.INT:
        why = "cannot be compared as a time"
    if why:
        told = f"{what}{column.titled} {why}"
        raise UpdateTimeError(
            told, hint="name a DATETIME, a TIMESTAMP or an integer outside of the key; or leave update_time out"
        )
    return name


def is_older(column: Column, mine: str | None, theirs: str | None) -> bool:
    """Whether a value of a change is below that of a row, as the server orders them; no NULL is.

    mine, theirs: canonical texts (docs/messages.md); of times in UTC, with as many digits as their column has.
    """
    if mine is None or theirs is None:
        return False
    if column.kind is Kind.INT:
        return int(mine) < int(theirs)
    return _padded(mine) < _padded(theirs)


def _padded(text: str) -> str:
    """A time with all digits that a fraction has: a target's column may have more than the source's."""
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<{_DIGITS}}"


@dataclass(frozen=True, slots=True)
class UpdateTimeFilter:
    """Of one table in one target database. end: where its source's log ended when its copy did; None: it has not."""

    column: Column
    end: Coordinate | None

    def skips(self, intent: Intent, there: str | None) -> bool:
        """Whether a change is not written over a row. there: what the row, which is locked, has in the column."""
        if intent.row is None or isinstance(intent.origin, NoChange) or not self._is_before_end(intent.coordinate):
            return False  # what was read at the source is as new as its row
        return is_older(self.column, intent.row.get(self.column.name), there)

    def _is_before_end(self, at: Coordinate) -> bool:
        """A copy that has not ended has all that comes now before its end. A message of Canal has no place in the log
        (incarnation 0)."""
        return self.end is None or (at.incarnation > 0 and at[:3] < self.end[:3])
