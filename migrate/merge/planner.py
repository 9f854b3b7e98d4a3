"""From messages to work: repeats dropped, changes folded, split by database. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from migrate.merge.defects import as_stop
from migrate.merge.fold import Applied, Fold
from migrate.merge.group_conflicts import Asked
from migrate.merge.table_versions import History, Layouts
from migrate.merge.trusted_places import Belief
from migrate.model.change import Change, Key, changes, key_json, key_of
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.message import Message, Received, Row
from migrate.model.partition import leave_out_hint, offset_name
from migrate.model.table import Table, TableId
from migrate.state.foreign import Foreign, Kind
from migrate.state.left_out_messages import Reasons
from migrate.state.record import Consumed, Partition
from migrate.state.skipped_key import Skips
from migrate.target.decide import Intent
from migrate.target.equal_keys import Alike
from migrate.target.groups import name_of
from migrate.target.part import Part, Work
from migrate.target.place import Returned
from migrate.target.reached import NOTHING, Claim
from migrate.target.refresh import REFRESHED, Held
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase
from migrate.target.rows import PlaceWriter

log = structlog.get_logger("migrate.merge")
_TAKE_ROWS = frozenset({"TRUNCATE", "ERASE", "RENAME"})
"""Canal's types of statements (CanalEntry.EventType) after which a table has other rows, or is another one."""
_OF_AN_INDEX = frozenset({"CINDEX", "DINDEX"})
Parts = dict[TargetDatabase, Part]
CameBack = dict[tuple[Place, TableId], tuple[PlannedTable, list[Returned]]]
Refreshes = dict[TableId, tuple[PlannedTable, Asked]]
"""By table, or group."""


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's share of a batch, planned."""

    owned: Owned
    parts: Parts  # what each database shall get
    consumed: Consumed  # what is consumed once they have it
    refreshes: Refreshes  # whose rows are to be added first
    foreign: Sequence[Foreign] = ()  # written while the side was standby: listed, and carried nowhere
    markers: Sequence[Marker] = ()  # whose rows are to be found once the parts are written
    images: Sequence[tuple[TableId, Key, Row]] = ()  # rows to be refreshed that made way, as the target had them
    late: Refreshes = field(default_factory=dict)  # of `refreshes`, what is to be read once the parts are written

    @property
    def unfinished(self) -> bool:
        """Whether more is to be written once the parts are."""
        return bool(self.markers or self.late)

    def after(self) -> Share:
        """What is added once the parts are written, empty as yet."""
        return Share(self.owned, {}, replace(self.consumed, end=self.consumed.start), {})

    def finish(self, databases: Iterable[TargetDatabase]) -> Parts:
        """Last of all: these databases have everything of it."""
        return {database: _nothing(self.owned, database, self.consumed.end) for database in databases}


@dataclass(slots=True)
class Owned:
    """A partition we write: by which lease, what is merged of it, and what each database has."""

    claim: Claim
    watermark: dict[str, Coordinate]  # by source, over everything merged so far (invariant repeats-by-coordinate)
    applied: dict[str, dict[TargetDatabase, Coordinate | None]] = field(default_factory=dict)  # by source
    reached: dict[TargetDatabase, int] = field(default_factory=dict)  # the offset that each has come to
    writes: dict[TargetDatabase, int] = field(default_factory=dict)  # how many transactions each has counted
    behind: dict[TargetDatabase, int] = field(default_factory=dict)  # that lost writes: the offset they had come to
    found: set[TargetDatabase] = field(default_factory=set)  # that have more than the state knows

    @property
    def partition(self) -> Partition:
        return self.claim.partition


class RowRefused(StopError):  # noqa: N818 - what it says is what happened
    """About one row of a message, which can be set aside by its key."""

    code = Code.TARGET


class Marker(NamedTuple):
    """Of values that rows of a table lost by a foreign key."""

    planned: PlannedTable
    message: Message


@dataclass(slots=True)
class _Draft:
    """What the messages of a share come to."""

    fold: Fold = field(default_factory=Fold)
    highest: dict[str, Coordinate] = field(default_factory=dict)
    returned: CameBack = field(default_factory=dict)
    refreshes: Refreshes = field(default_factory=dict)
    rows: int = 0
    event_ms: int = 0
    foreign: list[Foreign] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    images: list[tuple[TableId, Key, Row]] = field(default_factory=list)


