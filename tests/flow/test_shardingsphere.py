"""An application in Java, with the real ShardingSphere-JDBC, takes the shards over, and gives them back.

It opens the very rule file that the config names: what is found by it was put where it looks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.paths import PROJECT
from sandbox.stack import Sandbox
from tests.failover.support import SLOW
from tests.flow.jdbc import Application, application, data_sources
from tests.forked import Child, Migration
from tests.helpers import unique
from tests.sharding.test_class_based import install

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

RULES = (PROJECT / "tests" / "sharding" / "rules" / "shop.yaml").read_text("utf-8")
CONFIG = """\
name: {name}
{servers}kafka: {{bootstrap: '{bootstrap}', partitions: 2}}
databases: {{ds_0: {{target: target1, database: {name}_0}}, ds_1: {{target: target2, database: {name}_1}}}}
copy: {{master: 'local[2]'}}
verify: {{rechecks: 5, recheck_seconds: 0.5, master: 'local[2]'}}
cutover: {{stop: read_only, wait_seconds: 1, freeze_seconds: 60, max_lag_seconds: 60}}
publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5}}
consume: {{merge_interval_seconds: 0.3, idle_seconds: 0.5}}
commit: {{idle_seconds: 0.5}}
delay: {{tiers_seconds: [0.5, 1]}}
lease: {{seconds: 15}}
run_dir: {run_dir}
tables:
  - {{name: "{name}_src.t_*", sharding: {{file: rules.yaml, value-types: {{made: LocalDateTime, came: String}}}}}}
  - name: "{name}_src.c_region"
    sharding:
      nodes: "ds_${{0..1}}.c_region_${{0..1}}"
      database: {{column: id, algorithm: MOD, props: {{sharding-count: 2}}}}
      table:
        column: region
        algorithm: CLASS_BASED
        props: {{strategy: STANDARD, algorithmClassName: com.example.ByRegion, size: 10}}
        examples: [[0, c_region_0], [9, c_region_0], [10, c_region_1], [20, c_region_0]]
