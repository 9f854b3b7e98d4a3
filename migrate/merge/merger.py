"""The merger: what the queue held becomes rows at the target (DESIGN §6, seed 003 §25–28)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pymysql
import structlog

from migrate.merge.layouts import History
from migrate.merge.planner import Owned, Planner
from migrate.merge.retry import T, until_done
from migrate.model.change import key_json
from migrate.model.coordinate import Coordinate
from migrate.model.errors import MigrateError, StopError
from migrate.model.message import CANAL, Received
from migrate.mysql import errors as mysql_errors
from migrate.state.record import Consumed, Partition
from migrate.target import fence
from migrate.target.part import Done, EmptyDelete, Part, apply, find_refused
from migrate.target.plan import Plan, TargetDatabase, TargetPool
from migrate.target.requeue import DelaySender

log = structlog.get_logger("migrate.merge")
_OTHER_COLUMNS = frozenset({1054, 1136, 1364})  # unknown column; column count; no default value


class Merger:
    """Folds and writes batches. One thread per target database; failures are tried again in place."""

    def __init__(self, plan: Plan, sender: DelaySender, stop: threading.Event, history: History | None = None) -> None:
        self._planner = Planner(plan, history)
        self._settings = plan.settings
        self._sender = sender
        self._send_lock = threading.Lock()
        self._busy = threading.Lock()
        self._stop = stop
        self._owned: dict[Partition, Owned] = {}
        self._pool = {database: TargetPool(plan.settings) for database in plan.used_databases}
        self._threads = ThreadPoolExecutor(max(1, len(self._pool)), thread_name_prefix="target")

    def take(self, partition: Partition, epoch: int, watermark: dict[str, Coordinate]) -> None:
        """Become the writer of a partition: raise the fence in every target database (rule 8)."""
        owned = Owned(partition, epoch, watermark)
        sources = [*(source.name for source in self._settings.sources), CANAL]
        with self._busy:
            for database in self._pool:
                raise_fence = partial(self._raise_fence, database, partition, sources, epoch)
                for source, coordinate in self._retry(database, raise_fence).items():
                    owned.applied.setdefault(source, {})[database] = coordinate
            self._owned[partition] = owned

    def _raise_fence(
        self, database: TargetDatabase, partition: Partition, sources: Sequence[str], epoch: int
    ) -> dict[str, Coordinate | None]:
        return fence.take(self._pool[database].get(database), partition, sources, epoch)

    def drop(self, partition: Partition) -> None:
        """Stop writing a partition."""
        with self._busy:
            self._owned.pop(partition, None)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for pool in self._pool.values():
            pool.close()

    def merge(self, batch: Sequence[Received]) -> tuple[list[Consumed], Done]:
        """Apply one swapped list.

        1. drop repeats by the watermark; 2. fold by place and key; 3. split by database and partition (`Planner`);
        4. write, each part in one transaction, tried again until it is done. Returns what is consumed now and what was
        written.
        Raises: StopError for a change that cannot be applied, OwnershipLost, ServerError when stopping.
        """
        with self._busy:
            return self._merge(batch)

    def _merge(self, batch: Sequence[Received]) -> tuple[list[Consumed], Done]:
        self._planner.layouts.refresh()
        work: dict[TargetDatabase, list[Part]] = {}
        consumed = []
        for partition, items in _by_partition(batch).items():
            parts, done = self._planner.plan_partition(self._owned[partition], items)
            consumed.append(done)
            for database, part in parts.items():
                work.setdefault(database, []).append(part)
        written = self._write_parallel(work)
        for done in consumed:
            self._owned[done.partition].watermark.update(done.highest)
        for database, database_parts in work.items():
            for part in database_parts:
                self._note_applied(database, part)
        return consumed, written

    # -- writing

    def _write_parallel(self, work: Mapping[TargetDatabase, list[Part]]) -> Done:
        futures = [self._threads.submit(self._write_all, database, parts) for database, parts in work.items()]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if isinstance(error, StopError)), errors[0])
        done = Done()
        for future in futures:
            done.add(future.result())
        return done

    def _write_all(self, database: TargetDatabase, parts: Iterable[Part]) -> Done:
        done = Done()
        for part in parts:
            done.add(self._write(database, part))
        return done

    def _write(self, database: TargetDatabase, part: Part) -> Done:
        """Write one part. Doing it twice ends the same: intents are states, and nobody else may write meanwhile."""
        last_tier = len(self._settings.delay.tiers_seconds) - 1

        def requeue(empties: Sequence[EmptyDelete]) -> None:
            with self._send_lock:
                self._sender.send(part.partition, database.name, empties)

        return self._retry(database, lambda: apply(self._pool[database].get(database), part, last_tier, requeue), part)

    def _retry(self, database: TargetDatabase, action: Callable[[], T], part: Part | None = None) -> T:
        where = f"{database.target}/{database.database}"
        return until_done(
            action,
            where,
            self._settings.consume,
            self._stop,
            again=lambda: self._pool[database].drop(database),
            refused=lambda error: self._refused(database, part, error),
        )

    def _refused(self, database: TargetDatabase, part: Part | None, error: BaseException) -> MigrateError | None:
        """Name the table, key and coordinate of a change the target does not take; None for a race that is over."""
        where = f"{database.target}/{database.database}"
        if part is None:
            return error if isinstance(error, StopError) else mysql_errors.explain(error, where)
        try:
            found = find_refused(self._pool[database].get(database), part)
        except (pymysql.MySQLError, OSError, MigrateError):
            found = None
        text = mysql_errors.text(error)
        if found is None and mysql_errors.number(error) == mysql_errors.DUPLICATE_KEY:
            return None
        if found is None:
            return StopError(f"{where}: partition {part.partition.number}: the target refuses a batch: {text}")
        writer, intent, reason = found
        return StopError(
            f"{where}.{writer.name}: the target refuses {writer.table.full_name} key {key_json(intent.key)}"
            f" at {tuple(intent.coordinate)}: {reason or text}",
            hint=_mend(writer.table.full_name, error),
        )

    def _note_applied(self, database: TargetDatabase, part: Part) -> None:
        for source, coordinate in part.highest.items():
            if coordinate is not None:
                self._owned[part.partition].applied.setdefault(source, {})[database] = coordinate


def _mend(table: str, error: BaseException) -> str:
    if mysql_errors.number(error) in _OTHER_COLUMNS:
        return f"ALTER every target table of {table} as the source's was, and start the consumer again"
    return "mend the target and start the consumer again; nothing behind it was applied"


def _by_partition(batch: Iterable[Received]) -> dict[Partition, list[Received]]:
    parts: dict[Partition, list[Received]] = {}
    for item in batch:
        parts.setdefault(item.partition, []).append(item)
    return parts
