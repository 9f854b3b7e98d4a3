"""Step 1 of a merge: what one partition's messages say, repeats dropped, each key's last word at each place. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from migrate.merge.defects import as_stop
from migrate.merge.fold import Applied, Fold
from migrate.merge.group_conflicts import Asked, Doubt
from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import CameBack, Folded, Marker, Refreshes
from migrate.merge.skipped_rows import RowRefused, SkippedRows
from migrate.merge.table_versions import History, Layouts
from migrate.merge.trusted_places import Place as LogFile
from migrate.merge.trusted_places import TrustedPlaces
from migrate.metrics import consumer as measured
from migrate.model.change import Change, Key, changes, key_of
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.message import CANAL, Message, Received, Row
from migrate.model.partition import leave_out_hint, offset_name
from migrate.model.table import TableId
from migrate.state.foreign import ForeignWrite, Kind
from migrate.state.left_out_messages import LeaveOutReasons
from migrate.state.record import Consumed
from migrate.target.place import ReturnedDelete
from migrate.target.routing import Plan, PlannedTable

log = structlog.get_logger("migrate.merge")
_TAKE_ROWS = frozenset({"TRUNCATE", "ERASE", "RENAME"})
"""Canal's types of statements (CanalEntry.EventType) after which a table has other rows, or is another one."""
_OF_AN_INDEX = frozenset({"CINDEX", "DINDEX"})


@dataclass(slots=True)
class _Draft:
    """What the messages of a share come to."""

    fold: Fold = field(default_factory=Fold)
    highest: dict[str, Coordinate] = field(default_factory=dict)
    returned: CameBack = field(default_factory=dict)
    refreshes: Refreshes = field(default_factory=dict)
    rows: int = 0
    event_ms: int = 0
    foreign: list[ForeignWrite] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    images: list[tuple[TableId, Key, Row]] = field(default_factory=list)
    seen: dict[str, LogFile] = field(default_factory=dict)  # the latest that was applied, or is here, by source
    asked: set[str] = field(default_factory=set)  # sources of which the state knows that one
    repeats: int = 0
    of_parents: list[tuple[PlannedTable, Change]] = field(default_factory=list)


