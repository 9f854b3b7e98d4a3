"""From messages to work: repeats dropped, changes folded, split by database (DESIGN §6). No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from migrate.merge.dedup import Applied, Fold
from migrate.merge.layouts import History, Layouts
from migrate.model.change import Change, Key, changes, key_json, key_of
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Message, Received, Row
from migrate.model.partition import leave_out_hint, offset_name
from migrate.model.table import Table
from migrate.state.left_out import Reasons
from migrate.state.record import Consumed, Partition
from migrate.state.skip import Skips
from migrate.target.decide import Intent
from migrate.target.part import Part, Returned, Work
from migrate.target.plan import Place, Plan, PlannedTable, TableId, TargetDatabase
from migrate.target.refresh import REFRESHED
from migrate.target.rows import PlaceWriter

log = structlog.get_logger("migrate.merge")
Parts = dict[TargetDatabase, Part]
CameBack = dict[Place, tuple[PlannedTable, list[Returned]]]
Refreshes = dict[TableId, tuple[PlannedTable, dict[Key, None]]]
"""Keys to be read at the source again, in the order they came."""


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's share of a batch, planned."""

    owned: Owned
    parts: Parts  # what each database shall get
    consumed: Consumed  # what is consumed once they have it
    refreshes: Refreshes  # whose rows are to be added first


@dataclass(slots=True)
class Owned:
    """A partition we write: its lease's epoch, what is merged of it, and what each database has."""

    partition: Partition
    epoch: int
    watermark: dict[str, Coordinate]  # by source, over everything merged so far (rule 4)
    applied: dict[str, dict[TargetDatabase, Coordinate | None]] = field(default_factory=dict)  # by source


class RowRefused(StopError):  # noqa: N818 - what it says is what happened
    """About one row of a message, which can be set aside by its key."""


@dataclass(slots=True)
class _Draft:
    """What the messages of a share come to."""

    fold: Fold = field(default_factory=Fold)
    highest: dict[str, Coordinate] = field(default_factory=dict)
    returned: CameBack = field(default_factory=dict)
    refreshes: Refreshes = field(default_factory=dict)
    rows: int = 0
    event_ms: int = 0


