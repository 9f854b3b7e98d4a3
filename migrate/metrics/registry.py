"""Where the metrics of this process are."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

TIMES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets of what takes time, seconds."""
