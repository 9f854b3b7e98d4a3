"""As test_stream_model, on real target servers: the real merger, writer, fences and ledgers; only Kafka is missing.

Beside the stream a copy brings the rows that were there, table by table, as they were at any moment: before or behind
what the stream has applied. Until then every delete leaves a ledger entry, and those that found nothing come back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrate.merge.merger import Merger
from migrate.merge.writer import Written
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Received, Row, encode
from migrate.model.message_reader import decode
from migrate.mysql.connection import Connection
from migrate.state.record import Partition
from migrate.target import chunk_fence, ledger
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.part import Part
from migrate.target.place import Aftermath, EmptyDelete
from migrate.target.reached import Claim
from migrate.target.requeue import delayed_message
from migrate.target.routing import Plan, TargetDatabase
from migrate.target.rows import PlaceWriter
from sandbox.stack import Sandbox
from tests.helpers import address, service_tables, session, unique
from tests.property import stream


class KilledError(StopError):
    """Instead of a SIGKILL between two databases' transactions."""


class Delays:
    """In place of the delay topics: what is sent comes back to its partition when it is asked for.

    A row that made way for a unique value was copied as it is later in the topic: its own change brings it back there,
    without the refresh that is asked for it.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[int, str, EmptyDelete]] = []

    def send(self, partition: Partition, database: str, left: Aftermath) -> None:
        self.waiting += [(partition.number, database, empty) for empty in left.empties]


class KillableMerger(Merger):
    """Dies instead of writing to a database named in `dying`."""

    dying: frozenset[str] = frozenset()

    def _write(self, work: Mapping[TargetDatabase, Sequence[Part]]) -> Written:
        written = super()._write({one: parts for one, parts in work.items() if one.name not in self.dying})
        if any(one.name in self.dying for one in work):
            raise KilledError("killed")
        return written


@dataclass
class World:
    """What outlives a crash besides the databases."""

    topic: list[list[bytes]]
    migration: str
    next: list[int] = field(default_factory=list)
    watermark: list[dict[str, Coordinate]] = field(default_factory=list)
    delays: Delays = field(default_factory=Delays)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.next = [0] * len(self.topic)
        self.watermark = [{} for _ in self.topic]

    @property
    def done(self) -> bool:
        return self.next == [len(messages) for messages in self.topic]

    def requeue(self) -> None:
        """Every delayed delete is due."""
        for partition, database, empty in self.delays.waiting:
            self.topic[partition].append(encode(delayed_message(empty, database, 0)))
        self.delays.waiting.clear()


class Targets:
    """Two databases, one on each target server, with the three tables twice in each."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.names = [unique("prop"), unique("prop")]
        self.plan: Plan = stream.plan(
            targets=[{"name": f"t{number}", **address(server)} for number, server in enumerate(box.targets)],
            databases={f"ds_{number}": {"target": f"t{number}", "database": self.names[number]} for number in (0, 1)},
            consume={"retry_seconds": 0.01, "lookup_keys": 2, "write_rows": 2},
        )
        for server, name in zip(box.targets, self.names, strict=True):
            server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            server.execute(*service_tables("m"), database=name)
            for place in self.places:
                table = place.rsplit("_", 1)[0]
                key = "VARCHAR(9) COLLATE utf8mb4_general_ci" if table == "text" else "INT"
                more = ", UNIQUE (v)" if table == "uniq" else ""
                server.execute(
                    f"CREATE TABLE {place} (id {key} PRIMARY KEY, shard INT, v VARCHAR(9){more})", database=name
                )

    @property
    def places(self) -> list[str]:
        return [f"{table}_{number}" for table in stream.TABLES for number in (0, 1)]

    def clear(self) -> None:
        tables = (*self.places, "_migrate_fence", "_migrate_chunk_fence", "_migrate_ledger")
        for server, name in zip(self.box.targets, self.names, strict=True):
            server.execute(*(f"DELETE FROM {table}" for table in tables), database=name)

    def copy(self, number: int, table: str, rows: dict[str, list[Row]]) -> None:
        """What the full copy does in one database: insert what is absent, take out what the ledger names, close."""
        planned = self.plan.tables[("s", "shop", table)]
        wanted = stream.routed(self.plan, {table: rows[table]})
        with session(self.box.targets[number], self.names[number]) as connection:
            for place in planned.places:
                if place.database.name != f"ds_{number}":
                    continue
                writer = PlaceWriter(planned.table, place.table)
                with connection.transaction():
                    for row in wanted[(place.database.name, place.table)]:
                        self._insert_absent(connection, writer, row)
                    for entry in ledger.locked(connection, "m", planned.table, place.table):
                        writer.delete(connection, [entry.key])
            whole = Chunk(WHOLE_TABLE, None, None)
            chunk_fence.open_attempt(connection, "m", planned.table, whole, 1)
            chunk_fence.close(connection, "m", planned.table, [WHOLE_TABLE])

    def _insert_absent(self, connection: Connection, writer: PlaceWriter, row: Row) -> None:
        connection.execute("SAVEPOINT one")
        try:
            writer.insert(connection, [row])
        except pymysql.IntegrityError:  # the key is there, or another row has the unique value: the stream's is newer
            connection.execute("ROLLBACK TO SAVEPOINT one")

    def rows(self) -> dict[tuple[str, str], list[Row]]:
        found: dict[tuple[str, str], list[Row]] = {}
        for number, (server, name) in enumerate(zip(self.box.targets, self.names, strict=True)):
            for place in self.places:
                rows = server.query(f"SELECT id, shard, v FROM {name}.{place}")
                found[(f"ds_{number}", place)] = [{"id": str(a), "shard": str(b), "v": str(c)} for a, b, c in rows]
        return found

    def waiting(self, migration: str) -> int:
        total = 0
        for server, name in zip(self.box.targets, self.names, strict=True):
            with session(server, name) as connection:
                total += ledger.waiting(connection, migration)
        return total

    def drop(self) -> None:
        for server, name in zip(self.box.targets, self.names, strict=True):
            server.execute(f"DROP DATABASE {name}")


