"""A consumer on a real broker and a real state, with a writer that only notes what it is given."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from confluent_kafka import Producer

from migrate.consume.consumer import Consumer
from migrate.kafka import admin
from migrate.merge.merger import Merged
from migrate.model.coordinate import Coordinate
from migrate.model.errors import MigrateError
from migrate.model.message import Message, Received, encode
from migrate.settings import Settings, State
from migrate.state import migration as migrations
from migrate.state import record, stop_reason
from migrate.state.lease import Leases
from migrate.state.migration import Migration, Topic
from migrate.state.reached import DatabaseName
from migrate.state.record import Consumed, Partition
from migrate.target.place import AppliedCounts
from migrate.target.reached import NOTHING, Claim, ReachedBefore, Remaining
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, unique
from tests.waiting import until as until

PARTITIONS = 2


@dataclass
class FakeWriter:
    """In place of the merger: keeps what it is given. `gate` holds a merge up, `failing` are partitions it refuses."""

    taken: list[tuple[int, int, Mapping[str, Coordinate]]] = field(default_factory=list)
    merged: list[list[Received]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    failing: dict[int, MigrateError] = field(default_factory=dict)
    behind: dict[DatabaseName, int] = field(default_factory=dict)  # what these databases have of each partition
    active: bool = False  # whether applications write there
    most: dict[int, int] = field(default_factory=dict)  # what the foremost database has of a partition
    noted: dict[int, int] = field(default_factory=dict)  # how many notes the databases were told of a partition

    def __post_init__(self) -> None:
        self.gate.set()

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None = None,
    ) -> ReachedBefore:
        self.taken.append((claim.partition.number, claim.epoch, watermark))
        behind = {one: Remaining(has, self.active) for one, has in self.behind.items() if has < had.get(one, 0)}
        number = claim.partition.number
        return ReachedBefore(behind, self.most.get(number, NOTHING), self.noted.get(number, 0))

    def drop(self, partition: Partition) -> None:
        self.dropped.append(partition.number)

    def find_behind(self) -> dict[Partition, MigrateError]:
        return {}

    def rounds(self, batch: Sequence[Received]) -> Sequence[Sequence[Received]]:
        return (batch,)

    def merge(self, batch: Sequence[Received]) -> Merged:
        self.merged.append(list(batch))
        self.gate.wait(30)
        done, failed = [], {}
        for partition in sorted({item.partition for item in batch}, key=lambda each: each.number):
            mine = [item for item in batch if item.partition == partition]
            highest = {"s": mine[-1].message.coordinate}
            if error := self.failing.get(partition.number):
                failed[partition] = error
            else:
                last = mine[-1].message.identity
                done.append(
                    Consumed(
                        partition, mine[-1].offset + 1, highest, len(mine), len(mine), 0, mine[0].offset, last=last
                    )
                )
        return Merged(done, AppliedCounts(), failed)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return [(item.partition.number, item.offset) for batch in self.merged for item in batch]


class World:
    """A migration with a topic of its own."""

    def __init__(self, kafka: KafkaBroker, state_settings: State, state: sa.Engine) -> None:
        self.name = unique("consumer")
        self.kafka = kafka
        self.state = state
        self.state_settings = state_settings
        self.settings = self.make()
        admin.create_topic(self.settings.kafka, self.name, PARTITIONS)
        found = admin.require(self.settings.kafka, self.name)
        with state.begin() as connection:
            migrations.create(connection, Migration(self.name, (Topic(self.name, found.id, PARTITIONS),)), "")
        self.topic_id = found.id
        self.sent = [0] * PARTITIONS

    def make(self, **consume: object) -> Settings:
        quick = {"merge_interval_seconds": 0.05, "idle_seconds": 0.1, **consume}
        kafka = {"bootstrap": self.kafka.bootstrap, "topic": self.name, "group": self.name}
        return make_settings(name=self.name, kafka=kafka, consume=quick)

    def send(self, partition: int, count: int, raw: bytes | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for _ in range(count):
            number = self.sent[partition]
            message = Message("shop", "t", "INSERT", ({"id": str(number)},), "s", 1, 1, number, (0,))
            producer.produce(self.name, partition=partition, value=encode(message) if raw is None else raw)
            self.sent[partition] += 1
        assert producer.flush(20) == 0

    def states(self, partition: int) -> list[int]:
        """How many records are new, consumed, committed."""
        with self.state.connect() as connection:
            rows = connection.execute(
                sa.select(record.table.c.state).where(
                    record.table.c.topic_id == self.topic_id, record.table.c.partition_no == partition
                )
            )
            found = [row[0] for row in rows]
        return [found.count(number) for number in (0, 1, 2)]

    def halted(self) -> dict[int, str]:
        """Why partitions are stopped, by number."""
        with self.state.connect() as connection:
            found = stop_reason.every(connection, self.name)
        return {int(process.rpartition("[")[2][:-1]): reason for process, reason, *_ in found}

    def halted_at(self, partition: int) -> datetime:
        """When it was noted last that a partition is stopped."""
        with self.state.connect() as connection:
            found = stop_reason.every(connection, self.name)
        return next(one.at for one in found if one.process.endswith(f"[{partition}]"))

    def consumed(self, partition: int) -> int | None:
        with self.state.connect() as connection:
            return record.next_offset(connection, Partition(self.name, self.topic_id, partition))


class Process:
    """A consumer running in a thread."""

    def __init__(self, world: World, writer: FakeWriter, lease: float = 30.0, **consume: object) -> None:
        self.stop = threading.Event()
        self.leases = Leases(world.state, world.name, lease).start()
        self.consumer = Consumer(world.make(**consume), world.state, self.leases, writer, self.stop)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.consumer.run()
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        self.leases.close()
        assert self.failure is None
