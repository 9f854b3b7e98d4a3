"""The merger: what the queue held becomes rows at the target."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from functools import partial

import structlog

from migrate.merge.cascades import Cascades, Rows
from migrate.merge.defects import as_stop
from migrate.merge.group_conflicts import Asked
from migrate.merge.planner import Owned, Parts, Planner, Share
from migrate.merge.retry import T, until_done
from migrate.merge.standby_guard import Sides, late
from migrate.merge.table_versions import History
from migrate.merge.take_over import Taking, named
from migrate.model.change import key_json
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, MigrateError, OwnershipLost, StopError
from migrate.model.message import CANAL, Received
from migrate.mysql import errors as mysql_errors
from migrate.state.left_out_messages import Reasons
from migrate.state.notes import Notes
from migrate.state.pending_markers import Waits
from migrate.state.position import WhereRead
from migrate.state.reached import DatabaseName
from migrate.state.record import Consumed, Partition
from migrate.state.skipped_key import Skips
from migrate.target import roles
from migrate.target.equal_keys import Alike
from migrate.target.lanes import Lanes
from migrate.target.parked import SetAside
from migrate.target.part import Part, Send, apply, find_refused
from migrate.target.place import Aftermath, Done
from migrate.target.pool import TargetPool
from migrate.target.reached import Behind, Claim, Had
from migrate.target.refresh import SourceRows
from migrate.target.requeue import AftermathSender
from migrate.target.roles import NotStandby
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

log = structlog.get_logger("migrate.merge")
_OTHER_COLUMNS = frozenset({1054, 1136, 1364})  # unknown column; column count; no default value
_TOGETHER = 5_000
"""Keys in one transaction of several partitions: below it, a flush costs more than what is done again if one fails."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a batch."""

    consumed: Sequence[Consumed]  # by partition, what is at the target now
    written: Done
    failed: Mapping[Partition, MigrateError]  # what stopped a partition: StopError, OwnershipLost, or Behind


