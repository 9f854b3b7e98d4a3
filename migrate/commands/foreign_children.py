"""Rows of the active side that refer to one that `migrate foreign carry` takes away or changes there.

A side may have no foreign keys of its own (docs/decisions/0009): nothing else would keep such rows from being left
without the one that they refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from migrate.model.change import Key, key_json
from migrate.model.errors import Code, StopError
from migrate.model.message import Row
from migrate.model.table import TableId
from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.foreign_keys import ForeignKey
from migrate.mysql.keys import among
from migrate.mysql.values import from_server
from migrate.target.cascades import Pair, Values, conditions, key_in, pair, select
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

_AT_ONCE = 200


class Children:
    """Of a stream whose targets are the active side. For one thread."""

    def __init__(
        self,
        plan: Plan,
        keys: Mapping[TableId, Sequence[ForeignKey]],
        session: Callable[[TargetDatabase], Connection],
    ) -> None:
        """keys: by child, the foreign keys of the stream's source; session: at a target database."""
        self._plan = plan
        self._keys = keys
        self._session = session

    def refuse_left_behind(self, planned: PlannedTable, key: Key, row: Row | None, carried: Collection[object]) -> None:
        """Raise StopError where rows would refer to what is gone. row: as it is to be at the active side; carried: the
        (table, key) of what is carried too. Raises ServerError."""
        for child, foreign_key in self._links(planned):
            for was, _ in self._pairs(planned, key, row, foreign_key):
                left = [one for one in self._with(child, was) if (child.table.id, one) not in carried]
                if left:
                    raise _left(planned, key, child, foreign_key.name, left)

    def _links(self, planned: PlannedTable) -> Iterator[tuple[PlannedTable, ForeignKey]]:
        source, database, name = planned.table.id
        for id_, keys in self._keys.items():
            child = self._plan.tables.get(id_)
            if child is None or id_[0] != source:
                continue
            for one in keys:
                named = one.by_names_of(planned.table.by_name) if one.parent == (database, name) else None
                if named is not None and child.table.by_name.keys() >= {*named.columns}:
                    yield child, named

    def _pairs(self, planned: PlannedTable, key: Key, row: Row | None, foreign_key: ForeignKey) -> Iterator[Pair]:
        """What rows may refer to, where the row has it at the active side and is not to have it any more."""
        names = foreign_key.referenced
        readers = [from_server(planned.table.by_name[name]) for name in names]
        for database in planned.databases:
            with explained(f"target '{database.target}'"):
                found = list(select(self._session(database), names, planned, database, among(planned.table, [key])))
            for one in found:
                before = {name: read(value) for name, read, value in zip(names, readers, one, strict=True)}
                if (made := pair(foreign_key, before, row)) is not None:
                    yield made

    def _with(self, child: PlannedTable, was: Row) -> list[Key]:
        values = Values()
        values[tuple(was)] = [was]
        found: list[Key] = []
        for database in child.databases:
            with explained(f"target '{database.target}'"):
                for condition in conditions(child.table, values, _AT_ONCE):
                    rows = select(self._session(database), child.table.key, child, database, condition)
                    found += [key_in(child.table, raw) for raw in rows]
        return found


def _left(planned: PlannedTable, key: Key, child: PlannedTable, name: str, left: Sequence[Key]) -> StopError:
    theirs, keys = child.table.full_name, " ".join(f"'{key_json(one)}'" for one in left[:3])
    return StopError(
        f"{theirs}: {counted(len(left), 'row')} of the active side ({keys}) would refer to no row (foreign key {name}):"
        f" {planned.table.full_name} key {key_json(key)} is to go or to change there",
        hint=f"carry those rows too, in this command or before (`migrate foreign carry {theirs} {keys}`, or `--all`);"
        " those that are not listed, delete or move at the active side; or `migrate foreign discard` this one",
        code=Code.KEY,
    )
