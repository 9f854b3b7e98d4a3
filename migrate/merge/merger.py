"""The merger: what the queue held becomes rows at the target, in four steps (docs/decisions/0038).

1. fold the messages of each partition (`folder`); 2. resolve: ask the sources for what no message decides (`resolver`);
3. plan what each database gets (`planner`); 4. write it (`writer`). Each step takes what the one before gave, and none
goes back, but where a row at the target is of a source table that was not asked: then steps 2 to 4 are done once more
(docs/decisions/0044). Which rows a foreign key changed at the source, the target alone tells, once these are written:
they go through steps 2 to 4 by themselves (`Merger._follow`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from migrate.merge import unread_rows
from migrate.merge.cascades import Cascades
from migrate.merge.defects import as_stop
from migrate.merge.folder import Folder
from migrate.merge.owned import OwnedPartition
from migrate.merge.planner import Planner
from migrate.merge.resolver import Resolver
from migrate.merge.shares import Answer, Folded, Parts, Resolved, Share
from migrate.merge.skipped_rows import SkippedRows
from migrate.merge.standby_guard import StandbyGuard
from migrate.merge.table_versions import History, Layouts
from migrate.merge.take_over import TakeOver, named
from migrate.merge.target_sessions import TargetSessions
from migrate.merge.writer import Writer, Written
from migrate.metrics import consumer as measured
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, MigrateError, StopError
from migrate.model.message import CANAL, Received
from migrate.state.foreign import ForeignWrite
from migrate.state.left_out_messages import LeaveOutReasons
from migrate.state.notes import Notes
from migrate.state.pending_markers import PendingMarkers
from migrate.state.reached import DatabaseName
from migrate.state.record import Consumed, Partition
from migrate.state.skipped_key import SkipReasons
from migrate.target.equal_keys import EqualKeys
from migrate.target.owners import RowsNotAsked
from migrate.target.part import Part
from migrate.target.place import AppliedCounts
from migrate.target.reached import Claim, DatabaseBehind, ReachedBefore
from migrate.target.refresh import SourceRows, SourcesNow
from migrate.target.requeue import AftermathSender
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a batch."""

    consumed: Sequence[Consumed]  # by partition, what is at the target now
    written: AppliedCounts
    failed: Mapping[Partition, MigrateError]  # StopError, OwnershipLost or ReadAgain


