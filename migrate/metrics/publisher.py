"""Of a publisher: what its batches have added up is taken over at each flush."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import Counter, Histogram

from migrate.metrics.registry import REGISTRY, TIMES

_SOURCE = ["source"]
rows = Counter("migrate_published_rows", "Rows that Kafka acknowledged", _SOURCE, registry=REGISTRY)
transactions = Counter(
    "migrate_published_transactions", "Ends of transactions that are behind the position", _SOURCE, registry=REGISTRY
)
batches = Counter("migrate_published_batches", "Batches that Kafka acknowledged", _SOURCE, registry=REGISTRY)
binlog_bytes = Counter(
    "migrate_published_binlog_bytes", "Bytes of the binlog that the position moved over", _SOURCE, registry=REGISTRY
)
rollbacks = Counter(
    "migrate_publisher_rollbacks", "How often it went back to the acknowledged position", _SOURCE, registry=REGISTRY
)
acknowledgement_seconds = Histogram(
    "migrate_kafka_acknowledgement_seconds",
    "From handing a batch to the Kafka client to its acknowledgement; of one batch at a time",
    _SOURCE,
    buckets=TIMES,
    registry=REGISTRY,
)


class Delivered(Protocol):
    """What batches have added up since they are there; `waits` is emptied by whoever reads it."""

    rows: int
    transactions: int
    acknowledgements: int
    waits: list[float]


class PublisherMetrics:
    """Of one source."""

    def __init__(self, source: str, file: str, pos: int) -> None:
        self._source = source
        self._at = file, pos
        self._seen = 0, 0, 0
        rollbacks.labels(source)  # 0, and not absent

    def take_over(self, done: Delivered, file: str, pos: int) -> None:
        """file, pos: of the acknowledged position."""
        now = done.rows, done.transactions, done.acknowledgements
        for counter, value, before in zip((rows, transactions, batches), now, self._seen, strict=True):
            counter.labels(self._source).inc(value - before)
        self._seen = now
        before_file, before_pos = self._at
        binlog_bytes.labels(self._source).inc(max(0, pos - before_pos if file == before_file else pos))
        self._at = file, pos
        waits, done.waits = done.waits, []
        for seconds in waits:
            acknowledgement_seconds.labels(self._source).observe(seconds)

    def rolled_back(self) -> None:
        rollbacks.labels(self._source).inc()
