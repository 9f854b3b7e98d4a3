"""What several runs of a publisher sent beyond its position is asked of the server that takes the source's place.

Lost: rows that targets had from a run before the last one, and that the new server never got; its certificate was clean
of doubt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from publishing import Publishing

from migrate.commands.rewind import rewind
from migrate.kafka.producer import DeliveryFailed
from migrate.publish import unacknowledged as unacknowledged_messages
from migrate.publish.log import gtid
from migrate.publish.state_writes import StateWrites
from migrate.publish.unacknowledged import Unacknowledged
from migrate.state import migration as migrations
from migrate.state import position as positions
from migrate.state import unacknowledged
from migrate.state.position import Position
from migrate.state.unacknowledged import Ends, Noted
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox

_ROWS = range(1, 7)


class Runs(Publishing):
    """Rows 1 to 6 are published; places: the position before each, and behind the last."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker) -> None:
        super().__init__(box.source, box.targets[0], kafka)
        with self.running():
            self.until(lambda: self.position, "the first position")
            self.places = [self.stored]
            for key in _ROWS:
                self.sql(f"INSERT INTO t VALUES ({key}, 'a')")
                self.until_at_end()
                self.places.append(self.stored)
        self.gtids = {key: message["gtid"] for key, message in zip(_ROWS, self.messages(), strict=True)}

    @property
    def stored(self) -> Position:
        found = self.position
        assert found is not None
        return found

    @property
    def noted(self) -> Noted:
        with self.state.connect() as connection:
            return unacknowledged.load(connection, self.name, "main")

    def killed_at(self, place: Position, ends: Ends | None = None) -> None:
        """The run that sent the end of the topic had stored no later position. ends: where the topic ended when it
        began, if that is not what was noted last."""
        with self.state.begin() as connection:
            positions.save(connection, self.name, place)
            if ends is not None:
                unacknowledged.put(connection, self.name, "main", replace(self.noted, ends=ends))

    def begin(self) -> None:
        """A run that begins, and is killed before it reads anything."""
        with self.lease() as has:
            self.publisher(*has)

    def send_again(self, key: int) -> None:
        """As a run does that is killed behind this row."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        producer.produce(self.settings.topic, json.dumps(self.messages()[key - 1]), partition=0)
        assert producer.flush(60) == 0

    def asked(self, stored: Position) -> set[int]:
        """Which rows' transactions a server must have that takes the source's place, beyond a position."""
        with self.lease() as (leases, held, stop):
            writes = StateWrites(self.name, "main", self.state, leases, held, stop)
            with self.state.connect() as connection:
                migration = migrations.get(connection, self.name)
            found = Unacknowledged(self.settings, "main", migration, self.state, writes, stop).beyond(stored)
        asked = gtid.parse(gtid.compact(found.gtids), self.source.flavour)
        return {key for key in _ROWS if asked.contains(self.gtids[key])}


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr(unacknowledged_messages, "_FIRST_BLOCK", 1)  # a run that sent more than that hides the others
    made = Runs(box, kafka)
    yield made
    made.close()


def test_what_a_run_before_the_last_one_sent_is_asked_for(main: Runs) -> None:
    main.killed_at(main.places[2], {})
    main.begin()
    main.send_again(3)
    main.killed_at(main.places[3])
    assert {4, 5, 6} <= main.asked(main.places[3])

    main.begin()
    main.send_again(4)
    main.killed_at(main.places[4])
    assert {5, 6} <= main.asked(main.places[4]), "and by any further run"
    main.killed_at(main.places[6])
    main.begin()
    assert main.noted.gtids == "", "until the position is behind it"


def test_a_rewind_hides_nothing_that_was_published(main: Runs) -> None:
    to = main.places[1]
    main.killed_at(main.places[5], {})
    after = rewind(main.settings, main.state, "main", f"{to.file}:{to.pos}", lambda _before, _after: True)
    assert after.incarnation == to.incarnation + 1
    assert set(_ROWS) - {1} <= main.asked(after), "6 is in the topic only"
    main.begin()
    main.killed_at(after)
    assert set(_ROWS) - {1} <= main.asked(after), "also where the run that was to publish it again was killed"


def test_a_run_that_ended_well_leaves_nothing_to_be_read(main: Runs) -> None:
    assert main.noted == Noted(ends={(main.settings.topic, 0): 6})
    assert main.asked(main.places[2]) == set(), "the position is known to be behind it"
    main.send_again(6)
    assert 6 in main.asked(main.places[2]), "what came since then is read"


def test_a_run_that_went_back_leaves_what_came_since_to_be_read(main: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the name of a transaction that a new server does not have: it was on its way with a producer that was given
    up, came late, and the end of the run was noted behind it."""
    failed: list[str] = []
    with main.running() as publisher:
        poll = publisher._producer.poll

        def fails(seconds: float = 0.0) -> None:
            if not failed:
                failed.append("once")
                raise DeliveryFailed("Kafka does not answer")
            poll(seconds)

        monkeypatch.setattr(publisher._producer, "poll", fails)
        main.until(lambda: failed, "a delivery that fails")
        main.until(lambda: publisher._abandoned, "a new producer")
        main.sql("INSERT INTO t VALUES (7, 'a')")
        main.until(lambda: main.keys()[-1:] == [7], "its row")
        main.until_at_end()
    assert [*main.noted.ends.values()] == [len(_ROWS)]
    main.begin()
    assert [*main.noted.ends.values()] == [len(_ROWS) + 1], "the next run looks"
