"""Tables of two sources into the same target tables: a migration, writers that move rows, and an oracle."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.forked import Child, Migration
from tests.waiting import until

COLUMNS = "id BIGINT NOT NULL PRIMARY KEY, user_id INT NOT NULL, value BIGINT NOT NULL, note VARCHAR(40) NOT NULL"
TABLES = 2
RULES = """\
rules:
- !SHARDING
  tables:
    t_order:
      actualDataNodes: src_${0..1}.orders
      databaseStrategy: {standard: {shardingColumn: user_id, shardingAlgorithmName: by_half}}
    t_else:
      actualDataNodes: elsewhere.orders_${0..7}
  shardingAlgorithms:
    by_half: {type: INLINE, props: {algorithm-expression: "src_${user_id.intdiv(2) % 2}"}}
"""
"""Of the application before: its tables are the sources' ones."""


class Grouped:
    """Table `orders` (or more) of sources `source` and `second` over 2 databases × 2 tables: user_id % 2, id % 2."""

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        name: str,
        more: str = "",
        chunk_rows: int = 300,
        *,
        home: bool = False,
        rules: bool = False,
        tables: Sequence[str] = ("orders",),
        ddl: str = "stop",
    ) -> None:
        """tables: of each source, ddl: the policy of all of them. home: with the sources' rule, by which a row belongs
        to the source of user_id / 2 % 2, whole numbers. rules: this rule is in a file, as ShardingSphere has it."""
        self.name = name
        self.home = home
        self._rules = rules
        self.database = f"{name}_src"
        self.sources = (box.source, box.targets[1])
        self.target = box.targets[0]
        self.tables, self._ddl = tables, ddl
        for server in self.sources:
            made = (f"CREATE TABLE {self.database}.{table} ({COLUMNS})" for table in tables)
            server.execute(f"CREATE DATABASE {self.database}", *made)
        servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
        line = next(line for line in servers.splitlines() if "name: target2" in line)
        servers = servers.replace("targets:", line.replace("target2", "second", 1) + "\ntargets:", 1)
        config = (
            f"name: {name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            "databases:\n"
            + "".join(f"  ds_{one}: {{target: target1, database: {name}_{one}}}\n" for one in range(TABLES))
            + "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            f"verify: {{master: 'local[1]', chunk_rows: {chunk_rows}, rechecks: 1, recheck_seconds: 0.5}}\n"
            "copy: {master: 'local[1]', chunk_rows: 100, chunks_at_once: 2}\n"
            f"delay: {{tiers_seconds: [0.5, 1]}}\nlease: {{seconds: 2}}\nrun_dir: {directory / 'run'}\n{more}"
            f"{self._sources() if home else ''}tables:\n"
            + "".join(self._table(source, table) for source in ("source", "second") for table in tables)
        )
        self.migration = Migration(box, directory, config)
        if rules:
            (directory / "rules.yaml").write_text(RULES, "utf-8")
        self._writers: list[Mover] = []
        self._children: list[Child] = []

    def child(self, label: str, *arguments: str) -> Child:
        """Start one `migrate` process with a log of its own."""
        child = Child(f"migrate {label}", self.migration.directory / f"{label}.log", Path.cwd())
        child.start(self.migration.command(*arguments), self.migration.environment)
        self._children.append(child)
        return child

    def _sources(self) -> str:
        return "source_databases:\n" + "".join(
            f"  src_{number}: {{source: {source}, database: {self.database}}}\n"
            for number, source in enumerate(("source", "second"))
        )

    def _table(self, source: str, table: str) -> str:
        told = (
            f"  - name: {self.database}.{table}\n    source: {source}\n    group: orders\n    ddl: {self._ddl}\n"
            "    sharding:\n"
            '      nodes: "ds_${0..1}.orders_${0..1}"\n'
            "      database: {column: user_id, algorithm: MOD, props: {sharding-count: 2}}\n"
            "      table: {column: id, algorithm: MOD, props: {sharding-count: 2}}\n"
        )
        if self._rules:
            told += "    home: {file: rules.yaml, logic-table: t_order}\n"
        elif self.home:
            told += "    home:\n      nodes: 'src_${0..1}.orders'\n      database: {column: user_id, algorithm: INLINE,"
            told += " props: {algorithm-expression: 'src_${user_id.intdiv(2) % 2}'}}\n"
        return told

    def sql(self, source: int, *statements: str) -> None:
        self.sources[source].execute(*statements, database=self.database)

    def fill(self, source: int, rows: int) -> None:
        """Rows of every other id, from `source` on; `rows` is a multiple of 500."""
        for start in range(0, rows, 500):
            self.sql(
                source,
                "INSERT INTO orders WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 500)"
                f" SELECT 2 * (n + {start}) + {source}, {self._user(source)}, n, 'copied' FROM seq",
            )

    def _user(self, source: int) -> str:
        """Of row n at a source."""
        return f"4 * n + 2 * {source} + n % 2" if self.home else "n"

    def mover(self, keys: Sequence[int], pause: float = 0.002) -> Mover:
        """Start a writer of these keys."""
        mover = Mover(self.sources, self.database, keys, pause, home=self.home)
        self._writers.append(mover)
        mover.start()
        return mover

    def drain(self) -> None:
        self.migration.ask("drain", "--timeout", "180")

    def drain_behind_a_kill(self, movers: Sequence[Mover]) -> None:
        """Kill the publisher of the second source while rows move, have more of them move, stop, and drain."""
        before = [mover.moves for mover in movers]
        self.migration.kill("second")
        until(lambda: all(mover.moves > was + 60 for mover, was in zip(movers, before, strict=True)), "more moves")
        for mover in movers:
            mover.stop()
        self.drain()

    def close(self) -> None:
        for writer in self._writers:
            writer.asked.set()
        for child in self._children:
            child.kill()
        self.migration.stop()

    def at_target(self, database: int, *statements: str) -> None:
        self.target.execute(*statements, database=f"{self.name}_{database}")

    def close_copy(self) -> None:
        """Say that no copy will insert: as after a full copy of empty tables."""
        for number in range(TABLES):
            self.at_target(
                number,
                *(
                    "REPLACE INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt,"
                    f" closed) VALUES ('{self.name}', '{source}', '{self.database}', '{table}', -1, 1, 1)"
                    for source in ("source", "second")
                    for table in self.tables
                ),
            )

    # -- the oracle

    def differences(self) -> list[str]:
        """Every row that is not exactly where and as it shall be; read with the servers' own clients."""
        found: list[str] = []
        wanted: dict[int, Any] = {}
        for server, name in product(self.sources, self.tables):
            for row in server.query(f"SELECT * FROM {self.database}.{name}"):
                if row[0] in wanted:
                    found.append(f"at both sources {row[0]}")
                wanted[row[0]] = row
        for database in range(TABLES):
            for table in range(TABLES):
                for row in self.target.query(f"SELECT * FROM {self.name}_{database}.orders_{table}"):
                    expected = wanted.get(row[0])
                    if expected is None:
                        found.append(f"extra or twice {row[0]} in {database}.{table}")
                    elif (expected[1] % TABLES, row[0] % TABLES) != (database, table):
                        found.append(f"misplaced {row[0]} in {database}.{table}")
                    elif wanted.pop(row[0]) != row:
                        found.append(f"different {row[0]}: {row} against {expected}")
        return found + [f"missing {key}" for key in wanted]

    def astray(self) -> list[int]:
        """Keys of rows at a source that belong to the other one."""
        where = "user_id DIV 2 % 2 <>"
        return [
            int(key)
            for number, server in enumerate(self.sources)
            for (key,) in server.query(f"SELECT id FROM {self.database}.orders WHERE {where} {number}")
        ]


