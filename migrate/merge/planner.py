"""Step 3 of a merge: what each database gets of one partition's share. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from migrate.merge.group_conflicts import Asked
from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Answer, Marks, Parts, Resolved, Share
from migrate.merge.skipped_rows import SkippedRows
from migrate.merge.table_versions import Layouts
from migrate.model.change import Key, NoChange
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.message import Row
from migrate.target.decide import Intent
from migrate.target.equal_keys import EqualKeys
from migrate.target.groups import misplaced, name_of
from migrate.target.owners import AskedTables
from migrate.target.part import Part, Work
from migrate.target.reached import NOTHING
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase
from migrate.target.rows import PlaceWriter


class Planner:
    def __init__(self, plan: Plan, layouts: Layouts, skipped: SkippedRows, alike: EqualKeys | None = None) -> None:
        self._plan = plan
        self._layouts = layouts
        self._skipped = skipped
        self._alike = alike
        self._settings = plan.settings
        self._writers: dict[tuple[int, Place, tuple[str, ...], frozenset[str]], PlaceWriter] = {}

    def plan(self, resolved: Resolved) -> Share:
        """Raises: StopError for a row that two tables of a group have, or that no place takes."""
        folded = resolved.folded
        owned, parts = folded.owned, dict[TargetDatabase, Part]()
        share = Share(folded, parts, resolved.late, holds=bool(resolved.held))
        marks = share.marks
        unwritten = {id_: set(keys) for id_, keys in resolved.held.items()}
        for answer in resolved.answers:
            unwritten.setdefault(answer.planned.noted_as.id, set()).update(answer.unread)
        for place, planned, every in folded.fold.places():
            held = unwritten.get(planned.noted_as.id)
            intents = [one for one in every if one.key not in held] if held else every
            if not intents:
                continue
            if (part := parts.get(place.database)) is None:
                part = parts[place.database] = _part(owned, place.database, marks)
            part.work.append(Work(self._writer(planned, place), intents))
        for (place, _), (planned, came_back) in folded.returned.items():
            self._work(parts, owned, marks, planned, place).returned += came_back
        for database, had in owned.behind.items():
            if share.consumed.end >= had and database not in parts:  # nothing more of what it lost is for it
                parts[database] = _nothing(owned, database, marks.end)
        self._add_answers(parts, owned, marks, resolved.answers)
        for table, asked in resolved.late.values():  # asked everywhere, right behind
            _note_asked(parts, table, dict.fromkeys(asked))
        return share

    def plan_more(self, share: Share, answer: Answer) -> Parts:
        """What is written behind the parts of a share that has no end yet. Raises: as `plan`."""
        parts: Parts = {}
        self._add_answers(parts, share.folded.owned, share.marks, [answer])
        return parts

    def plan_end(self, share: Share, databases: Iterable[TargetDatabase]) -> Parts:
        """Last of all: these databases have everything of a share."""
        owned, marks = share.folded.owned, share.marks_at_end
        return {
            one: _part(owned, one, marks) if marks.highest else _nothing(owned, one, marks.end) for one in databases
        }

    def _add_answers(self, parts: Parts, owned: OwnedPartition, marks: Marks, answers: Sequence[Answer]) -> None:
        for answer in answers:
            for holder, rows in self._by_holder(answer):
                for place, intents in self._refreshed(holder, rows, answer.asked).items():
                    if intents:
                        self._work(parts, owned, marks, holder, place).refreshed += intents
            _note_asked(parts, answer.planned, answer.tables)
        if answers:
            versions = answers[-1].versions
            for database, part in parts.items():  # written only while the databases' roles are what they were before
                part.version = versions.get(database)

    def _by_holder(self, answer: Answer) -> Iterable[tuple[PlannedTable, dict[Key, Row | None]]]:
        """Each key's row by the table that has it, with its columns at one time; a key that none has, by the table that
        was asked for."""
        rows: dict[int, tuple[PlannedTable, dict[Key, Row | None]]] = {}
        for key, held in answer.rows.items():
            if len(held) > 1:
                names = ", ".join(name_of(one) for one, _ in held)
                told = StopError(
                    f"a key may be in only one table of group '{answer.planned.group}', and this one is in {names}",
                    hint="delete it where it does not belong, and the partition continues by itself; where these are"
                    " two rows with one id, the group's tables need `key` with the sharding columns, and `home`"
                    " (docs/sharding.md)",
                    code=Code.MESSAGE,
                )
                self._skipped.skip_or_raise(answer.planned.table, key, told, "as its sources have it")
                continue
            holder, row = held[0] if held else (answer.planned, None)
            if row is not None and (belongs := holder.misplaced([row])[0]) is not None:
                told = misplaced(holder, belongs)
                self._skipped.skip_or_raise(answer.planned.table, key, told, "as its source has it")
                continue
            rows.setdefault(id(holder), (holder, {}))[1][key] = row
        return rows.values()

    def _refreshed(
        self, planned: PlannedTable, rows: Mapping[Key, Row | None], asked: Asked
    ) -> dict[Place, list[Intent]]:
        """Places of a table shall hold what the source does: the row at its place, none at the others."""
        intents: dict[Place, list[Intent]] = {place: [] for place in planned.places}
        for key, row in rows.items():
            homes = () if row is None else self._homes(planned, key, row)
            others = asked[key].places if key in asked else None
            for place in intents if others is None else others.union(homes):
                intents[place].append(Intent(key, row if place in homes else None, NoChange.REFRESH))
        return intents

    def _homes(self, planned: PlannedTable, key: Key, row: Row) -> tuple[Place, ...]:
        try:
            return planned.places_of(row)
        except StopError as error:
            self._skipped.skip_or_raise(planned.table, key, error, "as its source has it")
            return ()

    def _work(
        self,
        parts: Parts,
        owned: OwnedPartition,
        marks: Marks,
        planned: PlannedTable,
        place: Place,
    ) -> Work:
        """What a place gets besides changes, behind the last of those."""
        part = parts.get(place.database)
        if part is None:
            part = parts[place.database] = _part(owned, place.database, marks)
            part.highest = part.highest or {planned.table.source: None}
        writer = self._writer(planned, place)
        there = [work for work in part.work if work.writer.name == place.table]
        if there and there[-1].writer is writer:
            return there[-1]
        part.work.append(Work(writer))
        return part.work[-1]

    def _writer(self, planned: PlannedTable, place: Place) -> PlaceWriter:
        kept, absent = self._layouts.told_columns(planned), self._layouts.absent_columns(planned)
        key = (id(planned.table), place, kept, absent)  # the writer keeps the table, so that no other one gets its id
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
                None if planned.key_tells_home else planned.home,
                planned.update_time,
                absent,
            )
        return self._writers[key]


def _note_asked(parts: Parts, table: PlannedTable, asked: AskedTables) -> None:
    """What was asked of keys of a group, for every database that may hold one."""
    if table.home is not None:
        for part in parts.values():
            part.asked.setdefault(table.group, {}).update(asked)


def _part(owned: OwnedPartition, database: TargetDatabase, marks: Marks) -> Part:
    """A part whose marks never lower a fence: after a crash a database can have more than this batch reaches."""
    highest: dict[str, Coordinate | None] = {}
    for source, coordinate in marks.highest.items():
        have = owned.applied.get(source, {}).get(database)
        highest[source] = coordinate if have is None or coordinate is None else max(have, coordinate)
    return Part(owned.claim, highest, end=marks.end, expected=owned.reached.get(database, NOTHING))


def _nothing(owned: OwnedPartition, database: TargetDatabase, end: int) -> Part:
    """A part that only says how far the database has come."""
    source = next(iter(owned.applied))
    return Part(owned.claim, {source: None}, end=end, expected=owned.reached.get(database, NOTHING))
