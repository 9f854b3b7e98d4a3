"""What preflight says of the state server, of Kafka, and of the tables that topics are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cli.support import SECRET, Outcome, config_of, migrate, written
from tests.helpers import address, scratch, unique


class Case:
    """A migration of a table `t`, with a broker."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, database: str, directory: Path) -> None:
        self.box, self.database, self.directory = box, database, directory
        self.name = unique("services")
        self.broker: dict[str, Any] = {"bootstrap": kafka.bootstrap}
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def run(self, command: str, changes: dict[str, Any] | None = None, **kafka: Any) -> Outcome:
        raw = config_of(self.box, self.database, name=self.name, kafka={**self.broker, **kafka})
        return migrate(written(self.directory, {**raw, **(changes or {})}), command)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)

    def topics(self) -> set[str]:
        return {name for name in self.admin.list_topics(timeout=30).topics if self.name in name}


@pytest.fixture
def case(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Case]:
    with scratch(box.source, "services") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        yield Case(box, kafka, database, tmp_path)
        for name in (f"{database}_state", f"{database}_state_shadow", f"{database}_target"):
            box.targets[0].execute(f"DROP DATABASE IF EXISTS {name}")


def test_before_and_after_init_preflight_says_how_state_and_topics_are_and_makes_neither(case: Case) -> None:
    state = f"{case.database}_state"
    before = case.run("preflight")
    assert before.code == 0, before
    assert f"state server answers: {case.box.flavour} " in before.out
    assert f"database {state} does not exist yet; init creates it\n" in before.out
    assert "answers: 1 broker\n" in before.out
    assert f"topic migrate.{case.name} may be created\n" in before.out
    assert case.topics() == set()
    assert case.box.targets[0].query(f"SHOW DATABASES LIKE '{state}'") == ()

    assert case.run("init").code == 0
    after = case.run("preflight")
    assert after.code == 0, after
    assert f"database {state} is at version " in after.out
    assert f"topic migrate.{case.name} has 4 partitions\n" in after.out

    source = {"name": "main", **address(case.box.source, password=SECRET)}
    told = case.run("status", {"sources": [source]})
    assert f"log at ?: source 'main' at 127.0.0.1:{case.box.source.port}: wrong user or password" in told.out

    case.admin.create_partitions([NewPartitions(f"migrate.{case.name}", 6)])[f"migrate.{case.name}"].result(30)
    case.box.targets[0].execute("INSERT INTO schema_version (version) VALUES (999)", database=state)
    found = case.run("preflight")
    assert found.code == 3
    assert f"problem  topic migrate.{case.name} has 6 partitions, the migration began with 4\n" in found.out
    assert f"problem  state database {state} is at version 999, this program knows " in found.out


def test_topics_that_the_broker_refuses_or_that_do_not_fit_are_named(case: Case) -> None:
    refused = case.run("preflight", replication=3)
    assert refused.code == 3
    assert f"problem  topic migrate.{case.name} cannot be created: " in refused.out
    assert "replication factor" in refused.out

    case.create(f"migrate.{case.name}", 2)
    case.create(f"migrate.{case.name}.delay.1", 3)
    found = case.run("preflight")
    assert found.code == 3
    assert f"note  topic migrate.{case.name} has 2 partitions, kafka.partitions is 4: it stays as it is\n" in found.out
    assert f"problem  topic migrate.{case.name}.delay.1 has 3 partitions, migrate.{case.name} has 2\n" in found.out


def test_services_that_do_not_answer_are_named_and_the_rest_is_looked_at(case: Case) -> None:
    state = {**address(case.box.targets[0], password=SECRET), "database": "x"}
    found = case.run("preflight", {"state": state}, bootstrap="127.0.0.1:1")
    assert found.code == 3
    assert f"could not look  state server at 127.0.0.1:{state['port']}: wrong user or password" in found.out
    assert found.out.count("could not look  Kafka at 127.0.0.1:1: ") == 1
    assert found.out.count("could not look") == 2
    assert SECRET not in found.out + found.err
    assert "pass  target 't0' answers" in found.out


@pytest.mark.parametrize("pattern", ["{database}.u", "t"])
def test_a_topic_for_no_table_is_refused_by_name(case: Case, pattern: str) -> None:
    pattern = pattern.format(database=case.database)
    told = f"kafka.topics: {pattern}, for topic {case.name}.more, matches no table of the migration"
    topics = {f"{case.name}.more": [pattern, f"{case.database}.*"]}
    found = case.run("preflight", topics=topics)
    assert found.code == 3
    assert f"problem  {told}\n" in found.out
    message, hint = case.run("init", topics=topics).told(3)
    assert message == told
    assert hint == "fix it: write database.table; * stands for any letters, ? for one"
    assert case.topics() == set()


def test_a_topic_for_tables_that_may_come_later_is_noted_and_made(case: Case) -> None:
    topics = {f"{case.name}.more": [f"{case.database}.later_*"]}
    found = case.run("preflight", topics=topics)
    told = f"kafka.topics: {case.database}.later_*, for topic {case.name}.more, matches no table of the migration"
    assert found.code == 0
    assert f"note  {told}\n" in found.out
    assert case.run("init", topics=topics).code == 0
    assert f"{case.name}.more" in case.topics()
