"""Two sources into one migration over two topics, tables chosen by patterns; one that appears later joins in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.forked import Migration
from tests.waiting import SLOW

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark


def rows(server: DatabaseServer, name: str) -> tuple[tuple[Any, ...], ...]:
    return server.query(f"SELECT id, v FROM {name} ORDER BY id")


def test_tables_of_two_sources_chosen_by_pattern_arrive_over_two_topics(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = f"many_{box.source.flavour}"
    first, second, target = box.source, box.targets[1], box.targets[0]
    for server, database in ((first, f"{name}_src"), (second, f"{name}_src")):
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
        tables = (f"CREATE TABLE {each} (id INT PRIMARY KEY, v VARCHAR(20))" for each in ("log_a", "log_b", "other"))
        server.execute(*tables, database=database)
    servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
    more = next(line for line in servers.splitlines() if "name: target2" in line).replace("target2", "second", 1)
    servers = servers.replace("targets:", more + "\ntargets:", 1)
    config = (
        f"name: {name}\n{servers}copy: {{master: 'local[1]'}}\ndelay: {{tiers_seconds: [0.5, 1]}}\n"
        f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2, topics: {{{name}.b: ['*.log_b', '*.log_c']}}}}\n"
        f"databases: {{one: {{target: target1, database: {name}_1}}, two: {{target: target1, database: {name}_2}}}}\n"
        "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
        f"lease: {{seconds: 2}}\nrun_dir: {tmp_path / 'run'}\n"
        "tables:\n"
        f'  - {{name: "{name}_src.log_*", source: source, sharding: {{nodes: "one.{{table}}"}}}}\n'
        f'  - {{name: "{name}_src.log_?", source: second, sharding: {{nodes: "two.{{table}}"}}}}\n'
    )
    migration = Migration(box, tmp_path, config)
    migration.do("init")
    migration.begin()
    try:
        for server, word in ((first, "first"), (second, "second")):
            server.execute(
                f"INSERT INTO log_a VALUES (1, '{word}'), (2, 'x')",
                f"INSERT INTO log_b VALUES (1, '{word} b')",
                f"UPDATE log_a SET v = '{word} again' WHERE id = 2",
                "INSERT INTO other VALUES (1, 'stays')",
                database=f"{name}_src",
            )
        done = migration.ask("drain", "--timeout", "120")
        assert {source["name"] for source in done["sources"]} == {"source", "second"}
        messages = dict.fromkeys(done["topics"], 0)
        for part in done["partitions"]:
            messages[part["topic"]] += part["messages"]
        assert messages == {f"migrate.{name}": 6, f"{name}.b": 2}
        for database, word in ((f"{name}_1", "first"), (f"{name}_2", "second")):
            assert rows(target, f"{database}.log_a") == ((1, word), (2, f"{word} again"))
            assert rows(target, f"{database}.log_b") == ((1, f"{word} b"),)
            assert target.query(f"SHOW TABLES IN {database} LIKE 'other'") == ()

        migration.stop()
        first.execute("CREATE TABLE log_c (id INT PRIMARY KEY, v VARCHAR(20))", database=f"{name}_src")
        first.execute("INSERT INTO log_c VALUES (1, 'early'), (2, 'early')", database=f"{name}_src")
        migration.do("init")
        migration.begin()
        added = f"{name}_src.log_c"
        migration.wait(lambda: migration.ask("status")["tables"][added] == "created", SLOW, "the publisher to take it")
        first.execute("INSERT INTO log_c VALUES (3, 'late')", "DELETE FROM log_c WHERE id = 2", database=f"{name}_src")
        migration.ask("copy", "--table", added)
        migration.ask("drain", "--timeout", "120")
        assert rows(target, f"{name}_1.log_c") == ((1, "early"), (3, "late"))
    finally:
        migration.stop()