class Planner:
    """Plans one partition's share of a batch: steps 1 to 3 of a merge."""

    def __init__(
        self,
        plan: Plan,
        history: History | None = None,
        skips: Skips | None = None,
        left_out: Reasons | None = None,
        alike: Alike | None = None,
    ) -> None:
        self._alike = alike
        self._plan = plan
        self._skips = skips
        self._left_out = left_out
        self._settings = plan.settings
        self.layouts = Layouts(history, plan)
        self._belief = Belief(history)
        self._passed_over: set[str] = set()  # as was said already
        self._writers: dict[tuple[int, Place, tuple[str, ...]], PlaceWriter] = {}

    def plan_partition(self, owned: Owned, items: Sequence[Received]) -> Share:
        """What each database shall get. `owned` is not changed.

        Raises: StopError for a message that cannot be planned.
        """
        draft = _Draft()
        for item in items:
            try:
                self._take(draft, item, owned)
            except RowRefused:
                raise
            except Exception as error:
                self._leave_out_or_raise(item, as_stop(error))
        highest = draft.highest
        start, end = items[0].offset, items[-1].offset + 1
        for planned, asked in draft.fold.doubts.settle():
            self._ask(planned, asked, draft.refreshes)
        parts: Parts = {}
        for place, planned, intents in draft.fold.places():
            if (part := parts.get(place.database)) is None:
                part = parts[place.database] = _part(owned, place.database, highest, end)
            part.work.append(Work(self._writer(planned, place), intents))
        for (place, _), (planned, came_back) in draft.returned.items():
            self._work(parts, owned, highest, end, planned, place).returned += came_back
        for database, had in owned.behind.items():
            if end >= had and database not in parts:  # nothing more of what it lost is for it
                parts[database] = _nothing(owned, database, end)
        last = items[-1].message.identity
        consumed = Consumed(owned.partition, end, highest, len(items), draft.rows, draft.event_ms, start, last=last)
        return Share(owned, parts, consumed, draft.refreshes, draft.foreign, draft.markers, draft.images)

    def _take(self, draft: _Draft, item: Received, owned: Owned) -> None:
        """One message. Raises StopError, or RowRefused when it is about one of its rows."""
        message = item.message
        if message.is_ddl and item.apply:
            self._refuse_ddl(message)
        if not item.apply or not message.data:
            return
        if not self.layouts.counts(message):
            self._pass_over(message)
            return
        self._belief.refuse_beyond(message, item.offset)
        planned = self._plan.find(message.source, message.database, message.table)
        if message.cascade:
            draft.markers.append(Marker(self.layouts.with_columns(planned, message), message))
            return
        if message.delay is not None:
            self._take_back(planned, item, draft.returned)
            return
        if message.refresh:
            self._note_refresh(planned, message, draft)
            return
        planned = self.layouts.of(planned, message)
        draft.rows += len(message.data)
        draft.event_ms = max(draft.event_ms, message.es)
        fresh = self._fresh(planned, item, owned, draft.highest)
        if message.standby:
            id_ = planned.table.id
            draft.foreign += [Foreign(id_, change.key, Kind.FOREIGN, change.coordinate) for change in fresh]
            return
        self._fold(draft.fold, planned, fresh, owned.applied.get(message.source, {}))

    def _leave_out_or_raise(self, item: Received, error: StopError) -> None:
        """A message that says nothing we could do: only a person can leave it out (invariant unknown-stops)."""
        where = item.topic, item.partition.number, item.offset
        if why := self._left_out.reason(item.partition, item.offset) if self._left_out else None:
            log.warning("a message is left out", message=offset_name(*where), refusal=error.message, reason=why)
            return
        hint = error.hint_and(leave_out_hint(*where))
        raise StopError(f"message {offset_name(*where)}: {error.message}", hint=hint, code=error.code) from None

    def _note_refresh(self, planned: PlannedTable, message: Message, draft: _Draft) -> None:
        table = planned.table
        keys: Asked = {key_of(row, table.key, table.full_name): None for row in message.data}
        self._ask(planned, keys, draft.refreshes)
        known = [row for row in message.data if len(row) > len(table.key)]
        draft.images += [(table.id, key_of(row, table.key, table.full_name), row) for row in known]

    def _ask(self, planned: PlannedTable, asked: Asked, refreshes: Refreshes) -> None:
        """Add keys that are to be read at their sources again."""
        newest = self.layouts.newest(planned)
        keys = refreshes.setdefault(planned.noted_as.id, (newest, {}))[1]
        for key, places in asked.items():
            known = keys.get(key, places)
            keys[key] = None if known is None or places is None else known | places

    def members(self, planned: PlannedTable) -> list[PlannedTable]:
        """The tables of a table's group, with their latest columns."""
        return [self.layouts.newest(one) for one in self._plan.members(planned)]

    def add_refreshed(
        self, share: Share, planned: PlannedTable, rows: Mapping[Key, Row | None], asked: Asked | None = None
    ) -> None:
        """Let places of a table hold what the source does: the row at its place, none at the others.

        asked: for each key its other places; without it, all. Raises: StopError for a row that no place takes.
        """
        intents: dict[Place, list[Intent]] = {place: [] for place in planned.places}
        for key, row in rows.items():
            home = None if row is None else self._home(planned, key, row)
            others = asked[key] if asked is not None else None
            for place in intents if others is None else others | ({home} if home is not None else set()):
                intents[place].append(Intent(key, row if home == place else None, REFRESHED))
        for place, some in intents.items():
            if some:
                done = share.consumed
                self._work(share.parts, share.owned, done.highest, done.end, planned, place).refreshed += some

    def _home(self, planned: PlannedTable, key: Key, row: Row) -> Place | None:
        try:
            return planned.route(row)
        except StopError as error:
            self._skip_or_raise(planned.table, key, error, "as its source has it")
            return None

    def add_found(self, share: Share, planned: PlannedTable, found: Mapping[Key, Held], asked: Asked) -> None:
        """Let places of a group hold what its tables do. planned: one of them.

        Raises: StopError for a row that two tables have, or that no place takes.
        """
        rows: dict[TableId, tuple[PlannedTable, dict[Key, Row | None]]] = {}
        for key, held in found.items():
            if len(held) > 1:
                names = ", ".join(name_of(one) for one, _ in held)
                told = StopError(
                    f"a key may be in only one table of group '{planned.group}', and this one is in {names}",
                    hint="delete it where it does not belong; the partition then continues by itself",
                    code=Code.MESSAGE,
                )
                self._skip_or_raise(planned.table, key, told, "as its sources have it")
                continue
            holder, row = held[0] if held else (planned, None)
            rows.setdefault(holder.table.id, (holder, {}))[1][key] = row
        for holder, some in rows.values():
            self.add_refreshed(share, holder, some, asked)

    def _fresh(
        self, planned: PlannedTable, item: Received, owned: Owned, highest: dict[str, Coordinate]
    ) -> list[Change]:
        """A message's changes without repeats (invariant repeats-by-coordinate); `highest` rises by them."""
        source = item.message.source
        seen = highest.get(source) or owned.watermark.get(source)
        fresh = []
        for change in changes(item.message, planned.table.key):
            if seen is not None and change.coordinate <= seen:
                continue
            fresh.append(change)
            seen = highest[source] = change.coordinate
        return fresh

    def _fold(self, fold: Fold, planned: PlannedTable, fresh: Sequence[Change], applied: Applied) -> None:
        try:
            fold.add(planned, fresh, applied)
        except Exception:  # no place takes one of them, or one meets a defect
            self._fold_singly(fold, planned, fresh, applied)

    def _fold_singly(self, fold: Fold, planned: PlannedTable, fresh: Iterable[Change], applied: Applied) -> None:
        for change in fresh:
            try:
                fold.add(planned, [change], applied)
            except Exception as error:
                self._skip_or_raise(planned.table, change.key, as_stop(error), f"at {tuple(change.coordinate)}")
                with suppress(StopError):  # where it was it is no longer, if that is any place
                    fold.add(planned, [change._replace(after=None)], applied)

    def why_skipped(self, table: Table, key: Key) -> str | None:
        """The reason for which a person set aside what is refused of a key; None: nobody did."""
        if self._skips is None:
            return None
        tables = self._plan.members(self._plan.find(*table.id))
        return next(filter(None, (self._skips.reason(one.table.id, key) for one in tables)), None)

    def _skip_or_raise(self, table: Table, of: Key, error: StopError, which: str) -> None:
        """which: change of the key it is."""
        key = key_json(of)
        where = f"{table.full_name} key {key} {which}"
        if why := self.why_skipped(table, of):
            log.warning("a change that no place takes is left out", change=where, refusal=error.message, reason=why)
            return
        skip = f"to continue without it: `migrate parked skip {table.full_name} '{key}' --reason …`"
        raise RowRefused(f"{where}: {error.message}", hint=error.hint_and(skip)) from None

    def _pass_over(self, message: Message) -> None:
        """Of a table that was removed, or from before it was added again: it is copied anew."""
        name = f"{message.database}.{message.table}"
        if name not in self._passed_over:
            self._passed_over.add(name)
            log.warning("messages of a removed table are passed over", table=name, source=message.source)

    def _refuse_ddl(self, message: Message) -> None:
        """A statement that another producer passes on (ours stops at it): never swallowed (invariant unknown-stops).

        One that takes rows away says so nowhere else; one about an index changes neither rows nor columns.
        """
        if message.type in _OF_AN_INDEX:
            return
        for planned in self._plan.tables.values():
            table = planned.table
            if (table.database, table.name) != (message.database, message.table):
                continue
            told = f"{table.full_name}: a {message.type} statement is in the topic"
            if message.type in _TAKE_ROWS:
                raise StopError(
                    f"{told}: the rows that it removes stay at the targets",
                    hint="`migrate verify --repair` deletes them there, once the message is left out",
                    code=Code.MESSAGE,
                )
            if planned.ddl == "stop":
                raise StopError(
                    told,
                    hint="if it changes no rows and no columns, set tables[].ddl: ignore and start again",
                    code=Code.MESSAGE,
                )

    def _take_back(self, planned: PlannedTable, item: Received, returned: CameBack) -> None:
        message, delay = item.message, item.message.delay
        if delay is None:
            return
        wanted = (delay.database, delay.table)
        place = next((place for place in planned.places if (place.database.name, place.table) == wanted), None)
        if place is None:
            raise StopError(
                f"a delayed delete names {wanted[0]}.{wanted[1]}, which is no place of {planned.table.full_name}",
                hint="the sharding rule changed while the migration ran",
                code=Code.MESSAGE,
            )
        came_back = returned.setdefault((place, planned.table.id), (planned, []))[1]
        for row, coordinate in zip(message.data, message.coordinates(), strict=True):
            key = key_of(row, planned.table.key, planned.table.full_name)
            came_back.append(Returned(key, coordinate, delay.tier))

    def _work(
        self,
        parts: Parts,
        owned: Owned,
        highest: Mapping[str, Coordinate],
        end: int,
        planned: PlannedTable,
        place: Place,
    ) -> Work:
        """What a place gets besides changes, behind the last of those."""
        part = parts.get(place.database)
        if part is None:
            part = parts[place.database] = _part(owned, place.database, highest, end)
            part.highest = part.highest or {planned.table.source: None}
        writer = self._writer(planned, place)
        there = [work for work in part.work if work.writer.name == place.table]
        if there and there[-1].writer is writer:
            return there[-1]
        part.work.append(Work(writer))
        return part.work[-1]

    def _writer(self, planned: PlannedTable, place: Place) -> PlaceWriter:
        kept = self.layouts.told_columns(planned)
        key = (id(planned.table), place, kept)  # the writer keeps the table, so that no other one gets its id
        if key not in self._writers:
            consume = self._settings.consume
            members = [one.table.id for one in self._plan.members(planned)]
            self._writers[key] = PlaceWriter(
                planned.table,
                place.table,
                consume.lookup_keys,
                consume.write_rows,
                planned.noted_as,
                members,
                kept,
                self._alike,
            )
        return self._writers[key]


def _part(owned: Owned, database: TargetDatabase, highest: Mapping[str, Coordinate], end: int) -> Part:
    """A part whose marks never lower a fence: after a crash a database can have more than this batch reaches."""
    marks: dict[str, Coordinate | None] = {}
    for source, coordinate in highest.items():
        have = owned.applied.get(source, {}).get(database)
        marks[source] = coordinate if have is None else max(have, coordinate)
    return Part(owned.claim, marks, end=end, expected=owned.reached.get(database, NOTHING))


def _nothing(owned: Owned, database: TargetDatabase, end: int) -> Part:
    """A part that only says how far the database has come."""
    source = next(iter(owned.applied))
    return Part(owned.claim, {source: None}, end=end, expected=owned.reached.get(database, NOTHING))
