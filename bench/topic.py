"""Watching a topic fill: when the first and the last message came, what the process that writes it used in between,
and how many rows are in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

_SAMPLE_SECONDS = 0.05
_QUIET_SECONDS = 2.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Run:
    """One way from the log to the topic."""

    rows: int  # that came after the first look at which there were any
    seconds: float
    cpu_seconds: float  # of the process, in that time
    cpu_before: float  # of the process, up to then
    peak_mb: float  # the most memory it had resident
    messages: int
    bytes: int

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_per_row(self) -> float:
        return self.cpu_seconds / self.rows

    def figures(self) -> dict[str, float]:
        return {
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rate),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "cpu_microseconds_per_row": round(1e6 * self.cpu_per_row, 2),
            "cpu_seconds_before": round(self.cpu_before, 2),
            "peak_mb": round(self.peak_mb),
            "messages": self.messages,
            "bytes": self.bytes,
        }


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mb(pid: int) -> float:
    """VmHWM: the most memory that was resident at once."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


class Topic:
    """One topic of the benchmark's broker."""

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._partitions = [TopicPartition(name, number) for number in range(partitions)]

    def create(self) -> None:
        topic = NewTopic(self.name, len(self._partitions), 1, config={"max.message.bytes": "8388608"})
        self._admin.create_topics([topic])[self.name].result()
        for _ in range(100):
            try:
                self.ends()
                break
            except KafkaException:  # it has no leader yet
                time.sleep(0.1)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()

    def ends(self) -> list[int]:
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(dict.fromkeys(self._partitions, latest))
        return [asked[partition].result().offset for partition in self._partitions]

    def watch(self, pid: int, rows: int, count: Callable[[dict[str, Any]], int], timeout: float) -> Run:
        """Wait until the process has written so many rows; `count` says how many a message has."""
        deadline = time.monotonic() + timeout
        empty = first = last = self._sample(pid)
        while True:
            time.sleep(_SAMPLE_SECONDS)
            now = self._sample(pid)
            if now.total == 0:
                empty = first = last = now
            elif last.total == 0:
                first = last = now
            elif now.total > last.total:
                last = now
            elif now.at - last.at > _QUIET_SECONDS:
                found, before, size = self._read(first.ends, last.ends, count)
                if found >= rows:
                    break
                last = Sample(now.at, last.cpu, last.ends, last.total)  # it was only slow: look again later
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {now.total} messages after {timeout:.0f} s")
        if found != rows:
            raise AssertionError(f"{self.name} has {found} rows, not {rows}")
        if last.total == first.total:  # all of it came between two looks
            first, before = empty, 0
        return Run(rows - before, last.at - first.at, last.cpu - first.cpu, first.cpu, peak_mb(pid), last.total, size)

    def _sample(self, pid: int) -> Sample:
        ends = self.ends()
        return Sample(time.monotonic(), cpu_seconds(pid), ends, sum(ends))

    def _read(self, first: list[int], ends: list[int], count: Callable[[dict[str, Any]], int]) -> tuple[int, int, int]:
        """Rows in the topic, those below the first offsets, and the bytes of all messages."""
        found = before = size = 0
        for message in self._raw(ends):
            value = message.value()
            rows = count(json.loads(value)) if value else 0
            found, size = found + rows, size + len(value or b"")
            if int(message.offset() or 0) < first[int(message.partition() or 0)]:
                before += rows
        return found, before, size

    def messages(self) -> Iterator[dict[str, Any]]:
        """Every message that it has now, parsed; those of one partition in their order."""
        return (json.loads(value) for message in self._raw(self.ends()) if (value := message.value()))

    def _raw(self, ends: list[int]) -> Iterator[Message]:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "bench", "log_level": 0})
        read = 0
        try:
            consumer.assign([TopicPartition(self.name, part.partition, 0) for part in self._partitions])
            while read < sum(ends):
                got = consumer.consume(10_000, timeout=10)
                read += len(got)
                yield from got
        finally:
            consumer.close()


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    cpu: float
    ends: list[int]
    total: int
