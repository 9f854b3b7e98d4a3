"""A schema history of foreign keys alone, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from migrate.model.coordinate import Coordinate
from migrate.model.table import Table, TableId
from migrate.mysql.foreign_keys import ForeignKey


class KeysAlone:
    """No table has changed."""

    def __init__(self, keys: Mapping[TableId, Sequence[ForeignKey]]) -> None:
        """keys: by child."""
        self._keys = keys

    def look(self) -> tuple[object, Mapping[TableId, Coordinate | None]]:
        return 1, {}

    def rules(self) -> Mapping[TableId, str]:
        return {}

    def begun(self, ids: Collection[TableId]) -> Collection[TableId]:
        return ids

    def reach(self, source: str) -> tuple[int, int] | None:
        return 9, 9

    def versions(self) -> Mapping[TableId, Sequence[tuple[Coordinate, Table]]]:
        return {}

    def foreign_keys(self) -> Mapping[TableId, Sequence[ForeignKey]]:
        return self._keys
