"""A message that cannot be applied: its partition is stopped until a person leaves the message out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique


@dataclass
class Poisoned:
    flow: Flow
    kafka: KafkaBroker

    @property
    def topic(self) -> str:
        return f"migrate.{self.flow.name}"

    def poison(self, value: bytes, partition: int = 0) -> int:
        """Send something of somebody else's; returns its offset."""
        offsets: list[int] = []
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        producer.produce(
            self.topic,
            value,
            partition=partition,
            on_delivery=lambda _, message: offsets.append(int(message.offset() or 0)),
        )
        assert producer.flush(SLOW) == 0
        return offsets[0]

    def write(self, first: int) -> None:
        """Rows for both partitions."""
        rows = ", ".join(f"({key}, {key}, {key}, 'a row')" for key in range(first, first + 20))
        self.flow.box.source.execute(f"INSERT INTO orders VALUES {rows}", database=self.flow.database)

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = self.flow.migration.ask("parked", "list")
        return found

    def stopped(self) -> dict[str, Any]:
        """The one that is stopped."""
        found: list[dict[str, Any]] = wait(lambda: self.listed()["stopped"], "a partition to be stopped")
        assert [one["process"] for one in found] == [f"consume: {self.topic} [0]"]
        return found[0]

    def stopped_at(self, text: str) -> dict[str, Any]:
        """Once it is stopped for a reason that names this."""
        wait(lambda: text in self.stopped()["reason"], f"'{text}' to be the reason")
        return self.stopped()

    def skip(self, offset: int, partition: int = 0) -> tuple[str, ...]:
        place = "--topic", self.topic, "--partition", str(partition), "--offset", str(offset)
        return ("parked", "skip", *place, "--reason", "ticket 26")


@pytest.fixture
def world(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Poisoned]:
    with closing(Flow(box, kafka, tmp_path, unique("left_out"), box.source)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        yield Poisoned(flow, kafka)


def message(**more: Any) -> bytes:
    body = {"database": "shop", "table": "t", "type": "INSERT", "data": [{"id": "1"}], "pkNames": ["id"], **more}
    return json.dumps(body).encode()


def test_a_message_that_cannot_be_applied_is_left_out_by_hand_alone_and_what_is_behind_it_arrives(
    world: Poisoned,
) -> None:
    """Lost: every real change behind a message with a place that the publisher has not come to; and the consumers,
    which a name that no state table holds ended again and again. Others: no JSON, no table of ours, a missing key."""
    flow = world.flow
    world.write(1)
    flow.drain()
    ours = {"database": flow.database, "table": "orders"}
    row = {**ours, "data": [{"id": "1", "user_id": "1", "value": "1", "history": "forged"}]}
    place = {"source": "main", "inc": 1, "file": 1, "tx": 4, "rows": [0]}
    poison = [
        b"\xff not JSON",
        message(table="_orders_gho"),
        message(**ours, data=[{"user_id": "7"}]),
        message(**row, pos={**place, "inc": 2**31 - 1}),
        message(**row, pos={**place, "file": 10**6}),
        message(**row, pos={**place, "source": "canal"}),
        message(**row, pos={**place, "source": "m" * 49}),
        message(**row, pos={**place, "inc": 2**31}),
    ]
    offsets = [world.poison(value) for value in poison]
    world.write(101)
    whys = (
        "is not a flat message: UnicodeDecodeError",
        "a message names table shop._orders_gho",
        "",
        "is not believed: the publisher of source 'main' has come to incarnation 1, file ",
        "is not believed: the publisher of source 'main' has come to incarnation 1, file ",
        "is not believed: messages of Canal are ordered by their offset",
        "pos.source is longer than 48 characters",
        "pos.inc is no whole number from 0 to 2147483647",
    )
    for offset, why in zip(offsets, whys, strict=True):
        named = f"message {world.topic} [0] @ {offset}"
        one = world.stopped_at(named)
        assert why in one["reason"]
        assert f"`migrate parked skip --topic {world.topic} --partition 0 --offset {offset} --reason" in one["hint"]
        wait(lambda: 1 <= len(flow.differences(flow.box.source)) < 20, "the other partition to go on")
        for other in (offset + 1, offset * 10):
            refused = flow.child("skip", *world.skip(other))
            assert refused.wait(SLOW)
            assert refused.returncode == 2, "only what stands in the way can be left out"
        flow.migration.do(*world.skip(offset))
    flow.drain()
    assert flow.differences(flow.box.source) == []
    found = world.listed()
    assert found["stopped"] == []
    told = [(one["topic"], one["partition"], one["offset"], one["bytes"]) for one in found["left_out"]]
    assert told == [(world.topic, 0, offset, len(value)) for offset, value in zip(offsets, poison, strict=True)]
    assert {one["reason"] for one in found["left_out"]} == {"ticket 26"}
    state = flow.box.targets[0].connect(f"{flow.name}_state")
    with closing(state), state.cursor() as cursor:
        cursor.execute("SELECT value FROM left_out ORDER BY message_offset")
        assert [row[0] for row in cursor.fetchall()] == poison
    assert flow.migration.ask("status")["left_out"] == len(poison)
    text = flow.migration.do("parked", "list")
    assert f"LEFT OUT message {world.topic} [0] @ {offsets[0]}, {len(poison[0])} bytes: message" in text


def test_a_row_without_a_sharding_value_is_set_aside_by_its_key(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("null_shard"), box.source)) as flow:
        box.source.execute(f"ALTER TABLE {flow.database}.orders MODIFY user_id BIGINT NULL")
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        world = Poisoned(flow, kafka)
        box.source.execute("INSERT INTO orders VALUES (7, NULL, 7, 'a')", database=flow.database)
        (one,) = wait(lambda: world.listed()["stopped"], "a partition to be stopped")
        assert "NULL in the sharding column user_id" in one["reason"]
        world.write(101)
        flow.migration.do("parked", "skip", f"{flow.database}.orders", "7", "--reason", "ticket 27")
        flow.drain()
        assert flow.differences(box.source) == ["missing 7"]
        assert [(skip["key"], skip["reason"]) for skip in world.listed()["skips"]] == [('["7"]', "ticket 27")]