@pytest.fixture(scope="module")
def targets(box: Sandbox) -> Iterator[Targets]:
    made = Targets(box)
    yield made
    made.drop()


def start(targets: Targets, world: World) -> KillableMerger:
    """A new process: it takes every partition under a new epoch."""
    merger = KillableMerger(targets.plan, world.delays, threading.Event())  # type: ignore[arg-type]
    world.epoch += 1
    for number in range(len(world.topic)):
        claim = Claim(Partition("m", world.migration, number), world.epoch, "h")
        merger.take(claim, dict(world.watermark[number]), {})
    return merger


def merge(merger: KillableMerger, world: World, reads: list[int]) -> None:
    """Up to `reads[partition]` further messages of each partition become rows, and are marked consumed."""
    batch = [
        Received(Partition("m", world.migration, number), offset, 0, decode(messages[offset], "t", offset))
        for number, messages in enumerate(world.topic)
        for offset in range(world.next[number], min(world.next[number] + reads[number], len(messages)))
    ]
    merged = merger.merge(batch)
    assert merged.failed == {}
    for done in merged.consumed:
        world.next[done.partition.number] = done.end
        world.watermark[done.partition.number].update(done.highest)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_the_targets_end_as_the_source(targets: Targets, data: st.DataObject) -> None:
    source = data.draw(stream.sources(least=2, most=6), label="source")
    world = World(data.draw(stream.topics(source), label="topic"), unique("topic"))
    uncopied = [(number, table) for number in (0, 1) for table in stream.TABLES]
    targets.clear()
    merger = start(targets, world)
    kills = 0
    try:
        while not world.done:
            for _ in range(data.draw(st.integers(0, len(uncopied)), label="copies")):
                number, table = uncopied.pop(data.draw(st.integers(0, len(uncopied) - 1), label="copied"))
                targets.copy(number, table, data.draw(st.sampled_from(source.history), label="as it was"))
            most = max(len(messages) for messages in world.topic)
            reads = [most - data.draw(st.integers(0, most), label="left") for _ in world.topic]
            dying = data.draw(st.sampled_from([None, None, "ds_0", "ds_1"]), label="dying") if kills < 3 else None
            merger.dying = frozenset([dying] if dying else [])
            try:
                merge(merger, world, reads)
                if kills < 3 and data.draw(st.booleans(), label="killed after"):
                    raise KilledError("killed")
            except KilledError:
                kills += 1
                merger.close()
                merger = start(targets, world)
            if data.draw(st.booleans(), label="due"):
                world.requeue()
        merger.dying = frozenset()
        for number, table in uncopied:
            targets.copy(number, table, data.draw(st.sampled_from(source.history), label="as it was"))
        for _ in range(3):
            world.requeue()
            merge(merger, world, [len(messages) for messages in world.topic])
    finally:
        merger.close()
    assert stream.differences(stream.expected(targets.plan, source), targets.rows()) == {}
    assert targets.waiting("m") == 0
