"""A config of any size: what `migrate init` keeps of it does not bound it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.forked import Migration
from tests.helpers import unique

TABLES = 190
BEYOND = 65_535
"""Bytes that a TEXT column holds."""
_TABLE = """\
  # {name}: orders of one of our shops, which came to one database each; user_id is what the application asks by
  - name: {source}.{name}
    sharding:
      nodes: "one.{name}_${{0..1}}"
      table:
        column: user_id
        algorithm: MOD
        props:
          sharding-count: 2
    rows:
      - {{column: user_id, at_least: 0}}
"""


def test_nearly_two_hundred_sharded_tables_are_taken_in_and_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = unique("large")
    tables = [f"orders_{number:03}" for number in range(TABLES)]
    with closing(box.source.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}_src")
        for table in tables:
            cursor.execute(f"CREATE TABLE {name}_src.{table} (id INT PRIMARY KEY, user_id INT NOT NULL)")
    servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
    listed = "".join(_TABLE.format(source=f"{name}_src", name=table) for table in tables)
    config = (
        f"name: {name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}'}}\n"
        f"databases: {{one: {{target: target1, database: {name}_1}}}}\nrun_dir: {tmp_path}\ntables:\n{listed}"
    )
    assert len(config) > BEYOND
    migration = Migration(box, tmp_path, config)
    try:
        for _ in range(2):
            migration.do("init")
            made = box.targets[0].query(f"SHOW TABLES FROM {name}_1 LIKE 'orders%'")
            assert len(made) == 2 * TABLES
        ((kept,),) = box.targets[0].query(f"SELECT config FROM {name}_state.migration")
        assert all(table in kept for table in tables)
    finally:
        box.source.execute(f"DROP DATABASE {name}_src")
        box.targets[0].execute(*(f"DROP DATABASE IF EXISTS {name}_{part}" for part in ("state", "1")))