class Mover(threading.Thread):
    """Inserts, updates and deletes rows, and moves them to another shard, to another key, or to the other source: the
    row that is new comes first, or the one that is old goes first, in two transactions."""

    def __init__(
        self, sources: Sequence[DatabaseServer], database: str, keys: Sequence[int], pause: float, *, home: bool = False
    ) -> None:
        """home: each row has a user_id that belongs to the source where it is written."""
        super().__init__(daemon=True)
        self._at_home = home
        self._sources = sources
        self._database = database
        self._random = random.Random(keys[0])  # noqa: S311 - which row to write
        self._pause = pause
        self._keys = list(keys)
        self._number = 1000 * keys[0]
        self.asked = threading.Event()
        self.moves = 0  # between the sources
        self.writes = 0

    def run(self) -> None:
        first, second = (server.connect(self._database, autocommit=True) for server in self._sources)
        with closing(first), closing(second), first.cursor() as one, second.cursor() as other:
            cursors = (one, other)
            while not self.asked.is_set():
                self._write(cursors, self._random.choice(self._keys))
                self.writes += 1
                time.sleep(self._pause)

    def stop(self) -> None:
        self.asked.set()
        self.join(60)
        assert not self.is_alive()

    def _write(self, cursors: Sequence[Any], key: int) -> None:
        self._number += 1
        number, kind = self._number, self._random.randrange(10)
        home = self._home(cursors, key)
        if home is None:
            there = self._random.randrange(2)
            self._insert(cursors[there], there, key, number)
        elif kind < 2:
            cursors[home].execute(f"DELETE FROM orders WHERE id = {key}")
        elif kind < 4:
            user = "user_id ^ 1" if self._at_home else "user_id + 1"
            cursors[home].execute(f"UPDATE orders SET user_id = {user}, value = {number} WHERE id = {key}")
        elif kind < 6:
            cursors[home].execute(f"UPDATE orders SET value = {number} WHERE id = {key}")
        elif kind == 6 and (free := [one for one in self._keys if self._home(cursors, one) is None]):
            cursors[home].execute(f"UPDATE orders SET id = {free[0]}, value = {number} WHERE id = {key}")
        else:
            self.moves += 1
            new, old = cursors[1 - home], cursors[home]
            if kind == 9:
                self._insert(new, 1 - home, key, number)
                old.execute(f"DELETE FROM orders WHERE id = {key}")
            else:
                old.execute(f"DELETE FROM orders WHERE id = {key}")
                self._insert(new, 1 - home, key, number)

    def _home(self, cursors: Sequence[Any], key: int) -> int | None:
        for index, cursor in enumerate(cursors):
            cursor.execute(f"SELECT 1 FROM orders WHERE id = {key}")
            if cursor.fetchall():
                return index
        return None

    def _insert(self, cursor: Any, source: int, key: int, number: int) -> None:
        user = 4 * (number % 3) + 2 * source + number % 2 if self._at_home else number % 5
        cursor.execute(f"INSERT INTO orders VALUES ({key}, {user}, {number}, 'written')")
