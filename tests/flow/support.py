"""A whole migration on the session's servers, with an oracle of its own that uses none of the service's code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.forked import Migration

_COLUMNS = (
    "id BIGINT UNSIGNED NOT NULL PRIMARY KEY AUTO_INCREMENT, user_id INT NOT NULL, amount DECIMAL(20,4) NOT NULL,"
    " status ENUM('new','paid') NOT NULL DEFAULT 'new', flags SET('a','b','c') NULL, detail JSON NULL,"
    " at DATETIME(3) NOT NULL DEFAULT '2024-02-29 12:00:00.123', seen TIMESTAMP NULL, note VARCHAR(200) NULL,"
    " bits BIT(11) NULL, bin BINARY(6) NULL"
)

DOUBT = (
    "INSERT INTO failover (migration, source, incarnation, from_server, to_server, scheme, doubt, until_file,"
    " until_pos) VALUES ('{0}', '{1}', 9, 'a', 'b', 'time', 'without GTID: a test', '', 0)"
)
"""As a failover by time leaves it: of a migration and its source."""


def left_behind(servers: Iterable[DatabaseServer], name: str) -> list[str]:
    """The service's own tables in the databases of a migration, whose names begin with its own."""
    sql = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE '\\\\_migrate\\\\_%'"
    return [
        f"{server.name}: {database}.{table}"
        for server in servers
        for database, table in server.query(sql)
        if str(database).startswith(name)
    ]


class Pipeline:
    """Table `orders` in a database of its own, over 4 databases × 4 tables: user_id % 4 and id % 4."""

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        name: str,
        more: str = "",
        table: str = "",
        kafka_more: str = "",
        publish: str = "",
    ) -> None:
        """`more` goes to the config, `table` to the table in it, a line each; `kafka_more` and `publish` to their
        sections: `, NAME: VALUE …`.
        """
        self.box = box
        self.name = name
        self.source = f"{name}_src"
        box.source.execute(
            f"DROP DATABASE IF EXISTS {self.source}",
            f"CREATE DATABASE {self.source}",
            f"CREATE TABLE {self.source}.orders ({_COLUMNS})",
        )
        servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
        databases = "".join(
            f"  ds_{number}: {{target: target{1 + number // 2}, database: {name}_{number}}}\n" for number in range(4)
        )
        config = (
            f"name: {name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}'{kafka_more}}}\ndatabases:\n{databases}"
            f"publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5{publish}}}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            "delay: {tiers_seconds: [0.5, 1]}\nlease: {seconds: 2}\n"
            f"run_dir: {directory / 'run'}\n{more}"
            f"tables:\n  - name: {self.source}.orders\n{table}    sharding:\n"
            '      nodes: "ds_${0..3}.orders_${0..3}"\n'
            "      database: {column: user_id, algorithm: MOD, props: {sharding-count: 4}}\n"
            "      table: {column: id, algorithm: MOD, props: {sharding-count: 4}}\n"
        )
        self.migration = Migration(box, directory, config)
        self.part = "1 = 1"  # which rows of the source belong to the migration

    def sql(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.source)

    def differences(self) -> list[str]:
        """Every row that is not exactly where and as it shall be; read with the servers' own clients."""
        select = "SELECT id, user_id, amount, status+0, flags+0, CAST(detail AS CHAR), at, seen, note, bits+0, HEX(bin)"
        wanted: dict[int, tuple[Any, ...]] = {
            row[0]: row for row in self.box.source.query(f"{select} FROM {self.source}.orders WHERE {self.part}")
        }
        found: list[str] = []
        for database in range(4):
            server = self.box.targets[database // 2]
            for table in range(4):
                for row in server.query(f"{select} FROM {self.name}_{database}.orders_{table}"):
                    expected = wanted.get(row[0])
                    if expected is None:
                        found.append(f"extra {row[0]} in {database}.{table}")
                    elif (expected[1] % 4, row[0] % 4) != (database, table):
                        found.append(f"misplaced {row[0]} in {database}.{table}")
                    elif wanted.pop(row[0]) != row:
                        found.append(f"different {row[0]}: {row} against {expected}")
        return found + [f"missing {key}" for key in wanted]

    def ledger(self) -> int:
        """Entries in the delete ledgers of all databases."""
        return sum(
            self.box.targets[database // 2].query(f"SELECT COUNT(*) FROM {self.name}_{database}._migrate_ledger")[0][0]
            for database in range(4)
        )

    def close_copy(self) -> None:
        """Say in every target database that no copy will insert: as after a full copy of an empty table."""
        for database in range(4):
            self.box.targets[database // 2].execute(
                "REPLACE INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt,"
                f" closed) VALUES ('{self.name}', 'source', '{self.source}', 'orders', -1, 1, 1)",
                database=f"{self.name}_{database}",
            )
