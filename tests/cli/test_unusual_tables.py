"""Definitions and servers that are unusual and allowed: init takes them, or preflight refuses them by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.cli.support import config_of, migrate, written
from tests.helpers import address, globally, scratch

_BINARY = (
    "(id INT NOT NULL PRIMARY KEY, x VARBINARY(4) DEFAULT 0x00FF, k BINARY(2) NOT NULL DEFAULT 0xC3C3,"
    " t VARBINARY(9) DEFAULT 0xFF275C620A, c VARCHAR(9) DEFAULT 'ä''\\\\')"
)
_TWICE = "(id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(20), KEY one (a), KEY two (a), KEY three (b), KEY four (b))"


def test_binary_defaults_and_duplicate_indexes_come_along_with_a_config_of_any_size(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with scratch(box.source, "unusual") as source, scratch(box.targets[0], f"{source}_target") as target:
        box.source.execute(f"CREATE TABLE bd {_BINARY}", f"CREATE TABLE tw {_TWICE}", database=source)
        tables = [{"name": f"{source}.{name}", "sharding": {"nodes": f"ds_0.{name}"}} for name in ("bd", "tw")]
        raw = config_of(
            box,
            source,
            name=source,
            databases={"ds_0": {"target": "t0", "database": target}},
            tables=tables,
            kafka={"bootstrap": kafka.bootstrap, "topics": {source: [f"{source}.no_{n}*" for n in range(3000)]}},
        )
        config = written(tmp_path, raw)
        assert config.stat().st_size > 76_000
        found = migrate(config, "init")
        assert found.code == 0, found
        assert "bd: 1 of 1 target tables created" in found.out
        assert "Duplicate index" in found.out  # a note, by the server's own words
        kept = box.targets[0].query(f"SELECT LENGTH(config) FROM `{source}_state`.migration")
        assert kept[0][0] > 76_000
        box.source.execute("INSERT INTO bd (id) VALUES (1)", database=source)
        box.targets[0].execute("INSERT INTO bd (id) VALUES (1)", database=target)
        rows = "SELECT id, HEX(x), HEX(k), HEX(t), HEX(c) FROM bd"
        assert box.targets[0].query(rows, database=target) == box.source.query(rows, database=source)
        indexes = "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'tw'"
        assert len(box.targets[0].query(indexes, [target])) == 5
        assert migrate(config, "init").code == 0


def test_a_state_server_that_demands_primary_keys_is_taken(
    mysql_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    box = mysql_box
    with scratch(box.source, "demanding") as source:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=source)
        raw = config_of(box, source, name=source, kafka={"bootstrap": kafka.bootstrap})
        with globally(box.targets[0], "sql_require_primary_key", 1):
            found = migrate(written(tmp_path, raw), "init")
        assert found.code == 0, found


@pytest.fixture(scope="module")
def lowering(run_root: Path) -> Iterator[DatabaseServer]:
    options: dict[str, str | int | bool | None] = {"lower_case_table_names": 1}
    server = DatabaseServer(Flavour.MARIADB, run_root / "lower-target", server_id=52, options=options)
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("command", ["preflight", "init"])
def test_names_that_a_target_would_write_in_lower_case_are_refused(
    mariadb_box: Sandbox, lowering: DatabaseServer, kafka: KafkaBroker, tmp_path: Path, command: str
) -> None:
    box = mariadb_box
    with scratch(box.source, "capitals") as source:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=source)
        raw = config_of(
            box,
            source,
            name=source,
            targets=[{"name": "t0", **address(lowering)}],
            databases={"ds_0": {"target": "t0", "database": "Shop_0"}},
            tables=[{"name": f"{source}.t", "sharding": {"nodes": "ds_0.Orders_0"}}],
            kafka={"bootstrap": kafka.bootstrap},
        )
        found = migrate(written(tmp_path, raw), command)
        assert found.code == 3, found
        told = found.out + found.err
        assert "target 't0' makes lower case of names (lower_case_table_names = 1): Orders_0" in told
        assert "as orders_0" in told
        if command == "preflight":
            assert "(lower_case_table_names = 1): Shop_0" in told
