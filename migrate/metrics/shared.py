"""What any process may count."""

from __future__ import annotations

from prometheus_client import Counter

from migrate.metrics.registry import REGISTRY

lease_changes = Counter(
    "migrate_lease_changes", "Leases that this process took, or lost to another one", ["change"], registry=REGISTRY
)
target_retries = Counter(
    "migrate_target_retries", "Writes at a target that failed and were tried again", ["target"], registry=REGISTRY
)
committed_records = Counter("migrate_committed_records", "Messages whose offsets were committed", registry=REGISTRY)
for _change in ("taken", "lost"):
    lease_changes.labels(_change)  # 0, and not absent


def lease_taken() -> None:
    lease_changes.labels("taken").inc()


def lease_lost() -> None:
    lease_changes.labels("lost").inc()


def retried(where: str) -> None:
    """where: target/database."""
    target_retries.labels(where.partition("/")[0]).inc()
