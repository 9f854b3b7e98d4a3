"""When keys that the update-time filter skipped are asked for: as tables, of what the servers would answer."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from migrate.delay import outdated_keys
from migrate.delay.markers import Delivered
from migrate.delay.outdated_keys import OutdatedKeys
from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError
from migrate.model.message import REQUEUE
from migrate.model.message_reader import senders
from migrate.model.partition import Partition
from migrate.state import consumed_total
from migrate.state.migration import Migration, Topic
from migrate.target import chunk_fence, outdated
from migrate.target.pool import TargetPool
from tests.helpers import make_settings, plain_table, plan_of

END = Coordinate(1, 5, 400, 0)
ASKED = "keys that the update-time filter skipped are refreshed"


class Looks:
    """A topic of one partition with five messages. What target, state and Kafka say is set here."""

    def __init__(self, state: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        settings, table = make_settings(), plain_table()
        topic = Topic(settings.topic, "of the topic", 1)
        self.plan = plan_of(table, settings=settings)
        self.part = Partition(settings.name, topic.id, 0)
        there, stop = Migration(settings.name, (topic,)), threading.Event()
        self.outdated = OutdatedKeys(settings, state, self.plan, there, stop)
        self.closed, self.ends = {table.id}, {table.id: END}
        self.keys: list[Key] = [("1",), ("2",)]
        self.consumed, self.topic_end = 5, 5
        self.position: Delivered = Delivered(True, END)
        self.passed: list[Coordinate] = []
        self.sent: list[bytes] = []
        self.questions = 0
        self.away = False
        monkeypatch.setattr(TargetPool, "get", self._connection)
        monkeypatch.setattr(chunk_fence, "closed", lambda *_: self.closed)
        monkeypatch.setattr(outdated, "ends", lambda *_: self.ends)
        monkeypatch.setattr(outdated, "of_tables", lambda *_: {table.id} if self.keys or self.ends else set())
        monkeypatch.setattr(outdated, "keys", lambda *at: self.keys[: at[-1]])
        monkeypatch.setattr(outdated, "pass_end", lambda *at: self.passed.append(at[-1]))
        monkeypatch.setattr(consumed_total, "prefixes", lambda *_, **__: {self.part: self.consumed})
        monkeypatch.setattr(outdated_keys, "delivered", lambda *_, **__: self.position)
        monkeypatch.setattr(outdated_keys, "SECONDS", 0.0)

    def _connection(self, *_: object) -> None:
        self.questions += 1
        if self.away:
            raise ServerError("away")

    def look(self) -> list[str]:
        """The keys that are asked for."""
        self.sent = []
        reader: Any = SimpleNamespace(bounds=lambda *_: (0, self.topic_end))
        producer: Any = SimpleNamespace(produce=lambda *at: self.sent.append(at[-1]), flush=lambda _: True)
        self.outdated.look(reader, producer)
        # Lost: nothing, but the broker was said to have lost what the requeue sent: it did not know its own requests.
        assert {sender for one in self.sent for sender in senders(one)} <= {REQUEUE}
        assert all(senders(one) for one in self.sent)
        return [json.loads(one)["data"][0]["id"] for one in self.sent]


@pytest.fixture
def looks(state: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(state, monkeypatch)


def test_each_key_is_asked_for_once_and_nothing_is_filtered_afterwards(looks: Looks) -> None:
    with capture_logs() as said:
        assert looks.look() == ["1", "2"]
    assert [(one["event"], one["keys"]) for one in said] == [(ASKED, 2)]
    assert looks.passed == [END] * len(looks.plan.used_databases)
    looks.topic_end = 7
    assert looks.look() == [], "these requests are not consumed yet"
    looks.keys, looks.ends = [], {}
    looks.consumed = 7
    assert looks.look() == []


def test_nothing_is_asked_for_while_a_copy_is_open(looks: Looks) -> None:
    looks.closed = set()
    assert (looks.look(), looks.passed) == ([], [])


@pytest.mark.parametrize(
    "position",
    [
        Delivered(False, None),
        Delivered(True, END._replace(transaction=399)),
        Delivered(True, END._replace(file=4)),
    ],
)
def test_nothing_is_asked_for_before_the_publisher_passed_the_copys_end(looks: Looks, position: Delivered) -> None:
    looks.position = position
    assert (looks.look(), looks.passed) == ([], [])


def test_nothing_is_asked_for_before_all_that_was_published_is_consumed(looks: Looks) -> None:
    looks.consumed = 4
    assert (looks.look(), looks.passed) == ([], [])
    looks.consumed, looks.topic_end = 5, 9
    assert looks.look() == ["1", "2"], "what came since is behind the end of the copy"


def test_more_keys_than_are_asked_for_at_once_come_with_the_next_look(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outdated_keys, "_AT_ONCE", 1)
    assert (looks.look(), looks.passed) == (["1"], [])


def test_a_target_that_is_away_is_asked_again_and_one_without_keys_once(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks.away = True
    with capture_logs() as said:
        assert looks.look() == []
    assert [one["reason"] for one in said] == ["away"]
    looks.away = False
    assert looks.look() == [], "not before its time"
    now = time.monotonic() + 31
    monkeypatch.setattr(outdated_keys, "time", SimpleNamespace(monotonic=lambda: now))
    looks.keys, looks.ends = [], {}
    assert looks.look() == []
    asked = looks.questions
    assert (looks.look(), looks.questions) == ([], asked), "no table has a filter"