class Folder:
    def __init__(
        self,
        plan: Plan,
        layouts: Layouts,
        history: History | None,
        skipped: SkippedRows,
        left_out: LeaveOutReasons | None,
    ) -> None:
        self._plan = plan
        self._layouts = layouts
        self._skipped = skipped
        self._left_out = left_out
        self._trusted = TrustedPlaces(history)
        self._passed_over: set[str] = set()  # as was said already

    def fold(self, owned: OwnedPartition, items: Sequence[Received]) -> Folded:
        """`owned` is not changed. Raises: StopError for a message that cannot be followed."""
        draft = _Draft()
        for item in items:
            try:
                self._take(draft, item, owned)
            except RowRefused:
                raise
            except Exception as error:
                self._leave_out_or_raise(item, as_stop(error))
        for planned, asked in draft.fold.doubts.settle():
            self._ask(planned, asked, draft.refreshes)
        start, end, last = items[0].offset, items[-1].offset + 1, items[-1].message.identity
        consumed = Consumed(
            owned.partition, end, draft.highest, len(items), draft.rows, draft.event_ms, start, last=last
        )
        counted = draft.foreign, draft.markers, draft.images, draft.repeats, draft.of_parents
        return Folded(owned, draft.fold, consumed, draft.refreshes, draft.returned, *counted)

    def _take(self, draft: _Draft, item: Received, owned: OwnedPartition) -> None:
        """One message. Raises StopError, or RowRefused when it is about one of its rows."""
        message = item.message
        if message.is_ddl and message.source == CANAL and item.apply:
            self._refuse_ddl(message)
        if not item.apply or not message.data:
            return
        if not self._layouts.counts(message):
            self._pass_over(message)
            return
        self._trusted.refuse_beyond(message, item.offset)
        self._refuse_lost(draft, message, owned)
        planned = self._plan.find(message.source, message.database, message.table)
        if planned.mirror_of is not None and not message.standby and (message.cascade or message.refresh):
            return  # as below: the rows are those of the first node
        if message.cascade:
            draft.markers.append(Marker(self._layouts.with_columns(planned, message), message))
            return
        if message.delay is not None:
            self._take_back(planned, item, draft.returned)
            return
        if message.refresh:
            self._note_refresh(planned, message, draft)
            return
        planned = self._layouts.of(planned, message)
        draft.rows += len(message.data)
        draft.event_ms = max(draft.event_ms, message.es)
        fresh = self._fresh(planned, item, owned, draft.highest)
        draft.repeats += len(message.data) - len(fresh)
        if message.standby:
            id_ = planned.table.id
            draft.foreign += [ForeignWrite(id_, change.key, Kind.FOREIGN, change.coordinate) for change in fresh]
            return
        if planned.mirror_of is not None:
            return  # the first node of the broadcast table has the same changes
        if self._layouts.hides(planned):
            draft.of_parents += [(planned, change) for change in fresh]
        self._fold(draft.fold, planned, fresh, owned.applied.get(message.source, {}))

    def _refuse_lost(self, draft: _Draft, message: Message, owned: OwnedPartition) -> None:
        if not message.from_log:
            return
        source = message.source
        place, seen = (message.incarnation, message.file), draft.seen.get(source)
        if seen is None:
            seen = owned.place(source)
        if place < seen and source not in draft.asked:
            self._trusted.refuse_lost(message, seen)
            draft.asked.add(source)
        draft.seen[source] = max(seen, place)

    def _leave_out_or_raise(self, item: Received, error: StopError) -> None:
        """A message that says nothing we could do: only a person can leave it out (invariant unknown-stops)."""
        where = item.topic, item.partition.number, item.offset
        if why := self._left_out.reason(item.partition, item.offset) if self._left_out else None:
            measured.set_aside.labels("left out").inc()
            log.warning("a message is left out", message=offset_name(*where), refusal=error.message, reason=why)
            return
        hint = error.hint_and(leave_out_hint(*where))
        told = f"message {offset_name(*where)}: {error.message}"
        raise StopError(told, hint=hint, code=error.code, refused_offset=item.offset) from None

    def _note_refresh(self, planned: PlannedTable, message: Message, draft: _Draft) -> None:
        table = planned.table
        keys: Asked = {key_of(row, table.key, table.full_name): Doubt() for row in message.data}
        self._ask(planned, keys, draft.refreshes)
        known = [row for row in message.data if len(row) > len(table.key)]
        draft.images += [(table.id, key_of(row, table.key, table.full_name), row) for row in known]

    def _ask(self, planned: PlannedTable, asked: Asked, refreshes: Refreshes) -> None:
        """Add keys that are to be read at their sources again."""
        newest = self._layouts.newest(planned)
        keys = refreshes.setdefault(planned.noted_as.id, (newest, {}))[1]
        for key, doubt in asked.items():
            keys[key] = keys[key].and_more(doubt) if key in keys else doubt

    def _fresh(
        self, planned: PlannedTable, item: Received, owned: OwnedPartition, highest: dict[str, Coordinate]
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
                fold.add(planned, [_from_nowhere(planned, change)], applied)
            except Exception as error:
                self._skipped.skip_or_raise(planned.table, change.key, as_stop(error), f"at {tuple(change.coordinate)}")
                with suppress(StopError):  # where it was it is no longer, if that is any place
                    fold.add(planned, [change._replace(after=None)], applied)

    def _pass_over(self, message: Message) -> None:
        """Of a table that was removed, or from before it was added again: it is copied anew."""
        name = f"{message.database}.{message.table}"
        if name not in self._passed_over:
            self._passed_over.add(name)
            log.warning("messages of a removed table are passed over", table=name, source=message.source)

    def _refuse_ddl(self, message: Message) -> None:
        """A statement that another producer passes on: never swallowed (invariant unknown-stops). Our publisher judges
        a statement before it sends the message, which says nothing to a consumer of ours.

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
            if planned.ddl.columns != "ignore":
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
            came_back.append(ReturnedDelete(key, coordinate, delay.tier))


def _from_nowhere(planned: PlannedTable, change: Change) -> Change:
    """Without the row as it was, where no place takes that: it never was at any, and may have one from now on."""
    before = change.before
    if before is None or any(name not in before for name in planned.rule.columns):
        return change
    try:
        planned.route_all([before])
    except StopError as error:
        return change._replace(before=None) if error.code is Code.ROUTE else change
    return change
