"""A histogram that takes many values at once: the library's takes one, under a lock, and a batch has thousands."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric


class Weighted:
    """Without labels. bounds: upper ones of the buckets, rising."""

    def __init__(self, name: str, help_: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name = name
        self._help = help_
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, counts: Mapping[float, int]) -> None:
        """How often each value was seen."""
        with self._lock:
            for value, count in counts.items():
                self._counts[bisect_left(self._bounds, value)] += count
                self._sum += value * count

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            counts, total = list(self._counts), self._sum
        buckets, below = [], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, float(below)))
        family = HistogramMetricFamily(self._name, self._help)
        family.add_metric((), buckets, total)
        yield family
