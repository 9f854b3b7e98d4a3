"""Step 4 of a merge: parts are written, each database in one transaction where it takes all; else each partition in one
of its own, tried again until it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial

import structlog

from migrate.merge.owned import OwnedPartition
from migrate.merge.skipped_rows import SkippedRows
from migrate.merge.standby_guard import StandbyGuard, late
from migrate.merge.take_over import named
from migrate.merge.target_sessions import TargetSessions, where_of
from migrate.metrics import consumer as measured
from migrate.model.change import NoChange, key_json
from migrate.model.errors import Code, MigrateError, OwnershipLost, ReadAgain, StopError
from migrate.mysql import errors as mysql_errors
from migrate.settings import Settings
from migrate.state.notes import Notes
from migrate.state.record import Partition
from migrate.target.owners import RowsNotAsked
from migrate.target.parked import SetAside
from migrate.target.part import Part, Send, apply, find_refused
from migrate.target.place import Aftermath, AppliedCounts
from migrate.target.pool import TargetPool
from migrate.target.requeue import AftermathSender
from migrate.target.roles import NotStandby
from migrate.target.routing import TargetDatabase

log = structlog.get_logger("migrate.merge")
_OTHER_COLUMNS = frozenset({1054, 1136, 1364})  # unknown column; column count; no default value
_TOGETHER = 5_000
"""Keys in one transaction of several partitions: below it, a flush costs more than what is done again if one fails."""


@dataclass(frozen=True, slots=True)
class Written:
    done: AppliedCounts
    failed: Mapping[Partition, MigrateError]  # what stopped a partition: StopError, OwnershipLost, or Behind


class Writer:
    """Databases are written side by side."""

    def __init__(
        self,
        settings: Settings,
        targets: TargetSessions,
        owned: Mapping[Partition, OwnedPartition],
        skipped: SkippedRows,
        sender: AftermathSender,
        sides: StandbyGuard | None,
        notes: Notes | None,
    ) -> None:
        """owned: changed by others meanwhile; it is noted there how far each database has come. sides: as `Merger`."""
        self._targets = targets
        self._owned = owned
        self._skipped = skipped
        self._sides = sides
        self._notes = notes
        self._keep = settings.consume.keep_decisions_seconds > 0
        self._last_tier = len(settings.delay.tiers_seconds) - 1
        self._sender = sender
        self._send_lock = threading.Lock()

    def write(self, work: Mapping[TargetDatabase, Sequence[Part]]) -> Written:
        """Raises: ServerError when stopping."""
        futures = [
            self._targets.lanes[database.target].submit(partial(self._write_all, database=database, parts=parts))
            for database, parts in work.items()
        ]
        wait(futures)
        done, failed = AppliedCounts(), dict[Partition, MigrateError]()
        for future in futures:
            written = future.result()
            done.add(written.done)
            failed.update(written.failed)
        return Written(done, failed)

    def _write_all(self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]) -> Written:
        """What one database gets."""
        done = AppliedCounts()
        failed: dict[Partition, MigrateError] = {}
        for together in _in_groups(parts):
            if len(together) > 1 and (written := self._write_together(pool, database, together)) is not None:
                done.add(written)
                continue
            for part in together:
                try:
                    done.add(self._write(pool, database, part))
                except (StopError, OwnershipLost, ReadAgain) as error:
                    failed[part.partition] = error
        return Written(done, failed)

    def _write_together(
        self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]
    ) -> AppliedCounts | None:
        """One transaction, so one flush of the server's disk, for all; None when they must be taken one by one."""
        try:
            written = self._apply(pool, database, parts)
        except Exception as error:  # also a defect: which partition meets it shows one by one
            told = error.message if isinstance(error, MigrateError) else mysql_errors.text(error)
            log.info("writing partition by partition", where=str(database.name), because=told)
            pool.drop(database)
            return None
        return written

    def _write(self, pool: TargetPool, database: TargetDatabase, part: Part) -> AppliedCounts:
        """Write one part. Doing it twice ends the same: intents are states, and nobody else may write meanwhile."""
        refused = partial(self._refused, pool, database, part)
        return self._targets.retry(pool, database, partial(self._apply, pool, database, [part]), refused)

    def _apply(self, pool: TargetPool, database: TargetDatabase, parts: Sequence[Part]) -> AppliedCounts:
        connection = pool.get(database)
        for part in parts:
            owned = self._owned[part.partition]
            notes = self._notes.count(part.partition) if self._notes is not None else None
            part.writes = owned.writes.get(database, 0)
            part.notes = None if owned.noted.get(database) == notes else notes
        try:
            leads = self._sides is None or self._sides.leads(connection, named(database))
            with measured.transaction(database.target):
                done = apply(connection, parts, self._last_tier, self._send(database), keep=self._keep, leads=leads)
        except RowsNotAsked as error:
            error.database = database
            raise
        except NotStandby:
            if self._sides is None or not self._sides.is_active(connection, named(database)):
                raise
            self._sides.note([part.partition for part in parts], [one for part in parts for one in late(part)])
            return AppliedCounts()
        for part in parts:
            self._note_applied(database, part)
        return done

    def _send(self, database: TargetDatabase) -> Send:
        def send(partition: Partition, left: Aftermath) -> None:
            with self._send_lock:
                self._sender.send(partition, database.name, left)

        return send

    def _refused(
        self, pool: TargetPool, database: TargetDatabase, part: Part, error: BaseException
    ) -> MigrateError | None:
        """Name the table, key and coordinate of a change the target does not take; None for a race that is over."""
        where = where_of(database)
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
        if why := self._skipped.why(table, intent.key):
            measured.set_aside.labels("parked").inc()
            part.aside[writer.name, intent.key, intent.origin] = SetAside(reason or text, why)
            log.warning(
                "a change is parked", where=f"{where}.{writer.name}", table=table.full_name, key=key, reason=why
            )
            return None
        at = "as its source has it" if intent.origin is NoChange.REFRESH else f"at {tuple(intent.coordinate)}"
        return StopError(
            f"{where}.{writer.name}: the target refuses {table.full_name} key {key} {at}: {reason or text}",
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
        if part.notes is not None:
            owned.noted[database] = part.notes
        if part.end >= owned.behind.get(database, 0):
            owned.behind.pop(database, None)


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