class Planner:
    """Plans one partition's share of a batch: steps 1 to 3 of a merge."""

    def __init__(
        self,
        plan: Plan,
        history: History | None = None,
        skips: Skips | None = None,
        left_out: Reasons | None = None,
    ) -> None:
        self._plan = plan
        self._skips = skips
        self._left_out = left_out
        self._settings = plan.settings
        self.layouts = Layouts(history, plan.find)
        self._passed_over: set[str] = set()  # as was said already
        self._writers: dict[tuple[int, Place], PlaceWriter] = {}

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
            except StopError as error:
                self._leave_out_or_raise(item, error)
        highest = draft.highest
        parts: Parts = {}
        for place, planned, intents in draft.fold.places():
            if (part := parts.get(place.database)) is None:
                part = parts[place.database] = _part(owned, place.database, highest)
            part.work.append(Work(self._writer(planned, place), intents))
        for place, (planned, came_back) in draft.returned.items():
            self._add_returned(parts, owned, highest, place, planned, came_back)
        end = items[-1].offset + 1
        consumed = Consumed(owned.partition, end, highest, len(items), draft.rows, draft.event_ms)
        return Share(owned, parts, consumed, draft.refreshes)

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
        planned = self._plan.find(message.source, message.database, message.table)
        if message.delay is not None:
            self._take_back(planned, item, draft.returned)
            return
        if message.refresh:
            self._note_refresh(planned, message, draft.refreshes)
            return
        planned = self.layouts.of(planned, message)
        draft.rows += len(message.data)
        draft.event_ms = max(draft.event_ms, message.es)
        self._fold(draft.fold, planned, item, owned, draft.highest)

    def _leave_out_or_raise(self, item: Received, error: StopError) -> None:
        """A message that says nothing we could do: only a person can decide to go on without it (rule 13)."""
        where = item.topic, item.partition.number, item.offset
        if why := self._left_out.reason(item.partition, item.offset) if self._left_out else None:
            log.warning("a message is left out", message=offset_name(*where), refusal=error.message, reason=why)
            return
        hint = f"{error.hint + '; ' if error.hint else ''}{leave_out_hint(*where)}"
        raise StopError(f"message {offset_name(*where)}: {error.message}", hint=hint) from None

    def _note_refresh(self, planned: PlannedTable, message: Message, refreshes: Refreshes) -> None:
        table = planned.table
        newest = self.layouts.newest(planned)
        keys = refreshes.setdefault(table.id, (newest, {}))[1]
        for row in message.data:
            keys[key_of(row, table.key, table.full_name)] = None

    def add_refreshed(self, share: Share, planned: PlannedTable, rows: Mapping[Key, Row | None]) -> None:
        """Let every place of a table hold what the source does: the row at its place, none at the others.

        Raises: StopError for a row that no place takes.
        """
        homes = {key: None if row is None else planned.route(row) for key, row in rows.items()}
        for place in planned.places:
            intents = [Intent(key, row if homes[key] == place else None, REFRESHED) for key, row in rows.items()]
            self._work(share.parts, share.owned, share.consumed.highest, planned, place).refreshed += intents

    def _fold(
        self, fold: Fold, planned: PlannedTable, item: Received, owned: Owned, highest: dict[str, Coordinate]
    ) -> None:
        source = item.message.source
        seen = highest.get(source) or owned.watermark.get(source)
        applied = owned.applied.get(source, {})
        fresh = []
        for change in changes(item.message, planned.table.key):
            if seen is not None and change.coordinate <= seen:
                continue  # a repeat (rule 4)
            fresh.append(change)
            seen = highest[source] = change.coordinate
        try:
            fold.add(planned, fresh, applied)
        except StopError:  # no place takes one of them
            self._fold_singly(fold, planned, fresh, applied)

    def _fold_singly(self, fold: Fold, planned: PlannedTable, fresh: Iterable[Change], applied: Applied) -> None:
        for change in fresh:
            try:
                fold.add(planned, [change], applied)
            except StopError as error:
                self._skip_or_raise(planned.table, change, error)
                with suppress(StopError):  # where it was it is no longer, if that is any place
                    fold.add(planned, [replace(change, after=None)], applied)

    def why_skipped(self, table: Table, key: Key) -> str | None:
        """The reason for which a person set aside what is refused of a key; None: nobody did."""
        return self._skips.reason(table.id, key) if self._skips else None

    def _skip_or_raise(self, table: Table, change: Change, error: StopError) -> None:
        key = key_json(change.key)
        where = f"{table.full_name} key {key} at {tuple(change.coordinate)}"
        if why := self.why_skipped(table, change.key):
            log.warning("a change that no place takes is left out", change=where, refusal=error.message, reason=why)
            return
        skip = f"migrate parked skip {table.full_name} '{key}' --reason …"
        raise RowRefused(
            f"{where}: {error.message}",
            hint=f"{error.hint + '; ' if error.hint else ''}to go on without it: `{skip}`",
        ) from None

    def _pass_over(self, message: Message) -> None:
        """Of a table that was removed, or from before it was added again: it is copied anew."""
        name = f"{message.database}.{message.table}"
        if name not in self._passed_over:
            self._passed_over.add(name)
            log.warning("messages of a removed table are passed over", table=name, source=message.source)

    def _refuse_ddl(self, message: Message) -> None:
        """A statement that another producer passes on (ours stops at it): never swallowed (rule 13)."""
        for planned in self._plan.tables.values():
            table = planned.table
            if (table.database, table.name) == (message.database, message.table) and planned.ddl == "stop":
                raise StopError(
                    f"{table.full_name}: a {message.type} statement is in the topic",
                    hint="if it changes no rows and no columns, set tables[].ddl: ignore and start again",
                )

    def _take_back(self, planned: PlannedTable, item: Received, returned: CameBack) -> None:
        message, delay = item.message, item.message.delay
        if delay is None:
            return
        wanted = (delay.database, delay.table)
        place = next((place for place in planned.places if (place.database.name, place.table) == wanted), None)
        if place is None:
            raise StopError(
                f"a delayed delete speaks of {wanted[0]}.{wanted[1]}, which is no place of {planned.table.full_name}",
                hint="the sharding rule changed while the migration ran",
            )
        came_back = returned.setdefault(place, (planned, []))[1]
        for row, coordinate in zip(message.data, message.coordinates(), strict=True):
            key = key_of(row, planned.table.key, planned.table.full_name)
            came_back.append(Returned(key, coordinate, delay.tier))

    def _add_returned(
        self,
        parts: Parts,
        owned: Owned,
        highest: Mapping[str, Coordinate],
        place: Place,
        planned: PlannedTable,
        came_back: list[Returned],
    ) -> None:
        self._work(parts, owned, highest, planned, place).returned += came_back

    def _work(
        self, parts: Parts, owned: Owned, highest: Mapping[str, Coordinate], planned: PlannedTable, place: Place
    ) -> Work:
        """What a place gets besides changes, behind the last of those."""
        part = parts.get(place.database)
        if part is None:
            part = parts[place.database] = _part(owned, place.database, highest)
            part.highest = part.highest or {planned.table.source: None}
        writer = self._writer(planned, place)
        there = [work for work in part.work if work.writer.name == place.table]
        if there and there[-1].writer is writer:
            return there[-1]
        part.work.append(Work(writer))
        return part.work[-1]

    def _writer(self, planned: PlannedTable, place: Place) -> PlaceWriter:
        key = (id(planned.table), place)  # the writer keeps the table, so that no other one gets its id
        if key not in self._writers:
            consume = self._settings.consume
            self._writers[key] = PlaceWriter(planned.table, place.table, consume.lookup_keys, consume.write_rows)
        return self._writers[key]


def _part(owned: Owned, database: TargetDatabase, highest: Mapping[str, Coordinate]) -> Part:
    """A part whose marks never lower a fence: after a crash a database can have more than this batch reaches."""
    marks: dict[str, Coordinate | None] = {}
    for source, coordinate in highest.items():
        have = owned.applied.get(source, {}).get(database)
        marks[source] = coordinate if have is None else max(have, coordinate)
    return Part(owned.partition, owned.epoch, marks)