class Merger:
    """Folds and writes batches. Failures are tried again in place."""

    def __init__(
        self,
        plan: Plan,
        sender: AftermathSender,
        stop: threading.Event,
        history: History | None = None,
        skips: SkipReasons | None = None,
        left_out: LeaveOutReasons | None = None,
        sources_now: Callable[[], SourcesNow] | None = None,
        sides: StandbyGuard | None = None,
        waits: PendingMarkers | None = None,
        notes: Notes | None = None,
    ) -> None:
        """sides: asked where a database is not standby, and told what is carried nowhere; without it that is tried
        again for ever. waits: keeps markers of foreign keys for later; without it there are none. notes: counts what
        these two write in the state. sources_now: as of `SourceRows`."""
        self._settings = plan.settings
        self._sides = sides
        self._notes = notes
        self._busy = threading.Lock()
        self._owned: dict[Partition, OwnedPartition] = {}
        self._targets = TargetSessions(plan, stop)
        self._sources = SourceRows(plan.settings, sources_now)
        self._layouts = Layouts(history, plan)
        skipped = SkippedRows(plan, skips)
        self._folder = Folder(plan, self._layouts, history, skipped, left_out)
        self._resolver = Resolver(plan, self._layouts, self._sources, self._targets)
        alike = EqualKeys(lambda: plan.settings if sources_now is None else sources_now().settings)
        self._planner = Planner(plan, self._layouts, skipped, alike)
        self._writer = Writer(plan.settings, self._targets, self._owned, skipped, sender, sides, notes)
        self._cascades = None
        if waits is not None:
            self._cascades = Cascades(plan, self._layouts, self._sources, self._targets, sender.migration, waits)
        sources = [*(source.name for source in plan.settings.sources), CANAL]
        self._take_over = TakeOver(
            plan.settings.name, sources, plan.used_databases, self._targets.lanes, self._targets.retry, sides
        )

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None = None,
    ) -> ReachedBefore:
        """Become the writer of a partition: raise the fence in every target database (invariant fenced-writer).

        had: the offset that each database had come to. Where one has less now, and no applications write there,
        messages from there on are to be given here again. at_most: the offset from which on the broker has other
        messages than were applied, if it has. Raises: StateBehind where a database knows a later epoch; ServerError
        when `migrate init` changed the plan while others had the partition, or when stopping.
        """
        with self._busy:
            self._layouts.refresh()
            owned, found = self._take_over.take(claim, watermark, had, at_most)
            self._owned[claim.partition] = owned
            if self._notes is not None:
                self._notes.taken(claim.partition, claim.epoch)
        return found

    def drop(self, partition: Partition) -> None:
        """Stop writing a partition."""
        with self._busy:
            self._owned.pop(partition, None)

    def find_behind(self) -> dict[Partition, DatabaseBehind]:
        """Partitions of which a database has less than it had, without a write: nobody may write there for long.

        Databases that do not answer are left out. For any thread.
        """
        return self._take_over.find_behind(self._owned)

    def close(self) -> None:
        self._targets.close()
        self._sources.close()

    def rounds(self, batch: Sequence[Received]) -> Iterable[Sequence[Received]]:
        """A batch in pieces, each to be merged and marked before the next."""
        if self._cascades is None or not any(item.message.cascade for item in batch):
            return (batch,)
        with self._busy:
            self._layouts.refresh()
            return list(self._cascades.rounds(batch))

    def merge(self, batch: Sequence[Received]) -> Merged:
        """Apply one swapped list. A partition that cannot be applied, or is no longer ours, fails alone.

        Raises: ServerError when stopping.
        """
        with self._busy:
            return self._merge(batch)

    def _merge(self, batch: Sequence[Received]) -> Merged:
        self._layouts.refresh()
        self._resolver.begin()
        given = {partition: (self._owned[partition], items) for partition, items in _by_partition(batch).items()}
        failed: dict[Partition, MigrateError] = {}

        def each(step: Callable[[S], T], some: Mapping[Partition, S]) -> dict[Partition, T]:
            """A step of each partition by itself, without those that failed."""
            made: dict[Partition, T] = {}
            for partition, one in some.items():
                try:
                    made[partition] = step(one)
                except Exception as error:
                    failed[partition] = as_stop(error, _of(given[partition][1]))
            return made

        folded = each(lambda one: self._folder.fold(*one), given)
        resolved = each(self._resolve, folded)
        shares = each(self._plan, resolved)
        written = self._write(_by_database(shares.values()))
        touched = {partition: set(share.parts) for partition, share in shares.items()}
        while wider := {one: error for one, error in written.failed.items() if isinstance(error, RowsNotAsked)}:
            asked = each(self._ask_more, {one: (resolved[one], error) for one, error in wider.items()})
            again = each(self._plan, asked)
            resolved.update(asked)
            shares.update(again)
            for partition, share in again.items():
                touched[partition].update(share.parts)
            others = {one: error for one, error in written.failed.items() if one not in wider}
            more = self._write(_by_database(again.values()))
            written.done.add(more.done)
            written = Written(written.done, {**others, **more.failed})
        failed.update(written.failed)
        for partition, share in shares.items():
            if partition in failed or not share.unfinished:
                continue
            try:
                more = self._follow(share, touched[partition])
            except Exception as error:
                failed[partition] = as_stop(error, f"partition {partition.number}: rows changed by a foreign key")
                continue
            written.done.add(more.done)
            failed.update(more.failed)
        consumed = [
            self._finished(share, touched[partition]) for partition, share in shares.items() if partition not in failed
        ]
        return Merged(consumed, written.done, failed)

    def _resolve(self, folded: Folded) -> Resolved:
        return self._resolver.resolve(folded, self._waits)

    def _ask_more(self, one: tuple[Resolved, RowsNotAsked]) -> Resolved:
        return self._resolver.ask_more(*one, self._waits)

    def _waits(self, planned: PlannedTable) -> bool:
        """Whether rows of a table are read behind what a share writes."""
        return self._cascades is not None and self._cascades.leads_on(planned)

    def _plan(self, resolved: Resolved) -> Share:
        share = self._planner.plan(resolved)
        self._note_foreign(share, share.folded.foreign, resolved.answers)
        if self._cascades is not None and share.folded.of_parents:
            self._cascades.note_unlogged(share.folded)
        return share

    def _note_foreign(self, share: Share, found: Iterable[ForeignWrite], answers: Iterable[Answer] = ()) -> None:
        """List what is carried nowhere, and the rows that a lost server may have: before anything is consumed."""
        if self._sides is not None:
            unread = (one for answer in answers for one in unread_rows.listed(answer))
            self._sides.note([share.folded.owned.partition], [*found, *unread])

    def _write(self, work: Mapping[TargetDatabase, Sequence[Part]]) -> Written:
        return self._writer.write(work)

    def _follow(self, share: Share, touched: set[TargetDatabase]) -> Written:
        """What is asked for behind the changes of a share, now that these are written: which rows a marker means, the
        target alone tells. They are resolved, planned and written, a piece at a time; and last, that this is the end.

        touched: the databases that have something of the share; more are added. Raises: as the steps.
        """
        done, partition = AppliedCounts(), share.folded.owned.partition
        if self._cascades is None:
            raise StopError(
                "a marker came to a consumer that follows no foreign keys", hint="please report it", code=Code.MESSAGE
            )
        if self._sides is not None:
            self._note_foreign(share, self._cascades.foreign(share.folded))

        def write(parts: Parts) -> Mapping[Partition, MigrateError]:
            written = self._write({database: [part] for database, part in parts.items()})
            done.add(written.done)
            touched.update(parts)
            return written.failed

        for table, asked, meant in self._cascades.found(share):
            answer = self._resolver.read(table, asked, share.folded.fold)
            parts = self._planner.plan_more(share, answer)
            self._note_foreign(share, (), [answer])
            self._cascades.lead_on(partition, table, [*answer.rows], meant, answer.rows_by_key)
            if failed := write(parts):
                return Written(done, failed)
        return Written(done, write(self._planner.plan_end(share, touched)))

    def _finished(self, share: Share, touched: set[TargetDatabase]) -> Consumed:
        """What is consumed, with how far the databases have come.

        Also of those that had more than the state knew: their messages are repeats, and count as consumed for it.
        """
        owned = share.folded.owned
        known, owned.found = touched | owned.found, set()
        consumed = share.consumed
        owned.watermark.update(consumed.highest)
        measured.decided(consumed.messages, consumed.rows, share.folded.repeats, len(share.folded.foreign))
        reached = {named(one): owned.reached[one] for one in known}
        notes = self._notes.count(owned.partition) if self._notes is not None else None
        return replace(consumed, reached=reached, notes=notes)


def _by_database(shares: Iterable[Share]) -> dict[TargetDatabase, list[Part]]:
    work: dict[TargetDatabase, list[Part]] = {}
    for share in shares:
        for database, part in share.parts.items():
            work.setdefault(database, []).append(part)
    return work


def _of(items: Sequence[Received]) -> str:
    """What a share of a batch is, for messages: its tables, and where it begins."""
    tables = sorted({f"{item.message.database}.{item.message.table}" for item in items})
    first = items[0]
    return f"{first.topic} [{first.partition.number}] from {first.offset} on, {', '.join(tables[:3])}"


def _by_partition(batch: Iterable[Received]) -> dict[Partition, list[Received]]:
    parts: dict[Partition, list[Received]] = {}
    for item in batch:
        parts.setdefault(item.partition, []).append(item)
    return parts
