"""What a marker asks for: rows that a foreign key changed at the source, and no log has (docs/decisions/0032).

Once the batch's own changes are written, the rows that have one of the marker's values are found at the target and
refreshed. A row that the refresh takes away, or whose referenced columns it changes, is a parent too: markers for its
children go into their partitions before it is written. While a copy of the table is open it may still bring such rows
as they were, so that the marker comes back once it is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from migrate.merge.doubt import Asked
from migrate.merge.planner import Marker, Owned, Planner, Refreshes, Share
from migrate.merge.taking import Retry
from migrate.model.change import Key
from migrate.model.message import CASCADE, Message, Received, Row
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.foreign_keys import ForeignKey
from migrate.mysql.keys import among
from migrate.mysql.values import from_server
from migrate.state.foreign import Foreign, Kind
from migrate.state.migration import Migration
from migrate.target import standing
from migrate.target.cascades import (
    Pair,
    Values,
    changed,
    conditions,
    key_in,
    markers,
    pairs_of,
    partitions,
    parts,
    select,
    values_of,
)
from migrate.target.lanes import Lanes
from migrate.target.plan import Plan, PlannedTable, TargetDatabase, TargetPool
from migrate.target.refresh import REFRESHED, SourceRows

log = structlog.get_logger("migrate.merge")
_AT_ONCE = 2_000
"""Keys that are refreshed in one transaction of a database."""
Link = tuple[PlannedTable, PlannedTable, ForeignKey]
"""A parent, its child, and how the child refers to it."""
Rows = Mapping[Key, Sequence[Row]]
"""Each key's rows: none, one, or one of each table of a group that has it."""


@dataclass(slots=True)
class Meant:
    """What the source did to rows that are found by their values; `rule` is "" where only a refresh was asked for."""

    rule: str = ""
    now: dict[tuple[tuple[str, str | None], ...], Row] = field(default_factory=dict)  # by the values they had

    @classmethod
    def by(cls, alike: Sequence[Message]) -> Meant:
        """alike: markers of one table with one rule."""
        found = cls(alike[0].sql)
        for message in alike:
            for was, now in pairs_of(message):
                found.now[tuple(was.items())] = dict.fromkeys(was) if now is None else now
        return found

    def became(self, image: Row, own: Collection[str], rows: Sequence[Row]) -> Sequence[Row | None]:
        """What became of a row that the target has; None: it went. Rather too much than too little: who refers to it
        is read again, and no more.

        own: columns by which the table is a child itself; rows: as the sources have it now.
        """
        if self.rule == "ON DELETE CASCADE":
            return [None]
        if self.rule:
            return [
                {**image, **dict.fromkeys(now), **({} if self.rule.endswith("SET NULL") else now)}
                for was, now in self.now.items()
                if all(image.get(name) == value for name, value in was)
            ] or [{**image, **now} for now in self.now.values()]
        if not rows:
            return [None]
        # One whose own parent is another may have gone, and have been inserted again.
        gone: list[Row | None] = [None] if any(row.get(name) != image.get(name) for row in rows for name in own) else []
        return [*rows, *gone]


class Waits(Protocol):
    """Keeps markers until the copy of their table is closed."""

    def put(self, partition: Partition, table: TableId, marker: Message) -> None: ...


