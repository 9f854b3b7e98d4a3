"""Any changes, in any batches, redelivered from any record, end as the source. Without servers: the target is a dict.

Real: the emitter, the messages' bytes, the steps of a merge that ask nobody (repeats, folding, splitting) and `decide`.
In memory: the topic, the state's rows and the target's, whose transaction is all or nothing and raises its fence
(invariant fenced-writer).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.merge.owned import OwnedPartition
from migrate.model.coordinate import Coordinate
from migrate.model.message import Received, Row
from migrate.model.message_reader import decode
from migrate.state.record import Consumed, Partition
from migrate.target.decide import Intent, Write, decide
from migrate.target.part import Part
from migrate.target.reached import Claim
from migrate.target.routing import TargetDatabase
from tests.merge.steps import Steps
from tests.property import stream

PLAN = stream.plan()


@dataclass
class Database:
    """Rows of each table by key as the server compares it, and a fence a partition."""

    rows: dict[str, dict[str, Row]] = field(default_factory=lambda: defaultdict(dict))
    fence: dict[int, Coordinate] = field(default_factory=dict)

    def write(self, part: Part) -> None:
        at = part.highest["s"]
        assert at is not None
        assert self.fence.get(part.partition.number, Coordinate(-1, 0, 0, 0)) < at, "a fence only rises"
        self.fence[part.partition.number] = at
        for work in part.work:
            table = work.writer.table
            for intents in [work.intents] if table.key_is_exact else [[intent] for intent in work.intents]:
                self._step(table.name, self.rows[work.writer.name], intents, at)

    def _step(self, table: str, rows: dict[str, Row], intents: list[Intent], at: Coordinate) -> None:
        chosen: dict[Write, list[Intent]] = defaultdict(list)
        for intent in intents:
            assert intent.coordinate <= at
            present = stream.same(table, intent.key[0]) in rows
            chosen[decide(intent.row is not None, present, False).write].append(intent)
        for intent in [*chosen[Write.DELETE], *chosen[Write.UPDATE]]:
            del rows[stream.same(table, intent.key[0])]
        for intent in [*chosen[Write.UPDATE], *chosen[Write.INSERT]]:
            assert intent.row is not None
            assert stream.same(table, intent.key[0]) not in rows, "a key is written once a step"
            if table == "uniq":
                assert all(row["v"] != intent.row["v"] for row in rows.values()), "a unique value is never there twice"
            rows[stream.same(table, intent.key[0])] = intent.row


class World:
    """What outlives a crash: the topic, the consumed prefixes with their watermarks, and the databases."""

    def __init__(self, source: stream.Source, topic: list[list[bytes]]) -> None:
        self.topic = topic
        self.next = [0] * len(topic)
        self.watermark: list[dict[str, Coordinate]] = [{} for _ in topic]
        self.databases = {database: Database() for database in PLAN.used_databases}
        by_name = {database.name: there for database, there in self.databases.items()}
        for (database, place), rows in stream.routed(PLAN, source.history[0]).items():  # copied before
            table = place.rsplit("_", 1)[0]
            by_name[database].rows[place] = {stream.same(table, str(row["id"])): row for row in rows}

    @property
    def done(self) -> bool:
        return self.next == [len(messages) for messages in self.topic]

    def rows(self) -> dict[tuple[str, str], list[Row]]:
        return {
            (database.name, table): list(rows.values())
            for database, there in self.databases.items()
            for table, rows in there.rows.items()
        }


class Process:
    """A consumer from its start until it ends or is killed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read = list(world.next)
        self._steps = Steps(PLAN)
        self._owned = [
            OwnedPartition(
                Claim(Partition("m", "topic", number), 1, "h"),
                dict(world.watermark[number]),
                {"s": {name: database.fence.get(number) for name, database in world.databases.items()}},
            )
            for number in range(len(world.topic))
        ]

    def merge(self, data: st.DataObject, killed: bool) -> None:
        """One batch; `killed`: somewhere between its first write and the last mark."""
        plans: list[tuple[dict[TargetDatabase, Part], Consumed]] = []
        for number, messages in enumerate(self._world.topic):
            left = data.draw(st.integers(0, len(messages) - self._read[number]), label=f"left of {number}")
            items = [
                Received(Partition("m", "topic", number), offset, 0, decode(messages[offset], "t", offset))
                for offset in range(self._read[number], len(messages) - left)
            ]
            self._read[number] = len(messages) - left
            if items:
                share = self._steps.share(self._owned[number], items)
                plans.append((share.parts, share.consumed))
        writes = data.draw(st.permutations([(name, part) for parts, _ in plans for name, part in parts.items()]))
        steps = len(writes) + len(plans)
        reached = data.draw(st.integers(0, steps), label="killed after") if killed else steps
        for name, part in writes[:reached]:
            self._world.databases[name].write(part)
            self._owned[part.partition.number].applied["s"][name] = part.highest["s"]
        for _, consumed in plans[: max(0, reached - len(writes))]:
            self._world.next[consumed.partition.number] = consumed.end
            self._world.watermark[consumed.partition.number].update(consumed.highest)
            self._owned[consumed.partition.number].watermark.update(consumed.highest)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_target_ends_as_the_source(data: st.DataObject) -> None:
    source = data.draw(stream.sources(), label="source")
    world = World(source, data.draw(stream.topics(source), label="topic"))
    process = Process(world)
    kills = 0
    while not world.done:
        killed = kills < 4 and data.draw(st.booleans(), label="killed")
        process.merge(data, killed)
        if killed:
            kills += 1
            process = Process(world)
    assert stream.differences(stream.expected(PLAN, source), world.rows()) == {}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_topic_read_twice_changes_nothing(data: st.DataObject) -> None:
    """As after a consumer whose state was restored from a backup: only the fences know."""
    source = data.draw(stream.sources(), label="source")
    world = World(source, data.draw(stream.topics(source), label="topic"))
    process = Process(world)
    while not world.done:
        process.merge(data, killed=False)
    before = world.rows()
    world.next = [0] * len(world.topic)
    world.watermark = [{} for _ in world.topic]
    process = Process(world)
    while not world.done:
        process.merge(data, killed=False)
    assert world.rows() == before
