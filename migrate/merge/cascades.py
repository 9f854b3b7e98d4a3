"""What a marker asks for: rows that a foreign key changed at the source, and no log has (docs/decisions/0032).

Once the batch's own changes are written, the rows that have one of the marker's values are found at the target and
refreshed. A row that goes, or whose referenced columns change, is a parent too: markers for its children are noted in
the state before it is written, and sent once the children's own changes from before are in their partitions. So is the
marker itself while a copy of the table is open, which may still bring such rows as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import structlog

from migrate.merge.group_conflicts import Asked, Doubt
from migrate.merge.marker_effect import MarkerEffect
from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Folded, Marker, Share
from migrate.merge.table_versions import Layouts
from migrate.merge.target_rows import TargetRows
from migrate.merge.target_sessions import TargetSessions
from migrate.merge.unlogged_changes import by_key, unlogged
from migrate.model.change import Change, Key, NoChange, stored
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import CASCADE, Message, Received, Row
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.foreign_keys import ForeignKey
from migrate.state.foreign import ForeignWrite, Kind
from migrate.state.migration import Migration
from migrate.state.pending_markers import GENERATIONS, PendingMarkers
from migrate.target.cascades import (
    Pair,
    Values,
    conditions,
    markers,
    pair,
    values_of,
)
from migrate.target.refresh import SourceRows
from migrate.target.routing import Plan, PlannedTable
from migrate.target.rows import slices

log = structlog.get_logger("migrate.merge")
_AT_ONCE = 2_000
"""Keys that are refreshed in one transaction of a database."""
T = TypeVar("T")
Link = tuple[PlannedTable, PlannedTable, ForeignKey]
"""A parent, its child, and how the child refers to it."""
Rows = Mapping[Key, Sequence[Row]]
"""Each key's rows: none, one, or one of each table of a group that has it."""