class Cascades:
    """For one thread."""

    def __init__(
        self,
        plan: Plan,
        planner: Planner,
        sources: SourceRows,
        lanes: Mapping[str, Lanes],
        retry: Retry,
        migration: Migration,
        send: Callable[[Sequence[tuple[str, int, bytes]]], None],
        waits: Waits,
    ) -> None:
        """send: puts (topic, partition, message)s at the broker, and returns when it has them."""
        self._plan = plan
        self._planner = planner
        self._sources = sources
        self._lanes = lanes
        self._retry = retry
        self._migration = migration
        self._topics = {topic.id: topic for topic in migration.topics}
        self._send = send
        self._waits = waits
        self._at_once = plan.settings.consume.lookup_keys

    def rounds(self, batch: Sequence[Received]) -> Iterator[Sequence[Received]]:
        """A batch in pieces, to be merged one after the other.

        A row that a marker means is a parent of others as it stands where the marker does: what the batch has behind
        the marker of its table waits until the marker is settled.
        """
        pieces: list[list[Received]] = [[]]
        now: dict[Partition, int] = {}  # the piece that a partition has come to
        marked: dict[Partition, set[TableId]] = {}
        for item in batch:
            message, partition = item.message, item.partition
            id_ = (message.source, message.database, message.table)
            if message.cascade:
                if self._planner.layouts.has_children(id_):
                    marked.setdefault(partition, set()).add(id_)
            elif id_ in marked.get(partition, ()):
                now[partition] = now.get(partition, 0) + 1
                marked.pop(partition)
                if now[partition] == len(pieces):
                    pieces.append([])
            pieces[now.get(partition, 0)].append(item)
        yield from pieces

    def leads_on(self, planned: PlannedTable) -> bool:
        """Whether a refresh of the table may change rows of others: it waits until the batch is written then."""
        return any(self._silent(planned))

    def _silent(self, planned: PlannedTable) -> Iterator[PlannedTable]:
        """The tables of a group that have children, and whose sources do not log cascades."""
        for one in self._plan.members(planned):
            if self._planner.layouts.has_children(one.table.id) and not self._sources.logs_cascades(one.table.source):
                yield one

    def found(self, share: Share, late: Refreshes) -> Iterator[tuple[PlannedTable, Asked, Meant]]:
        """What to refresh once a share's own parts are written: the keys that its markers mean, and `late`; with what
        the source did to their rows."""
        for planned, asked in late.values():
            yield from _slices(planned, asked, Meant())
        alike: dict[tuple[TableId, str], list[Marker]] = {}
        for marker in share.markers:
            if not marker.message.standby:
                alike.setdefault((marker.planned.table.id, marker.message.sql), []).append(marker)
        for some in alike.values():
            keys, is_open = self._find(share.owned, some)
            for planned, message in some if is_open else ():
                self._waits.put(share.owned.partition, planned.table.id, message)
            yield from _slices(some[0].planned, dict.fromkeys(keys), Meant.by([message for _, message in some]))

    def foreign(self, share: Share) -> list[Foreign]:
        """The keys that markers speak of whose parents were written at a standby side: carried by nobody, either."""
        found = []
        for marker in share.markers:
            if marker.message.standby:
                id_, at = marker.planned.table.id, marker.message.coordinate
                keys, _ = self._find(share.owned, [marker])
                found += [Foreign(id_, key, Kind.FOREIGN, at) for key in keys]
        return found

    # -- the rows that a marker means

    def _find(self, owned: Owned, some: Sequence[Marker]) -> tuple[list[Key], bool]:
        """Keys of the partition with values that markers of a table name; and whether a copy may bring more of them."""
        planned = some[0].planned
        old, new = values_of(planned, [message for _, message in some])
        keys: dict[Key, None] = {}
        is_open = False
        asked = [
            self._lanes[database.target].submit(partial(self._ask, database, planned, old))
            for database in planned.databases
        ]
        for answer in asked:
            found, open_here = answer.result()
            keys.update(dict.fromkeys(found))
            is_open = is_open or open_here
        for one in self._plan.members(planned) if new else ():
            newest = self._planner.layouts.newest(one)
            for condition in conditions(newest.table, new, self._at_once):
                keys.update(dict.fromkeys(self._sources.keys_with(newest, condition)))
        topic = self._topics[owned.partition.topic_id]
        ours = [key for key in keys if planned.partition(key, topic.partitions) == owned.partition.number]
        if ours:
            log.info("rows changed by a foreign key", table=planned.table.full_name, keys=len(ours))
        return ours, is_open

    def _ask(
        self, database: TargetDatabase, planned: PlannedTable, wanted: Values, pool: TargetPool
    ) -> tuple[list[Key], bool]:
        """Keys of rows in a database that have one of some values, and whether a copy of the table is open there."""

        def ask() -> tuple[list[Key], bool]:
            connection = pool.get(database)
            # Before the rows: what a copy that is closed has inserted is seen then.
            closed = standing.read(connection, self._migration.name).closed
            is_open = not {one.table.id for one in self._plan.members(planned)} <= closed
            found: list[Key] = []
            for condition in conditions(planned.table, wanted, self._at_once):
                rows = select(connection, planned.table.key, planned, database, condition)
                found += [key_in(planned.table, raw) for raw in rows]
            return found, is_open

        result: tuple[list[Key], bool] = self._retry(pool, database, ask)
        return result

    # -- the children of the rows that it changes

    def lead_on(self, planned: PlannedTable, keys: Sequence[Key], meant: Meant, rows: Rows) -> None:
        """Send markers for the children of rows that are about to be refreshed. rows: as the sources have them now."""
        links = [(one, *link) for one in self._silent(planned) for link in self._planner.layouts.children(one)]
        if not links:
            return
        own = self._planner.layouts.own_columns(planned)
        images = self._images(planned, keys, {*own, *(name for _, _, key in links for name in key.referenced)})
        made: list[tuple[str, int, bytes]] = []
        for parent, child, key in links:
            pairs = []
            for name, image in images:
                became = meant.became(image, own, rows.get(name, ()))
                pairs += [pair for row in became if (pair := changed(key, image, row)) is not None]
            made += self._markers(parent, child, key, pairs)
        if made:
            self._send(made)

    def _markers(
        self, parent: PlannedTable, child: PlannedTable, key: ForeignKey, pairs: Sequence[Pair]
    ) -> Iterator[tuple[str, int, bytes]]:
        at, settings = REFRESHED, self._plan.settings
        base = Message(
            "", "", CASCADE, (), parent.table.source, at.incarnation, at.file, at.transaction, (),
            ts=int(time.time() * 1000),
        )  # fmt: skip
        topic = self._migration.topic(child.topic or settings.topic)
        for value in markers(child.table, base, key, 0, enumerate(pairs), settings.kafka.max_message_bytes):
            for number in partitions(child, topic.partitions):
                yield topic.name, number, value

    def _images(self, planned: PlannedTable, keys: Sequence[Key], wanted: Collection[str]) -> list[tuple[Key, Row]]:
        """Columns of some rows, as the target has them."""
        names = tuple(sorted({*wanted} & planned.table.by_name.keys()))
        asked = [
            self._lanes[database.target].submit(partial(self._ask_images, database, planned, keys, names))
            for database in planned.databases
        ]
        return [one for answer in asked for one in answer.result()]

    def _ask_images(
        self,
        database: TargetDatabase,
        planned: PlannedTable,
        keys: Sequence[Key],
        names: tuple[str, ...],
        pool: TargetPool,
    ) -> list[tuple[Key, Row]]:
        table = planned.table
        exact, width = table.key_is_exact, len(table.key)
        readers = [from_server(table.by_name[name]) for name in names]

        def ask() -> list[tuple[Key, Row]]:
            connection = pool.get(database)
            found = []
            for part in parts(keys, self._at_once if exact else 1):
                for raw in select(connection, (*table.key, *names), planned, database, among(table, part)):
                    values = [read(value) for read, value in zip(readers, raw[width:], strict=True)]
                    key = key_in(table, raw[:width]) if exact else part[0]
                    found.append((key, dict(zip(names, values, strict=True))))
            return found

        result: list[tuple[Key, Row]] = self._retry(pool, database, ask)
        return result


def _slices(planned: PlannedTable, asked: Asked, meant: Meant) -> Iterator[tuple[PlannedTable, Asked, Meant]]:
    for part in parts([*asked], _AT_ONCE):
        yield planned, {key: asked[key] for key in part}, meant
