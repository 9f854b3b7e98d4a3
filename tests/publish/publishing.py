"""A source with one table, and what a publisher of it puts into the topic.

The publisher is the real one, in a thread; what came out is read from the topic by a plain Kafka consumer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import sqlalchemy as sa
from confluent_kafka import Consumer, TopicPartition

from migrate.commands.init import initialise
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model import process_names
from migrate.model.partition import Partition
from migrate.publish.publisher import Publisher
from migrate.settings import Settings, parse
from migrate.state import compared, database, migration, position
from migrate.state.lease import HeldLease, Leases
from migrate.state.position import Position
from migrate.target.stored_plan import stored_plan
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from tests.helpers import address, unique
from tests.waiting import SLOW


class Publishing:
    """`t (id, v)` on `source`, with state and target on `other`; partitions: 1, so that the order is the topic's."""

    def __init__(
        self, source: DatabaseServer, other: DatabaseServer, kafka: KafkaBroker, *, partitions: int = 1, **publish: Any
    ) -> None:
        self.source, self.other, self.kafka = source, other, kafka
        self.name = unique("publishing")
        self.database = f"{self.name}_src"
        source.execute(
            f"CREATE DATABASE {self.database}", f"CREATE TABLE {self.database}.t (id INT PRIMARY KEY, v VARCHAR(50))"
        )
        self.raw: dict[str, Any] = {
            "name": self.name,
            "state": {**address(other), "database": f"{self.name}_state"},
            "sources": [{"name": "main", **address(source)}],
            "targets": [{"name": "t0", **address(other)}],
            "databases": {"ds_0": {"target": "t0", "database": f"{self.name}_target"}},
            "kafka": {"bootstrap": kafka.bootstrap, "partitions": partitions},
            "tables": [{"name": f"{self.database}.t", "sharding": {"nodes": "ds_0.t"}}],
            "publish": {"flush_seconds": 0.1, "heartbeat_seconds": 0.2, **publish},
            "lease": {"seconds": 5},
        }
        initialise(self.settings)
        self.state = database.engine(self.settings.state)

    @property
    def settings(self) -> Settings:
        return parse(self.raw, {})

    def sql(self, *statements: str) -> None:
        self.source.execute(*statements, database=self.database)

    def close(self) -> None:
        self.state.dispose()
        self.source.execute(f"DROP DATABASE IF EXISTS {self.database}")
        for part in ("state", "target"):
            self.other.execute(f"DROP DATABASE IF EXISTS {self.name}_{part}")

    # -- the publisher

    @contextmanager
    def lease(self) -> Iterator[tuple[Leases, HeldLease, threading.Event]]:
        """The publisher's, and what stops who has it."""
        stop = threading.Event()
        with closing(Leases(self.state, self.name, self.settings.lease.seconds).start()) as leases:
            held = leases.wait(process_names.publisher("main"), stop)
            assert held is not None
            yield leases, held, stop

    def publisher(self, leases: Leases, held: HeldLease, stop: threading.Event) -> Publisher:
        """One that has begun, and read nothing."""
        settings = self.settings
        planned = {key[1:]: one for key, one in stored_plan(settings, self.state).tables.items()}
        return Publisher(settings, "main", planned, self.state, leases, held, stop)

    @contextmanager
    def running(self) -> Iterator[Publisher]:
        """A publisher for the time of the block. Raises what it raised."""
        failed: list[BaseException] = []
        with self.lease() as (leases, held, stop):
            publisher = self.publisher(leases, held, stop)

            def run() -> None:
                try:
                    publisher.run()
                except BaseException as error:
                    failed.append(error)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            self._failed = failed
            try:
                yield publisher
            finally:
                stop.set()
                thread.join(30)
                assert not thread.is_alive()
        if failed:
            raise failed[0]

    def until(self, condition: Callable[[], Any], what: str, seconds: float = SLOW) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if self._failed:
                return  # `running` raises it
            assert time.monotonic() < deadline, f"waited {seconds} s for {what}: {self.keys()}, {self.position}"
            time.sleep(0.05)

    def publish(self, *keys: int) -> None:
        """Run a publisher until the topic ends with these keys, and the position is behind them."""
        with self.running():
            self.until(lambda: self.keys()[-len(keys) :] == list(keys), f"the topic to end with {keys}")
            self.until_at_end()

    def until_at_end(self) -> None:
        end = self.log_end()
        self.until(lambda: (found := self.position) and (found.file, found.pos) >= end, f"the position to reach {end}")

    def log_end(self) -> tuple[str, int]:
        sql = "SHOW MASTER STATUS" if self.source.flavour == "mariadb" else "SHOW BINARY LOG STATUS"
        file, pos = self.source.query(sql)[0][:2]
        return str(file), int(pos)

    # -- what came out

    @property
    def position(self) -> Position | None:
        with self.state.connect() as connection:
            return position.load(connection, self.name, "main")

    def store(self, stored: Position) -> None:
        with self.state.begin() as connection:
            position.save(connection, self.name, stored)

    def messages(self, partition: int = 0) -> list[dict[str, Any]]:
        """Every message of a partition."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": "tests", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(self.settings.topic, partition, 0)])
        found: list[dict[str, Any]] = []
        try:
            while (message := consumer.poll(10.0)) is not None and message.error() is None:
                found.append(json.loads(message.value() or b"{}"))
            return found
        finally:
            consumer.close()

    def keys(self) -> list[int]:
        return [int(row["id"]) for message in self.messages() for row in message["data"] or ()]

    def effective_keys(self) -> list[int]:
        """The keys without repeats: coordinates not above all earlier ones (invariant repeats-by-coordinate)."""
        found, mark = [], (0, 0, 0, -1)
        for key, coordinate in zip(self.keys(), self.coordinates(), strict=True):
            if coordinate > mark:
                found.append(key)
                mark = coordinate
        return found

    def coordinates(self) -> list[tuple[int, int, int, int]]:
        return [
            (pos["inc"], pos["file"], pos["tx"], row)
            for pos in (message["pos"] for message in self.messages())
            for row in pos["rows"]
        ]

    def scalar(self, sql: str) -> Any:
        with self.state.connect() as connection:
            return connection.execute(sa.text(sql)).scalar()


def with_reverse(source: DatabaseServer, other: DatabaseServer, kafka: KafkaBroker) -> Publishing:
    """Of a migration that has a reverse stream; its publisher never ran."""
    made = Publishing(source, other, kafka)
    initialise(reversed_settings(made.settings, stored_plan(made.settings, made.state)), reverse_of=made.name)
    return made


def note_equal(main: Publishing) -> None:
    """All counts as equal, as after a clean verification."""
    with main.state.begin() as connection:
        (topic,) = migration.get(connection, main.name).topics
        compared.note(connection, main.name, {Partition(main.name, topic.id, 0): 0})


def equal(main: Publishing) -> bool:
    with main.state.connect() as connection:
        return bool(compared.load(connection, main.name))
