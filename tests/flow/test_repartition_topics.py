"""More partitions for one of a migration's topics: the other, and what travels in it, stay as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.forked import Migration
from tests.helpers import unique
from tests.waiting import SLOW

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def config(box: Sandbox, kafka: KafkaBroker, name: str, directory: Path) -> str:
    servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
    tables = "".join(f"  - {{name: {name}_src.{each}, sharding: {{nodes: one.{each}}}}}\n" for each in ("a", "b"))
    return (
        f"name: {name}\n{servers}delay: {{tiers_seconds: [0.5, 1]}}\n"
        f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2, topics: {{{name}.b: ['*.b']}}}}\n"
        f"databases: {{one: {{target: target1, database: {name}_1}}}}\n"
        "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
        f"lease: {{seconds: 2}}\nrun_dir: {directory / 'run'}\ntables:\n{tables}"
    )


def repartition(migration: Migration, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        migration.command("repartition", *arguments),
        env=migration.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_only_the_named_topic_gets_more_partitions(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    name = unique("two_topics")
    source, target = box.source, box.targets[0]
    source.execute(f"CREATE DATABASE {name}_src")
    for table in ("a", "b"):
        source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT NOT NULL)", database=f"{name}_src")
    migration = Migration(box, tmp_path, config(box, kafka, name, tmp_path))
    migration.do("init")

    def write(*changes: str) -> None:
        source.execute(*(change.format(table) for change in changes for table in ("a", "b")), database=f"{name}_src")

    def drained() -> dict[str, list[int]]:
        """What each topic's partitions have taken in, once all is at the target."""
        done = migration.ask("drain", "--timeout", "120")
        for table in ("a", "b"):
            rows = f"SELECT id, v FROM {{}}.{table} ORDER BY id"
            assert target.query(rows.format(f"{name}_1")) == source.query(rows.format(f"{name}_src")) != ()
        found: dict[str, list[int]] = {topic: [] for topic in done["topics"]}
        for part in done["partitions"]:
            found[part["topic"]].append(part["messages"])
        return found

    try:
        migration.begin()
        write(*(f"INSERT INTO {{}} VALUES ({key}, 0)" for key in range(40)), "UPDATE {} SET v = v + 1")
        before = drained()
        migration.stop()

        code, told = repartition(migration, "8")
        assert code == 2
        assert f"choose one with --topic: migrate.{name}, {name}.b" in told
        code, told = repartition(migration, "8", "--topic", "none")
        assert (code, "the migration has no topic none" in told) == (2, True)
        write("UPDATE {} SET v = v + 1")  # not published yet
        migration.wait(
            lambda: repartition(migration, "8", "--topic", f"{name}.b")[0] == 0, SLOW, "the leases to be free"
        )

        migration.begin()
        write("UPDATE {} SET v = v + 1", "DELETE FROM {} WHERE id % 10 = 0")
        after = drained()
    finally:
        migration.stop()
    main, other = f"migrate.{name}", f"{name}.b"
    assert {topic: len(parts) for topic, parts in before.items()} == {main: 2, other: 2}
    assert {topic: len(parts) for topic, parts in after.items()} == {main: 2, other: 8}
    assert all(after[other][2:])
    ends = target.query(f"SELECT name, partitions FROM {name}_state.topic ORDER BY name")
    assert dict(ends) == {main: 2, other: 8}
