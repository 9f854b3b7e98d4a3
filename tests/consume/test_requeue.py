"""The requeue process and the topics that it reads, at a real broker."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
import sqlalchemy as sa

from migrate.delay import requeue
from migrate.delay.markers import Markers
from migrate.delay.requeue import Requeue
from migrate.kafka import admin
from migrate.kafka.watch import TopicGone
from migrate.state.clock import StateClock
from migrate.state.lease import Leases
from migrate.state.migration import Migration, Topic
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, plain_table, plan_of, unique


def test_a_delay_topic_that_goes_after_it_was_looked_for_is_named_with_its_way_out(
    kafka: KafkaBroker, state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended as when the broker is away, so that nothing of it was noted in the state. Costs 2 s."""
    monkeypatch.setattr(requeue, "NEW", 0.5)
    name, stop = unique("requeue"), threading.Event()
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    first, *others = settings.delay_topics(name)
    admin.create_topic(settings.kafka, first, 1)
    there = Migration(name, (Topic(name, "of the topic", 1),))
    markers = Markers(settings, state, plan_of(plain_table(), settings=settings), there, stop)
    with closing(Leases(state, name, 60.0)) as leases:
        waits = Requeue(settings, there, leases, StateClock(state), stop, markers)
        with pytest.raises(TopicGone, match=f"delay topic {others[0]} was deleted at the broker") as caught:
            waits.run()
    assert "`migrate init` makes it again" in caught.value.hint
