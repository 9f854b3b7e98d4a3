"""The columns each message was written with: those its table had at the message's place in the source's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.message import CANAL, Message
from migrate.model.table import Table, TableId
from migrate.mysql.foreign_keys import ForeignKey
from migrate.target.routing import Plan, PlannedTable

Since = tuple[int, int, int] | None
"""From where on in its source's log a table had these columns; None: from the beginning on."""
_NOWHERE = (0, 0, 0)  # of a marker that follows no change, and before every place in a log
_NONE: frozenset[str] = frozenset()
Timeline = list[tuple[Since, PlannedTable]]


class History(Protocol):
    """The schema history, as a consumer reads it."""

    def look(self) -> tuple[object, Mapping[TableId, Coordinate | None]]:
        """A mark that is another once anything was noted, or rules are others; and, of tables that were added or
        removed, where the messages begin that count (None: none of them does)."""
        ...

    def rules(self) -> Mapping[TableId, str]:
        """The members and their rules as the last `migrate init` noted them."""
        ...

    def begun(self, ids: Collection[TableId]) -> Collection[TableId]:
        """Those of these tables that their source's publisher has begun with, for good."""
        ...

    def reach(self, source: str) -> tuple[int, int] | None:
        """Incarnation and newest file that a source's publisher may have published; None before it began."""
        ...

    def versions(self) -> Mapping[TableId, Sequence[tuple[Coordinate | None, Table]]]:
        """Definitions of each table, each from a coordinate on (None: from the beginning on), oldest first."""
        ...

    def foreign_keys(self) -> Mapping[TableId, Sequence[ForeignKey]]:
        """Those by which a server changes rows of a table by itself."""
        ...