"""
FUNCTION = """\
def by_region(value, names, props):
    return names[value // int(props["size"]) % len(names)]
"""
POINTS = "[migrate.sharding]\ncom.example.ByRegion = regions_of_a_shop:by_region\n"
_SCAN = "/* SHARDINGSPHERE_HINT: DISABLE_AUDIT_NAMES=needs_key */ SELECT"
"""The auditor refuses a statement that no sharding column narrows, unless it is told."""
_START = datetime(2024, 1, 1)  # noqa: DTZ001 - as the column is


@dataclass(frozen=True)
class Logical:
    """A logical table: its columns, the first of which is the key, and the columns that say where a row is."""

    columns: dict[str, str]
    by: tuple[str, ...]

    @property
    def key(self) -> str:
        return next(iter(self.columns))

    def definition(self) -> str:
        listed = ", ".join(f"{name} {kind} NOT NULL" for name, kind in self.columns.items())
        key = ", ".join(dict.fromkeys((self.key, *self.by)))
        return f"({listed}, PRIMARY KEY ({key})) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"

    def row(self, number: int) -> list[Any]:
        return [passed(name, _value(name, kind, number)) for name, kind in self.columns.items()]


def passed(name: str, value: Any) -> Any:
    """As an application passes it: AUTO_INTERVAL takes no LocalDateTime."""
    return str(value) if name == "came" else value


def _value(name: str, kind: str, number: int) -> Any:
    match kind.partition("(")[0]:
        case "VARCHAR":
            return f"{name}-{number}-ä😀{'x' * (number % 5)}"
        case "DECIMAL":
            return Decimal(number * 25).scaleb(-2)
        case "DATETIME":
            # Whole seconds: of a LocalDateTime, the driver sends no fraction to MariaDB's prepared statements.
            return _START + timedelta(hours=17 * (number % 160), seconds=number)
    return {"user_id": number // 3, "region": number % 40}.get(name, number)


TABLES = {
    "t_sale": Logical(
        {"sale_id": "BIGINT", "user_id": "BIGINT", "note": "VARCHAR(90)", "amount": "DECIMAL(12,2)"},
        ("user_id", "sale_id"),
    ),
    "t_sale_line": Logical(
        {"line_id": "BIGINT", "sale_id": "BIGINT", "user_id": "BIGINT", "note": "VARCHAR(90)"},
        ("user_id", "sale_id"),
    ),
    "t_wallet": Logical({"wallet_id": "BIGINT", "user_id": "BIGINT", "note": "VARCHAR(90)"}, ("user_id", "wallet_id")),
    "t_member": Logical({"email": "VARCHAR(90)", "note": "VARCHAR(90)"}, ("email",)),
    "t_visit": Logical({"visit_id": "BIGINT", "came": "DATETIME", "note": "VARCHAR(90)"}, ("came",)),
    "t_event": Logical({"event_id": "BIGINT", "made": "DATETIME", "note": "VARCHAR(90)"}, ("made",)),
}
"""Of the logical tables, each with rows from 1 on."""
REGIONS = "c_region"
"""A table that the application places by a class of its own; the rule file does not have it."""
ALL = {**TABLES, REGIONS: Logical({"id": "BIGINT", "region": "BIGINT", "note": "VARCHAR(90)"}, ("region",))}
PLACES = {
    REGIONS: [(number, f"c_region_{one}") for number in range(2) for one in range(2)],
    "t_sale": [(number, f"t_sale_{one}") for number in range(2) for one in range(2)],
    "t_sale_line": [(number, f"t_sale_line_{one}") for number in range(2) for one in range(2)],
    "t_wallet": [(number, f"t_wallet_{one}") for number in range(2) for one in range(2)],
    "t_member": [(one % 2, f"t_member_{one}") for one in range(4)],
    "t_visit": [(one % 2, f"t_visit_{one}") for one in range(4)],
    "t_event": [(0, f"t_event_{202401 + one}") for one in range(4)],
}
COPIED, STREAMED, WRITTEN = range(1, 61), range(61, 91), range(91, 121)


class Shop:
    """The five tables at one source; both ways run, and applications are at the source."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box, self.name = box, unique("jar")
        self.database = f"{self.name}_src"
        box.source.execute(f"CREATE DATABASE {self.database}")
        for table, logical in ALL.items():
            box.source.execute(f"CREATE TABLE {table} {logical.definition()}", database=self.database)
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        values = {"name": self.name, "servers": servers, "bootstrap": kafka.bootstrap, "run_dir": directory / "run"}
        self.migration = Migration(box, directory, CONFIG.format(**values))
        install(directory, "regions_of_a_shop", FUNCTION, POINTS)
        path = os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))
        self.migration.environment["PYTHONPATH"] = path
        self.rules = directory / "rules.yaml"
        user, password = self.name, "App-secret-1"
        places = {f"ds_{number}": (box.targets[number], f"{self.name}_{number}") for number in range(2)}
        self.rules.write_text(RULES + data_sources(places, user, password), "utf-8")
        for server, database in places.values():
            server.execute(
                f"CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'",
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{user}'@'%'",
            )
        self._back = Child("migrate back", directory / "back.log", Path.cwd())

    def begin(self) -> None:
        ask = self.migration.ask
        self.fill(COPIED)
        self.migration.do("init")
        self.migration.begin()
        ask("copy")
        self.fill(STREAMED)
        ask("drain", "--timeout", str(SLOW))
        self.migration.do("--reverse", "init")
        self._back.start(self.migration.command("--reverse", "run"), self.migration.environment)
        ask("--reverse", "drain", "--timeout", str(SLOW))
        ask("verify")

    def fill(self, numbers: range) -> None:
        for table, logical in ALL.items():
            marks = ", ".join(["%s"] * len(logical.columns))
            with closing(self.box.source.connect(self.database)) as connection, connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", [logical.row(one) for one in numbers])
                connection.commit()

    def at_source(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.box.source.query(f"SELECT * FROM {table}", database=self.database))

    def at_targets(self, table: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for number, name in PLACES[table]:
            rows += self.box.targets[number].query(f"SELECT * FROM {name}", database=f"{self.name}_{number}")
        return sorted(rows)

    def close(self) -> None:
        self._back.kill()
        self.migration.stop()
        for server in (self.box.source, *self.box.targets):
            server.execute("SET GLOBAL read_only = 0")


@contextmanager
def shop(box: Sandbox, kafka: KafkaBroker, directory: Path) -> Iterator[Shop]:
    with closing(Shop(box, kafka, directory)) as made:
        made.begin()
        yield made


def test_an_application_with_the_jar_finds_every_row_and_every_row_that_it_writes_comes_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # for the status, which is read here
    with shop(box, kafka, tmp_path) as one, application(one.rules, tmp_path / "jdbc.log") as jar:
        ask = one.migration.ask
        ask("cutover")
        for table in TABLES:
            every_row_is_found(jar, table, one.at_source(table), len(COPIED) + len(STREAMED))
        joined = f"{_SCAN} COUNT(*) FROM t_sale o JOIN t_sale_line i ON o.sale_id = i.sale_id AND o.user_id = i.user_id"
        assert jar.read(joined) == [(str(len(COPIED) + len(STREAMED)),)]
        for table in TABLES:
            writes(jar, table)
        regions_are_where_the_class_has_them(one, len(COPIED) + len(STREAMED))
        one.box.targets[0].execute(
            "INSERT INTO c_region_1 SELECT id, region - 10, note FROM c_region_0 WHERE id = 20",
            "DELETE FROM c_region_0 WHERE id = 20",
            "INSERT INTO c_region_1 VALUES (1000, 30, 'new')",
            database=f"{one.name}_0",
        )
        ask("--reverse", "drain", "--timeout", str(SLOW))
        regions_are_where_the_class_has_them(one, len(COPIED) + len(STREAMED) + 1)
        for table in TABLES:
            every_row_is_found(jar, table, one.at_source(table), len(COPIED) + len(STREAMED) + len(WRITTEN) - 10)
            assert one.at_source(table) == one.at_targets(table), table
        ask("--reverse", "verify")  # a row where our rule has none is a difference
        ask("rollback")
        for table in TABLES:
            assert one.at_source(table) == one.at_targets(table), table
        one.box.source.execute("UPDATE c_region SET region = 1 WHERE id = 1000", database=one.database)
        ask("drain", "--timeout", str(SLOW))
        regions_are_where_the_class_has_them(one, len(COPIED) + len(STREAMED) + 1)


def regions_are_where_the_class_has_them(one: Shop, count: int) -> None:
    """By arithmetic of their own."""
    rows = one.at_source(REGIONS)
    assert (len(rows), one.at_targets(REGIONS)) == (count, rows)
    for number, table in PLACES[REGIONS]:
        found = one.box.targets[number].query(f"SELECT id, region FROM {table}", database=f"{one.name}_{number}")
        assert {(id_ % 2, region // 10 % 2) for id_, region in found} == {(number, int(table[-1]))}


def every_row_is_found(jar: Application, table: str, rows: list[tuple[Any, ...]], count: int) -> None:
    """By a scan of all shards, by their number, and each by the columns that say where it is."""
    logical = TABLES[table]
    texts = sorted(tuple(map(_text, row)) for row in rows)
    assert len(texts) == count
    assert sorted(jar.read(f"{_SCAN} * FROM {table}")) == texts
    assert jar.read(f"{_SCAN} COUNT(*) FROM {table}") == [(str(count),)]
    names = list(dict.fromkeys((*logical.by, logical.key)))
    by = " AND ".join(f"{name} = ?" for name in names)
    for row in rows:
        values = dict(zip(logical.columns, row, strict=True))
        found = jar.read(f"SELECT * FROM {table} WHERE {by}", *(passed(name, values[name]) for name in names))
        assert found == [tuple(map(_text, row))], (table, row)


def _text(value: object) -> str:
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def writes(jar: Application, table: str) -> None:
    """New rows, the last ten of them with a key that ShardingSphere makes, where it makes one; then rows that change,
    and ten that go."""
    logical = TABLES[table]
    columns = list(logical.columns)
    for number in WRITTEN:
        made = columns[1:] if number in WRITTEN[-10:] and table in ("t_sale", "t_sale_line") else columns
        values = dict(zip(columns, logical.row(number), strict=True))
        marks = ", ".join(["?"] * len(made))
        sql = f"INSERT INTO {table} ({', '.join(made)}) VALUES ({marks})"
        assert jar.write(sql, *(values[name] for name in made)) == 1
    names = list(dict.fromkeys((*logical.by, logical.key)))
    by = " AND ".join(f"{name} = ?" for name in names)
    for number in range(51, 71):
        values = dict(zip(columns, logical.row(number), strict=True))
        where = [values[name] for name in names]
        if number < 61:
            assert jar.write(f"DELETE FROM {table} WHERE {by}", *where) == 1
        else:
            assert jar.write(f"UPDATE {table} SET note = ? WHERE {by}", f"changed {number}", *where) == 1
