"""Of a consumer. Everything is counted once a batch, or where something rare happens."""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Gauge, Histogram

from migrate.metrics.registry import REGISTRY, TIMES
from migrate.metrics.weighted import Weighted
from migrate.model.message import Message, Op

received_messages = Counter(
    "migrate_received_messages", "Messages that were read and recorded, also again after a restart", registry=REGISTRY
)
received_bytes = Counter("migrate_received_bytes", "Bytes of these", registry=REGISTRY)
merged_messages = Counter("migrate_merged_messages", "Messages that were consumed", registry=REGISTRY)
changes = Counter("migrate_changes", "Row changes of these, by what was decided", ["decision"], registry=REGISTRY)
table_changes = Counter(
    "migrate_table_changes",
    "Row changes of the sources' tables that are at the targets",
    ["table", "operation"],
    registry=REGISTRY,
)
target_rows = Counter(
    "migrate_target_rows", "Rows at the targets, by what was done to them", ["operation"], registry=REGISTRY
)
set_aside = Counter(
    "migrate_set_aside", "Changes and messages that were set aside as a person had asked", ["what"], registry=REGISTRY
)
outdated_changes = Counter(
    "migrate_outdated_changes",
    "Row changes that the update-time filter skipped, as the target's row was newer",
    registry=REGISTRY,
)
partition_stops = Counter(
    "migrate_partition_stops", "How often a partition stopped for another reason", registry=REGISTRY
)
merge_seconds = Histogram("migrate_merge_seconds", "Time of a merge", buckets=TIMES, registry=REGISTRY)
transaction_seconds = Histogram(
    "migrate_target_transaction_seconds",
    "Time of a transaction at a target, its look-ups included",
    ["target"],
    buckets=TIMES,
    registry=REGISTRY,
)
queue_bytes = Gauge("migrate_queue_bytes", "Bytes of messages that wait for a merge, or are in one", registry=REGISTRY)
visible_lag = Weighted(
    "migrate_visible_lag_seconds",
    "From the commit of a change at the source until it is visible at the target, by message",
    (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
    REGISTRY,
)
_OPERATIONS = {op.value: op.value.lower() for op in Op}
for _what in ("parked", "skipped", "left out"):
    set_aside.labels(_what)  # 0, and not absent


def received(sizes: Iterable[int]) -> None:
    """Messages of one poll, by their bytes."""
    found = list(sizes)
    received_messages.inc(len(found))
    received_bytes.inc(sum(found))


def decided(messages: int, rows: int, repeats: int, foreign: int) -> None:
    """Of one partition's share of a batch, once it is at the target. rows: all changes in it."""
    merged_messages.inc(messages)
    changes.labels("repeat").inc(repeats)
    changes.labels("foreign").inc(foreign)
    changes.labels("taken").inc(rows - repeats - foreign)


def written(inserted: int, updated: int, deleted: int, empty: int, outdated: int = 0) -> None:
    target_rows.labels("inserted").inc(inserted)
    target_rows.labels("updated").inc(updated)
    target_rows.labels("deleted").inc(deleted)
    target_rows.labels("deferred").inc(empty)
    outdated_changes.inc(outdated)


def changed(messages: Iterable[Message]) -> None:
    """Of the logs, whose changes are at the targets now."""
    counts: Counts[tuple[str, str, str]] = Counts()
    for one in messages:
        if one.delay is None:  # else it was counted when it came first
            counts[one.database, one.table, one.type] += len(one.data)
    for (database, table, kind), count in counts.items():
        if kind in _OPERATIONS:
            table_changes.labels(f"{database}.{table}", _OPERATIONS[kind]).inc(count)


def visible(committed_ms: Iterable[int]) -> None:
    """Changes came to the target now. committed_ms: of each message, Unix milliseconds; 0 where it does not say."""
    now = time.time()
    counts = Counts(committed_ms)
    counts.pop(0, None)
    visible_lag.observe({max(0.0, now - at / 1000): count for at, count in counts.items()})


@contextmanager
def transaction(target: str) -> Iterator[None]:
    """Around one; one that fails is not counted."""
    began = time.monotonic()
    yield
    transaction_seconds.labels(target).observe(time.monotonic() - began)