class Merger:
    """Folds and writes batches. Databases are written side by side, over so many sessions at each server as
    `connections.per_server` allows; failures are tried again in place."""

    def __init__(
        self,
        plan: Plan,
        sender: AftermathSender,
        stop: threading.Event,
        history: History | None = None,
        skips: Skips | None = None,
        left_out: Reasons | None = None,
        where_read: Callable[[], WhereRead] | None = None,
        sides: Sides | None = None,
        waits: Waits | None = None,
        notes: Notes | None = None,
    ) -> None:
        """sides: asked where a database is not standby, and told what is carried nowhere; without it that is tried
        again for ever. waits: keeps markers of foreign keys for later; without it there are none. notes: counts what
        these two write in the state."""
        self._sides = sides
        self._notes = notes
        alike = Alike(lambda: where_read().settings if where_read is not None else plan.settings)
        self._planner = Planner(plan, history, skips, left_out, alike)
        self._settings = plan.settings
        self._keep = plan.settings.consume.keep_decisions_seconds > 0
        self._last_tier = len(plan.settings.delay.tiers_seconds) - 1
        self._sender = sender
        self._source_rows = SourceRows(plan.settings, where_read)
        self._send_lock = threading.Lock()
        self._busy = threading.Lock()
        self._stop = stop
        self._owned: dict[Partition, Owned] = {}
        self._versions: dict[TargetDatabase, int] = {}  # of roles, asked once a merge, before rows are read
        self._databases = plan.used_databases
        self._lanes = {name: Lanes(plan.settings, count) for name, count in _lanes(plan).items()}
        sources = [*(source.name for source in self._settings.sources), CANAL]
        self._cascades = None
        if waits is not None:
            across = self._planner, self._source_rows, self._lanes, self._look, sender.migration
            self._cascades = Cascades(plan, *across, waits)
        self._taking = Taking(self._settings.name, sources, self._databases, self._lanes, self._retry, sides)

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None = None,
    ) -> Had:
        """Become the writer of a partition: raise the fence in every target database (invariant fenced-writer).

        had: the offset that each database had come to. Where one has less now, and no applications write there,
        messages from there on are to be given here again. at_most: the offset from which on the broker has other
        messages than were applied, if it has. Raises: StateBehind where a database knows a later epoch; ServerError
        when `migrate init` changed the plan while others had the partition, or when stopping.
        """
        with self._busy:
            self._planner.layouts.refresh()
            owned, found = self._taking.take(claim, watermark, had, at_most)
            self._owned[claim.partition] = owned
            if self._notes is not None:
                self._notes.taken(claim.partition, claim.epoch)
        return found

    def drop(self, partition: Partition) -> None:
        """Stop writing a partition."""
        with self._busy:
            self._owned.pop(partition, None)

    def find_behind(self) -> dict[Partition, Behind]:
        """Partitions of which a database has less than it had, without a write: nobody may write there for long.

        Databases that do not answer are left out. For any thread.
        """
        return self._taking.find_behind(self._owned)

    def close(self) -> None:
        for lanes in self._lanes.values():
            lanes.close()
        self._source_rows.close()

    def rounds(self, batch: Sequence[Received]) -> Iterable[Sequence[Received]]:
        """A batch in pieces, each to be merged and marked before the next."""
        if self._cascades is None or not any(item.message.cascade for item in batch):
            return (batch,)
        with self._busy:
            self._planner.layouts.refresh()
            return list(self._cascades.rounds(batch))

    def merge(self, batch: Sequence[Received]) -> Merged:
        """Apply one swapped list.

        1. drop repeats by the watermark; 2. fold by place and key; 3. split by database and partition (`Planner`);
        4. write, each database in one transaction where it takes all; else each partition in one of its own, tried
        again until it is done. A partition that cannot be applied, or is no longer ours, fails alone.
        Raises: ServerError when stopping.
        """
        with self._busy:
            return self._merge(batch)

    def _merge(self, batch: Sequence[Received]) -> Merged:
        self._versions.clear()
        self._planner.layouts.refresh()
        work: dict[TargetDatabase, list[Part]] = {}
        shares: dict[Partition, Share] = {}
        failed: dict[Partition, MigrateError] = {}
        for partition, items in _by_partition(batch).items():
            owned = self._owned[partition]
            try:
                share = self._plan(owned, items)
                if share.foreign and self._sides is not None:
                    self._sides.note([partition], share.foreign)
            except Exception as error:
                failed[partition] = as_stop(error, _of(items))
                continue
            shares[partition] = share
            for database, part in share.parts.items():
                work.setdefault(database, []).append(part)
        written = self._write_parallel(work, failed)
        for partition, share in shares.items():
            if partition in failed or not share.unfinished:
                continue
            try:
                written.add(self._write_late(share, work, failed))
            except Exception as error:
                failed[partition] = as_stop(error, f"partition {partition.number}: rows changed by a foreign key")
        consumed = [
            replace(share.consumed, reached=self._reached(partition, work), notes=self._noted(partition))
            for partition, share in shares.items()
            if partition not in failed
        ]
        for done in consumed:
            self._owned[done.partition].watermark.update(done.highest)
        return Merged(consumed, written, failed)

    def _reached(self, partition: Partition, work: Mapping[TargetDatabase, Sequence[Part]]) -> dict[DatabaseName, int]:
        """How far the databases of a batch have come with a partition, by their names.

        Also those that had more than the state knew: their messages are repeats, and count as consumed for it.
        """
        owned = self._owned[partition]
        written = {one for one, parts in work.items() if any(part.partition == partition for part in parts)}
        known, owned.found = written | owned.found, set()
        return {named(one): owned.reached[one] for one in known}

    def _noted(self, partition: Partition) -> int | None:
        return self._notes.count(partition) if self._notes is not None else None

    def _plan(self, owned: Owned, items: Sequence[Received]) -> Share:
        share = self._planner.plan_partition(owned, items)
        for id_, (table, asked) in share.refreshes.items():
            if self._cascades is not None and self._cascades.leads_on(table):
                share.late[id_] = table, asked
            else:
                self._refresh(share, table, asked)
        for part in share.parts.values() if share.unfinished else ():
            part.end = share.consumed.start  # what is still to come may be lost without it
        return share

    def _refresh(self, share: Share, table: PlannedTable, asked: Asked) -> Rows:
        """Add to a share what the sources have of some keys now; returns that."""
        keys = [*asked]
        for database in table.databases:
            if database not in self._versions:
                self._versions[database] = self._version(database)
        log.info("refreshed", table=table.group or table.table.full_name, keys=len(keys))
        if table.group:
            members = self._planner.members(table)
            self._planner.layouts.refuse_unread(members)  # before they are read
            found = self._source_rows.read_group(members, keys)
            self._planner.add_found(share, table, found, asked)
            _bind(share, self._versions)
            return {key: [row for _, row in held] for key, held in found.items()}
        rows = self._source_rows.read(table, keys)
        self._planner.add_refreshed(share, table, rows)
        _bind(share, self._versions)
        return {key: [] if row is None else [row] for key, row in rows.items()}

    def _version(self, database: TargetDatabase) -> int:
        """Of the role of a database: a row that is read now must not be written behind a switch and its rollback."""

        def ask(pool: TargetPool) -> int:
            return self._look(pool, database, lambda: roles.version(pool.get(database), self._settings.name))

        return self._lanes[database.target].submit(ask).result()

    # -- writing

    def _write_more(
        self, parts: Parts, work: dict[TargetDatabase, list[Part]], failed: dict[Partition, MigrateError]
    ) -> Done:
        for database, part in parts.items():
            work.setdefault(database, []).append(part)
        return self._write_parallel({database: [part] for database, part in parts.items()}, failed)

    def _write_late(
        self, share: Share, work: dict[TargetDatabase, list[Part]], failed: dict[Partition, MigrateError]
    ) -> Done:
        """What is asked for behind the changes of a share, now that these are written. Its parts are added to `work`.

        Raises: as `Planner.plan_partition`.
        """
        done = Done()
        if self._cascades is None:
            raise StopError(
                "a marker came to a consumer that follows no foreign keys", hint="please report it", code=Code.MESSAGE
            )
        if self._sides is not None:
            self._sides.note([share.owned.partition], self._cascades.foreign(share))
        touched = set(share.parts)
        for table, asked, meant in self._cascades.found(share):
            more = share.after()
            rows = self._refresh(more, table, asked)
            self._cascades.lead_on(share.owned.partition, table, [*asked], meant, rows)
            done.add(self._write_more(more.parts, work, failed))
            touched |= more.parts.keys()
            if share.owned.partition in failed:
                return done
        done.add(self._write_more(share.finish(touched), work, failed))
        return done

    def _write_parallel(self, work: Mapping[TargetDatabase, list[Part]], failed: dict[Partition, MigrateError]) -> Done:
        futures = [
            self._lanes[database.target].submit(partial(self._write_all, database=database, parts=parts))
            for database, parts in work.items()
        ]
        wait(futures)
        done = Done()
        for future in futures:
            written, refused = future.result()
            done.add(written)
            failed.update(refused)
        return done

    def _write_all(
        self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]
    ) -> tuple[Done, dict[Partition, MigrateError]]:
        """Write what one database gets: what was written, and the partitions that failed."""
        done = Done()
        failed: dict[Partition, MigrateError] = {}
        for together in _in_groups(parts):
            if len(together) > 1 and (written := self._write_together(pool, database, together)) is not None:
                done.add(written)
                continue
            for part in together:
                try:
                    done.add(self._write(pool, database, part))
                except (StopError, OwnershipLost, Behind) as error:
                    failed[part.partition] = error
        return done, failed

    def _write_together(self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]) -> Done | None:
        """One transaction, so one flush of the server's disk, for all; None when they must be taken one by one."""
        try:
            written = self._apply(pool, database, parts)
        except Exception as error:  # also a defect: which partition meets it shows one by one
            told = error.message if isinstance(error, MigrateError) else mysql_errors.text(error)
            log.info("writing partition by partition", where=str(database.name), because=told)
            pool.drop(database)
            return None
        return written

    def _write(self, pool: TargetPool, database: TargetDatabase, part: Part) -> Done:
        """Write one part. Doing it twice ends the same: intents are states, and nobody else may write meanwhile."""
        refused = partial(self._refused, pool, database, part)
        return self._retry(pool, database, partial(self._apply, pool, database, [part]), refused)

    def _apply(self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]) -> Done:
        connection = pool.get(database)
        for part in parts:
            part.writes = self._owned[part.partition].writes.get(database, 0)
        try:
            leads = self._sides is None or self._sides.leads(connection, named(database))
            done = apply(connection, parts, self._last_tier, self._send(database), keep=self._keep, leads=leads)
        except NotStandby:
            if self._sides is None or not self._sides.is_active(connection, named(database)):
                raise
            self._sides.note([part.partition for part in parts], [one for part in parts for one in late(part)])
            return Done()
        for part in parts:
            self._note_applied(database, part)
        return done

    def _send(self, database: TargetDatabase) -> Send:
        def send(partition: Partition, left: Aftermath) -> None:
            with self._send_lock:
                self._sender.send(partition, database.name, left)

        return send

    def _retry(
        self,
        pool: TargetPool,
        database: TargetDatabase,
        action: Callable[[], T],
        refused: Callable[[BaseException], MigrateError | None] | None = None,
    ) -> T:
        """refused: what becomes of an error that does not pass; without it, the server's is raised."""
        where = f"{database.target}/{database.database}"
        return until_done(
            action,
            where,
            self._settings.consume,
            self._stop,
            again=lambda: pool.drop(database),
            refused=refused or partial(_explained, where),
        )

    def _look(self, pool: TargetPool, database: TargetDatabase, action: Callable[[], T]) -> T:
        """As `_retry`, of what only reads: what the target refuses is a StopError that names it."""

        def refused(error: BaseException) -> MigrateError:
            if isinstance(error, StopError):
                return error
            where, told = f"{database.target}/{database.database}", mysql_errors.text(error)
            return StopError(
                f"{where}: rows that a foreign key changed cannot be looked for: {told}",
                hint="ALTER the target tables as the source's were altered: the search is then tried again by itself",
                code=Code.TARGET,
            )

        return self._retry(pool, database, action, refused)

    def _refused(
        self, pool: TargetPool, database: TargetDatabase, part: Part, error: BaseException
    ) -> MigrateError | None:
        """Name the table, key and coordinate of a change the target does not take; None for a race that is over."""
        where = f"{database.target}/{database.database}"
        try:
            found = find_refused(pool.get(database), part)
        except Exception:  # what it was for is told below
            found = None
        text = mysql_errors.text(error)
        if found is None and mysql_errors.number(error) == mysql_errors.DUPLICATE_KEY:
            return None
        if found is None:
            return StopError(
                f"{where}: partition {part.partition.number}: the target refuses a batch: {text}", code=Code.TARGET
            )
        writer, intent, reason = found
        table, key = writer.table, key_json(intent.key)
        if why := self._planner.why_skipped(table, intent.key):
            part.aside[writer.name, intent.key, intent.coordinate] = SetAside(reason or text, why)
            log.warning(
                "a change is parked", where=f"{where}.{writer.name}", table=table.full_name, key=key, reason=why
            )
            return None
        return StopError(
            f"{where}.{writer.name}: the target refuses {table.full_name} key {key}"
            f" at {tuple(intent.coordinate)}: {reason or text}",
            hint=_mend(table.full_name, key, error),
            code=Code.TARGET,
        )

    def _note_applied(self, database: TargetDatabase, part: Part) -> None:
        owned = self._owned[part.partition]
        for source, coordinate in part.highest.items():
            if coordinate is not None:
                owned.applied.setdefault(source, {})[database] = coordinate
        owned.reached[database] = max(part.expected, part.end)
        owned.writes[database] = part.writes
        if part.end >= owned.behind.get(database, 0):
            owned.behind.pop(database, None)


def _explained(where: str, error: BaseException) -> MigrateError:
    return error if isinstance(error, StopError) else mysql_errors.explain(error, where)


def _bind(share: Share, versions: Mapping[TargetDatabase, int]) -> None:
    """Of rows that were read just now: they are written only while the databases' roles are what they were before."""
    for database, part in share.parts.items():
        part.version = versions.get(database)


def _lanes(plan: Plan) -> dict[str, int]:
    """By target server, how many of its databases are written at a time."""
    databases = Counter(database.target for database in plan.used_databases)
    return {target: min(count, plan.settings.connections.per_server) for target, count in databases.items()}


def _mend(table: str, key: str, error: BaseException) -> str:
    if mysql_errors.number(error) in _OTHER_COLUMNS:
        return f"ALTER every target table of {table} as the source's was altered: the change is tried again by itself"
    skip = f"migrate parked skip {table} '{key}' --reason …"
    return f"fix the target: the change is tried again by itself; or set the change aside: `{skip}`"


def _in_groups(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Neighbours that are small enough to be one transaction."""
    group: list[Part] = []
    size = 0
    for part in parts:
        if group and size + part.size > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(part)
        size += part.size
    if group:
        yield group


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