class Cascades:
    """For one thread."""

    def __init__(
        self,
        plan: Plan,
        layouts: Layouts,
        sources: SourceRows,
        targets: TargetSessions,
        migration: Migration,
        waits: PendingMarkers,
    ) -> None:
        self._plan = plan
        self._layouts = layouts
        self._sources = sources
        self._rows = TargetRows(plan, targets, migration.name)
        self._topics = {topic.id: topic for topic in migration.topics}
        self._waits = waits
        self._at_once = plan.settings.consume.lookup_keys

    def rounds(self, batch: Sequence[Received]) -> Iterator[Sequence[Received]]:
        """A batch in pieces, to be merged one after the other.

        A row that a marker means is a parent of others as it stands where the marker does: what the batch writes of its
        table behind the marker waits until the marker is settled. So does a delete, which has markers of its own, but
        of what the log has: behind a marker that changed the row, its children are found by what it had before. Where
        the marker took the row, it was inserted again before it was deleted.
        """
        pieces: list[list[Received]] = [[]]
        now: dict[Partition, int] = {}  # the piece that a partition has come to
        marked: dict[Partition, dict[TableId, bool]] = {}  # and whether rows were changed, not only taken
        for item in batch:
            message, partition = item.message, item.partition
            id_ = (message.source, message.database, message.table)
            if message.cascade:
                if self._layouts.has_children(id_):
                    known = marked.setdefault(partition, {})
                    changes = message.sql != "ON DELETE CASCADE"
                    known.update((one, known.get(one, False) or changes) for one in self._group(id_))
            elif (changed := marked.get(partition, {}).get(id_)) is not None and (changed or message.type != "DELETE"):
                now[partition] = now.get(partition, 0) + 1
                marked.pop(partition)
                if now[partition] == len(pieces):
                    pieces.append([])
            pieces[now.get(partition, 0)].append(item)
        yield from pieces

    def _group(self, id_: TableId) -> set[TableId]:
        """A table and those of its group; itself alone where it was removed."""
        planned = self._plan.tables.get(id_)
        return {id_} if planned is None else {one.table.id for one in self._plan.members(planned)}

    def leads_on(self, planned: PlannedTable) -> bool:
        """Whether a refresh of the table may change rows of others: it waits until the batch is written then."""
        layouts = self._layouts
        return any(
            layouts.has_children(one.table.id) and not self._sources.logs_cascades(one.table.source)
            for one in self._plan.members(planned)
        )

    def _may_lead_on(self, planned: PlannedTable) -> bool:
        """As `leads_on`; so it is where the source does not tell, without which plain changes are written too."""
        try:
            return self.leads_on(planned)
        except StopError:
            return True

    def found(self, share: Share) -> Iterator[tuple[PlannedTable, Asked, MarkerEffect]]:
        """What to refresh once a share's own parts are written: the keys that its markers mean, and what is `late`.

        With what the source did to their rows.
        """
        folded = share.folded
        for planned, asked in share.late.values():
            ids = {one.table.id for one in self._plan.members(planned)}
            gone = [(key, row) for id_, key, row in folded.images if id_ in ids]
            yield from _sliced(planned, asked, MarkerEffect(gone=gone))
        alike: dict[tuple[TableId, str, int, int], list[Marker]] = {}
        for marker in folded.markers:
            if not marker.message.standby:
                layout = id(marker.planned.table)
                which = marker.planned.table.id, marker.message.sql, marker.message.id, layout
                alike.setdefault(which, []).append(marker)
        for some in alike.values():
            keys, is_open = self._find(folded.owned, some)
            if is_open:
                alone = [(planned.table.id, message) for planned, message in some]
                self._waits.put(folded.owned.partition, alone, copied=True)
            newest = self._layouts.newest(some[0].planned)
            yield from _sliced(
                newest, {key: Doubt() for key in keys}, MarkerEffect.by([message for _, message in some])
            )

    def foreign(self, folded: Folded) -> list[ForeignWrite]:
        """The keys that markers speak of whose parents were written at a standby side, and those below them: carried by
        nobody, either."""
        found: list[ForeignWrite] = []
        for planned, message in folded.markers:
            if not message.standby:
                continue
            keys, _ = self._find(folded.owned, [Marker(planned, message)])
            level = [(planned, keys)]
            for _ in range(GENERATIONS):
                found += [
                    ForeignWrite(one.table.id, key, Kind.FOREIGN, message.coordinate)
                    for one, some in level
                    for key in some
                ]
                level = [(child, below) for one, some in level for child, below in self._below(one, some) if below]
                seen = {(one.id, one.key) for one in found}
                level = [(one, [key for key in some if (one.table.id, key) not in seen]) for one, some in level]
        return found

    def _below(self, planned: PlannedTable, keys: Sequence[Key]) -> Iterator[tuple[PlannedTable, list[Key]]]:
        """Keys of the rows that refer to some, in whichever partition."""
        for _, child, key in self._links(planned) if keys else ():
            values = Values()
            for _, image in self._rows.images(planned, keys, key.referenced):
                if (made := pair(key, image, None)) is not None:
                    values.setdefault(tuple(made[0]), []).append(made[0])
            yield child, self._rows.with_values(child, values)[0]

    def _links(self, planned: PlannedTable) -> list[Link]:
        """Without those by columns that the table has no longer: others have taken their place."""
        return [
            (one, child, named)
            for one in self._plan.members(planned)
            for child, key in self._layouts.children(one)
            if (named := key.by_names_of(planned.table.by_name)) is not None
            and child.table.by_name.keys() >= {*named.columns}
        ]

    # -- the rows that a marker means

    def _find(self, owned: OwnedPartition, some: Sequence[Marker]) -> tuple[list[Key], bool]:
        """Keys of the partition with values that markers of a table name; and whether a copy may bring more of them."""
        planned = some[0].planned
        old, new = values_of(planned, [message for _, message in some])
        topic = self._topics[owned.partition.topic_id]

        def is_ours(key: Key) -> bool:
            return planned.partition(key, topic.partitions) == owned.partition.number

        found, is_open = self._rows.with_values(planned, old, is_ours)
        keys = dict.fromkeys(found)
        for one in self._plan.members(planned) if new else ():
            newest = self._layouts.newest(one)
            for condition in conditions(newest.table, new, self._at_once):
                keys.update(dict.fromkeys(filter(is_ours, self._sources.keys_with(newest, condition))))
        if keys:
            log.info("rows changed by a foreign key", table=planned.table.full_name, keys=len(keys))
        return [*keys], is_open

    # -- the children of the rows that it changes

    def lead_on(
        self, partition: Partition, planned: PlannedTable, keys: Sequence[Key], meant: MarkerEffect, rows: Rows
    ) -> None:
        """Note markers for the children of rows of a partition that are about to be refreshed. rows: as the sources
        have them now."""
        links = self._links(planned)
        if not links or meant.generation >= GENERATIONS or not (meant.rule or self.leads_on(planned)):
            return
        own = self._layouts.own_columns(planned)
        wanted = {*own, *(name for _, _, key in links for name in key.referenced)}
        images = self._rows.images(planned, keys, wanted)
        images += [(name, row) for name, row in meant.gone if name in keys and wanted <= row.keys()]
        seen = {name for name, _ in images}
        made: list[tuple[TableId, Message]] = []
        after = self._behind(planned, meant.at if meant.rule else None)
        for parent, child, key in links:
            pairs = [
                one
                for name, image in images
                for row in meant.became(image, own, rows.get(name, ()))
                if (one := pair(key, image, row)) is not None
                and not (child.table.id == planned.table.id and meant.names(one))
            ]
            # Rows that the target has under no key yet: their children may be there by other keys, too.
            pairs += [
                (one[0], one[0])
                for name in (keys if meant.rule else ())
                for row in (rows.get(name, ()) if name not in seen else ())
                if (one := pair(key, row, None)) is not None
            ]
            made += self._markers(parent, child, key, meant.generation + 1, after(parent), pairs)
        self._waits.put(partition, made, copied=False)

    def note_unlogged(self, folded: Folded) -> None:
        """Note markers for the children of rows that the log says were another way, or not there, before its next
        changes of them: before these are written, which takes away what the children are found by.

        Raises: StopError where a target cannot be looked at.
        """
        tables: dict[TableId, tuple[PlannedTable, list[Change]]] = {}
        for planned, change in folded.of_parents:
            if planned.table.id not in tables and self._may_lead_on(planned):
                tables[planned.table.id] = self._layouts.newest(planned), []
            if planned.table.id in tables:
                tables[planned.table.id][1].append(change)
        for planned, some in tables.values():
            made: list[tuple[TableId, Message]] = []
            links, changes = self._links(planned), by_key(some)
            wanted = {*self._layouts.own_columns(planned), *(name for _, _, key in links for name in key.referenced)}
            wanted &= planned.table.by_name.keys()
            images = self._rows.images(planned, [*changes], wanted)
            told = list(unlogged(changes, images, wanted))
            after = self._behind(planned, max((change.coordinate for _, _, change in told), default=None))
            for parent, child, key in links if told else ():
                pairs = [one for row, before, _ in told if (one := pair(key, row, before)) is not None]
                made += self._markers(parent, child, key, 1, after(parent), pairs)
            self._waits.put(folded.owned.partition, made, copied=False)

    def _behind(self, planned: PlannedTable, at: Coordinate | None) -> Callable[[PlannedTable], Coordinate | None]:
        """Behind which place of its own source's log the children of a parent are looked for: that of what changed it,
        where it is of the same source; else all that this source has by now (invariant sources-never-compare)."""
        ends: dict[str, Coordinate | None] = {} if at is None else {planned.table.source: at}

        def after(parent: PlannedTable) -> Coordinate | None:
            source = parent.table.source
            if source not in ends:
                ends[source] = self._log_end(source)
            return ends[source]

        return after

    def _log_end(self, source: str) -> Coordinate | None:
        """Behind everything that a row which was read just now may have lost others by; None: nothing is published."""
        reach = self._layouts.reach(source)
        return self._sources.log_end(source, reach[0]) if reach is not None else None

    def _markers(
        self,
        parent: PlannedTable,
        child: PlannedTable,
        key: ForeignKey,
        generation: int,
        after: Coordinate | None,
        pairs: Sequence[Pair],
    ) -> Iterator[tuple[TableId, Message]]:
        at = stored(NoChange.REFRESH) if after is None else after
        base = Message(
            "", "", CASCADE, (), parent.table.source, at.incarnation, at.file, at.transaction, (),
            id=generation, ts=int(time.time() * 1000),
        )  # fmt: skip
        limit = self._plan.settings.kafka.max_message_bytes
        for marker in markers(child.table, base, key, 0, enumerate(pairs), limit):
            yield child.table.id, marker


def _sliced(
    planned: PlannedTable, asked: Asked, meant: MarkerEffect
) -> Iterator[tuple[PlannedTable, Asked, MarkerEffect]]:
    for part in slices([*asked], _AT_ONCE):
        yield planned, {key: asked[key] for key in part}, meant