class Layouts:
    """Definitions by coordinate. `refresh` before each batch: what is behind a statement is published only after the
    publisher has noted what the statement made of the table, so a batch never holds a row of unknown columns.
    """

    def __init__(self, history: History | None, plan: Plan) -> None:
        self._history = history
        self._plan = plan
        self._mark: object = None
        self._timelines: dict[TableId, Timeline] = {}
        self._begins: Mapping[TableId, Coordinate | None] = {}
        self._children: dict[TableId, list[tuple[TableId, ForeignKey]]] = {}
        self._parents: dict[TableId, set[str]] = {}  # by child, its columns
        self._hiding: set[TableId] = set()
        self._group_columns: dict[str, frozenset[str]] = {}  # that any table of a group has now

    def refresh(self) -> None:
        """Read the history again if it has grown. Raises ServerError when the plan is no longer what init noted."""
        if self._history is None:
            return
        mark, self._begins = self._history.look()
        if mark == self._mark:
            return
        self._plan.refuse_outdated(self._history.rules())
        known = {id_: dict(timeline) for id_, timeline in self._timelines.items()}
        self._timelines = {}
        for id_, versions in self._history.versions().items():
            timeline: Timeline = []
            for coordinate, table in versions:
                since = None if coordinate is None else coordinate[:3]
                before = known.get(id_, {}).get(since)
                if before is None or before.table != table:
                    before = replace(self._plan.find(*id_), table=table) if self._is_planned(id_) else None
                if before is not None:
                    timeline.append((since, before))
            if timeline:
                self._timelines[id_] = timeline
        self._children, self._parents = {}, {}
        for child, keys in self._history.foreign_keys().items():
            for key in keys if self._is_planned(child) else ():
                self._children.setdefault((child[0], *key.parent), []).append((child, key))
                self._parents.setdefault(child, set()).update(key.columns)
        links = [(parent, child) for parent, found in self._children.items() for child, _ in found]
        self._hiding = {
            child
            for parent, child in links
            if child in self._children and (parent in self._parents or self._is_one_of_several(child))
        }
        columns: dict[str, set[str]] = {}
        for planned in self._plan.tables.values():
            if planned.group and planned.ddl.columns == "apply":  # then the targets have them by now
                stored = (column.name for column in self.newest(planned).table.stored)
                columns.setdefault(planned.group, set()).update(stored)
        self._group_columns = {group: frozenset(names) for group, names in columns.items()}
        self._mark = mark

    def _is_one_of_several(self, id_: TableId) -> bool:
        return len(self._plan.members(self._plan.find(*id_))) > 1

    def with_columns(self, planned: PlannedTable, marker: Message) -> PlannedTable:
        """The table as it was where a marker stands, with the columns that the marker names.

        Raises: StopError where the history has none: the rows that it means cannot be found.
        """
        timeline = self._timelines.get(planned.table.id) or [(None, planned)]
        place, wanted = marker.coordinate[:3], marker.data[0].keys()
        versions = [one for since, one in timeline if (since or _NOWHERE) < place]
        later = [one for since, one in timeline if (since or _NOWHERE) >= place]
        for one in (*reversed(versions), *reversed(later)):
            if wanted <= one.table.by_name.keys():
                return one
        raise StopError(
            f"{planned.table.full_name}: a foreign key changed rows by {', '.join(wanted)}, but no version of the"
            " table has these columns",
            hint="leave the message out, then run `migrate verify --repair`",
            code=Code.DEFINITION,
        )

    def reach(self, source: str) -> tuple[int, int] | None:
        """Incarnation and newest file that a source's publisher may have published."""
        return self._history.reach(source) if self._history is not None else None

    def has_children(self, id_: TableId) -> bool:
        """Whether the server changes rows of others by itself where rows of this table change."""
        return id_ in self._children

    def hides(self, planned: PlannedTable) -> bool:
        """Whether rows of a table, or of its group, may change by a marker that comes late, and others below them.

        Those of a parent whose own rows the log has have it behind the parent's change, where all of them are of one
        source: another one's change of the same key may come before it.
        """
        return bool(self._hiding) and any(one.table.id in self._hiding for one in self._plan.members(planned))

    def told_columns(self, planned: PlannedTable) -> tuple[str, ...]:
        """The columns of a row that goes which tell whose rows change with it; none of a table without children."""
        if not (links := self._children.get(planned.table.id)):
            return ()
        named = (key.by_names_of(planned.table.by_name) for _, key in links)
        referenced = {name for key in named if key is not None for name in key.referenced}
        return tuple(sorted({*self.own_columns(planned), *referenced}))

    def own_columns(self, planned: PlannedTable) -> Collection[str]:
        """The columns by which rows of a table, or of its group, are changed by themselves."""
        return {name for one in self._plan.members(planned) for name in self._parents.get(one.table.id, ())}

    def absent_columns(self, planned: PlannedTable) -> frozenset[str]:
        """The columns that other tables of its group have by now, and this one has not where it is read: a row of it
        may take the place of one of theirs, whose values would stay there."""
        names = self._group_columns.get(planned.group)
        return _NONE if names is None else names.difference(planned.table.by_name)

    def children(self, planned: PlannedTable) -> Sequence[tuple[PlannedTable, ForeignKey]]:
        """Tables of the migration with foreign keys to this one by which its source changes rows by itself."""
        found = self._children.get(planned.table.id, ())
        return [(self.newest(self._plan.find(*child)), key) for child, key in found]

    def _is_planned(self, id_: TableId) -> bool:
        try:
            self._plan.find(*id_)
        except StopError:
            return False
        return True

    def counts(self, message: Message) -> bool:
        """Whether a message's table was a member of the migration where it was written."""
        id_ = (message.source, message.database, message.table)
        if id_ not in self._begins:
            return True
        begin = self._begins[id_]
        asks = message.refresh or message.cascade
        return begin is not None and (asks or message.coordinate[:3] >= begin[:3])

    def refuse_unread(self, tables: Sequence[PlannedTable]) -> None:
        """Of a row that is read before its table's changes are published, what follows may never be heard.

        Raises: StopError for the first of the tables whose publisher has not begun with it.
        """
        ids = [planned.table.id for planned in tables]
        begun = ids if self._history is None else self._history.begun(ids)
        for planned in tables:
            table = planned.table
            if table.id not in begun:
                raise StopError(
                    f"group '{planned.group}': the publisher of source '{table.source}' has not begun with"
                    f" {table.full_name}, so it cannot be asked for a row",
                    hint="start it (`migrate run`, or `migrate publish --source`); this is tried again by itself",
                    code=Code.DEFINITION,
                )

    def newest(self, planned: PlannedTable) -> PlannedTable:
        """The table with its latest columns that are known."""
        timeline = self._timelines.get(planned.table.id)
        return timeline[-1][1] if timeline else planned

    def of(self, planned: PlannedTable, message: Message) -> PlannedTable:
        """The table with the columns of the message. Raises StopError when the history has none that fit."""
        table = planned.table
        timeline = self._timelines.get(table.id)
        if timeline is None or message.source == CANAL:
            return planned
        place = message.coordinate[:3]
        found = next((one for since, one in reversed(timeline) if since is None or since < place), timeline[0][1])
        if fits(found.table, message):
            return found
        for _, other in reversed(timeline):  # after a rewind the message stands before what is noted already
            if fits(other.table, message):
                return other
        raise StopError(
            f"{table.full_name} at {tuple(message.coordinate)}: a message has the columns {', '.join(message.data[0])},"
            f" the schema history has {', '.join(column.name for column in found.table.columns)}",
            hint="the publisher and the consumer must use the same state database",
            code=Code.DEFINITION,
        )


def fits(table: Table, message: Message) -> bool:
    """Whether a message's rows have exactly these columns: by their name, else of these types where it says them."""
    if message.layout:
        return message.layout == table.layout
    if message.mysql_type:  # before messages had a layout's name
        return message.mysql_type == {column.name: column.type for column in table.columns}
    return message.data[0].keys() == table.by_name.keys()
