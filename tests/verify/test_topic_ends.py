"""Where partitions end, and what the broker had acknowledged of them. Costs 1 s."""

from __future__ import annotations

import pytest

from migrate.kafka import admin
from migrate.kafka.producer import AcknowledgedLost
from migrate.model.message import REQUEUE
from migrate.model.partition import Partition
from migrate.settings import State
from migrate.state import acknowledged, database
from migrate.state import migration as migrations
from migrate.state.migration import Migration, Topic
from migrate.verify import catch_up
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, unique


def test_a_partition_that_ends_too_early_is_told_of_the_sources_that_are_asked_about(
    mariadb_box: Sandbox, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: the way on, where a source was taken out or is gone, and the broker lost its last messages with it: no
    drain, verification or cutover came to an end."""
    monkeypatch.setattr(catch_up, "_SETTLES", 0.2)
    name = unique("ends")
    settings = make_settings(name=name, kafka={"bootstrap": kafka.bootstrap, "topic": name, "group": name})
    admin.create_topic(settings.kafka, name, 2)
    topic = admin.require(settings.kafka, name).id
    parts = [Partition(name, topic, number) for number in range(2)]
    where = State(**{**address(mariadb_box.targets[0]), "database": unique("state")})
    database.create(where)
    with database.opened(where) as state:

        def had(sender: str, end: int) -> None:
            with state.begin() as connection:
                acknowledged.put(connection, sender, {parts[1]: end})

        def ends() -> dict[Partition, int]:
            return catch_up.topic_ends(settings, state, ["main"], {})

        with state.begin() as connection:
            migrations.create(connection, Migration(name, (Topic(name, topic, 2),)), "")
        had("gone", 7)
        assert ends() == dict.fromkeys(parts, 0)
        for sender in ("main", REQUEUE):
            had(sender, 1)
            with pytest.raises(AcknowledgedLost):
                ends()
            had(sender, 0)
