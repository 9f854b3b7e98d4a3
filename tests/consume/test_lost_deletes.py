"""The look for deletes that only the ledgers wait for, while what it asks is away: requeue goes on."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from migrate.delay import lost_deletes
from migrate.delay.lost_deletes import LostDeletes
from migrate.kafka.reader import PartitionReader
from migrate.model.errors import ServerError, StopError
from migrate.model.partition import Partition
from migrate.state import consumed_total
from migrate.state.clock import StateClock
from migrate.state.migration import Migration, Topic
from migrate.target import ledger
from migrate.target.pool import TargetPool
from tests.helpers import make_settings, plain_table, plan_of

LATER = "delay topics not compared with the ledgers; tried again"
LOOKED = "delay topics compared with the ledgers"


class Looks:
    """One topic of one partition, of which the broker has five messages in each delay topic."""

    def __init__(self, state: sa.Engine, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.stop = threading.Event()
        self.settings = make_settings(**changes)
        there = Migration(self.settings.name, (Topic(self.settings.topic, "of the topic", 1),))
        plan, clock = plan_of(plain_table(), settings=self.settings), StateClock(state)
        self.lost = LostDeletes(self.settings, state, plan, there, clock, self.stop)
        self.part = Partition(self.settings.name, "of the topic", 0)
        self.applied = {self.part: 5}
        self.asked = 0
        monkeypatch.setattr(TargetPool, "get", lambda *_: None)
        monkeypatch.setattr(ledger, "waiting", lambda *_: 1)
        monkeypatch.setattr(ledger, "waiting_at", lambda *_: [])
        monkeypatch.setattr(consumed_total, "prefixes", self._prefixes)
        monkeypatch.setattr(PartitionReader, "spans", lambda *_: iter(()))

    def _prefixes(self, *_: object, **__: object) -> dict[Partition, int]:
        self.asked += 1
        return self.applied

    def look(self) -> list[str]:
        reader: Any = SimpleNamespace(bounds=lambda *_: (0, 5), committed=lambda *_: None)
        with capture_logs() as said:
            self.lost.look(reader, lambda: None)
        return [str(one["event"]) for one in said]


def test_a_target_that_refuses_is_asked_again(state: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback."""

    def refuses(*_: object) -> int:
        raise pymysql.err.OperationalError(2013, "Lost connection to server during query")

    looks = Looks(state, monkeypatch)
    monkeypatch.setattr(ledger, "waiting", refuses)
    assert looks.look() == [LATER]


def test_a_state_that_restarts_ends_no_look(state: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ended."""
    looks = Looks(state, monkeypatch)
    answers = looks._prefixes

    def once_away(*_: object, **__: object) -> dict[Partition, int]:
        if answers() and looks.asked == 1:
            raise OperationalError("", {}, pymysql.err.OperationalError(2006, "gone away"))
        return looks.applied

    monkeypatch.setattr(consumed_total, "prefixes", once_away)
    assert LOOKED in looks.look()
    assert looks.asked == 2


def test_an_offset_that_goes_while_it_is_read_is_looked_for_again(
    state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requeue stopped for good."""

    def cut(*_: object) -> None:
        raise StopError("the offset to read from is no longer at the broker", hint="copy again")

    looks = Looks(state, monkeypatch)
    monkeypatch.setattr(PartitionReader, "spans", cut)
    assert looks.look() == [LATER]


@pytest.mark.timeout(60)
def test_a_look_ends_with_the_process_while_the_broker_is_away(
    state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the broker, whoever stopped it meanwhile."""
    spans = PartitionReader.spans
    looks = Looks(state, monkeypatch)
    monkeypatch.setattr(PartitionReader, "spans", spans)
    threading.Timer(0.5, looks.stop.set).start()
    assert looks.look() == [LATER]
    assert looks.stop.is_set()


def test_a_look_waits_for_what_waits_for_its_merge(state: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute it was left to the next look, which is half an hour later."""
    looks, began = Looks(state, monkeypatch, consume={"merge_interval_seconds": 240}), time.monotonic()
    looks.applied = {}
    for seconds, asked in ((0, 1), (100, 2), (290, 3), (301, 4), (310, 4)):
        monkeypatch.setattr(lost_deletes, "time", SimpleNamespace(monotonic=lambda now=began + seconds: now))
        looks.look()
        assert looks.asked == asked, seconds


@pytest.mark.timeout(60)
def test_what_is_asked_between_polls_ends_the_reading_of_spans() -> None:
    def refuse() -> None:
        raise ServerError("not any more")

    reader = PartitionReader(make_settings().kafka, "spans")
    try:
        with pytest.raises(ServerError, match="not any more"):
            list(reader.spans({("t", 0): (0, 5)}, refuse))
    finally:
        reader.close()
