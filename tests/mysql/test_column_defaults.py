"""What servers print of a column's default, and whether each server would fill rows with a value of its own by it."""

from __future__ import annotations

import pytest

from migrate.mysql.column_defaults import columns, filled_by_server, own_value, own_values
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import unique

SAME = [
    "INT",
    "INT DEFAULT -1",
    "VARCHAR(40) CHARACTER SET utf8mb4 DEFAULT 'a'' DEFAULT (UUID())' COMMENT 'DEFAULT now()'",
    "ENUM('x', 'DEFAULT now()') NOT NULL DEFAULT 'x'",
    "DATETIME NULL ON UPDATE CURRENT_TIMESTAMP",
    "TIMESTAMP NULL DEFAULT NULL",
    "DATE DEFAULT '2026-01-31'",
    "DECIMAL(3, 1) DEFAULT 1.5",
    "BIT(3) DEFAULT b'101'",
    "VARBINARY(4) DEFAULT x'0a41'",
    "INT DEFAULT (1 + 1)",
    "JSON DEFAULT (JSON_OBJECT('a', 1))",
    "TEXT DEFAULT ('it''s')",
    "INT AS (id + 1) VIRTUAL",
]
OWN = [
    ("DATETIME(3) DEFAULT NOW(3)", "CURRENT_TIMESTAMP(3)"),
    ("TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
    ("CHAR(36) DEFAULT (UUID())", "UUID()"),
    ("INT DEFAULT (1 + FLOOR(RAND() * 9))", "RAND()"),
    ("DATE DEFAULT (CURRENT_DATE + INTERVAL 1 DAY)", "CUR"),
    ("INT NOT NULL AUTO_INCREMENT UNIQUE", "AUTO_INCREMENT"),
]


def test_what_gives_rows_values_of_their_own_is_told_from_what_gives_all_one(box: Sandbox, flavour: Flavour) -> None:
    database, source = unique("defaults"), box.source
    written = [*((column, "") for column in SAME), *OWN]
    if flavour is Flavour.MARIADB:
        written += [("INT DEFAULT (NEXTVAL(numbers))", "NEXTVAL")]
    source.execute(f"CREATE DATABASE {database}")
    if flavour is Flavour.MARIADB:
        source.execute("CREATE SEQUENCE numbers", database=database)
    for column, own in written:
        source.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t (id INT, c {column})", database=database)
        found = own_value(columns(source.query(f"SHOW CREATE TABLE {database}.t")[0][1])["`c`"])
        assert own.lower() in found.lower(), (column, found)
        assert bool(found) == bool(own), (column, found)
    source.execute(f"DROP DATABASE {database}")


# Without what a server fills at an INSERT, and with it.
FILLED = [
    ("DATETIME NULL ON UPDATE CURRENT_TIMESTAMP", ["ON UPDATE CURRENT_TIMESTAMP"]),
    (
        "DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3) COMMENT 'b'",
        ["DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"],
    ),
    ("CHAR(36) DEFAULT (UUID())", ["DEFAULT (UUID())", "DEFAULT UUID()"]),
    ("INT NOT NULL AUTO_INCREMENT UNIQUE", ["AUTO_INCREMENT"]),
    ("VARCHAR(40) DEFAULT 'ON UPDATE now()' COMMENT 'ON UPDATE now()'", [""]),
]


def test_what_each_server_fills_a_column_with_is_told_with_what_an_update_does(box: Sandbox, flavour: Flavour) -> None:
    database, source = unique("filled"), box.source
    source.execute(f"CREATE DATABASE {database}")
    for column, told in FILLED:
        source.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t (id INT, c {column})", database=database)
        found = filled_by_server(columns(source.query(f"SHOW CREATE TABLE {database}.t")[0][1])["`c`"])
        assert found.upper().replace("TIMESTAMP()", "TIMESTAMP") in told, (column, found)
    source.execute(f"DROP DATABASE {database}")


MOMENT = "datetime DEFAULT CURRENT_TIMESTAMP"


@pytest.mark.parametrize(
    ("before", "after", "renamed", "told"),
    [
        (["x"], ["y"], {"Y": "X"}, []),
        (["x"], ["x", "y"], {}, ["y"]),
        (["x"], ["y", "z"], {"y": "x"}, ["z"]),  # lost: the values of z, which is as x was
        (["x"], ["x", "y"], {"y": "x"}, ["x"]),
        (["x"], ["X"], {}, []),
    ],
)
def test_a_column_that_was_renamed_keeps_its_values(
    before: list[str], after: list[str], renamed: dict[str, str], told: list[str]
) -> None:
    had, has = ({f"`{name}`": MOMENT for name in names} for names in (before, after))
    assert own_values(had, has, renamed) == [f"`{name}` DEFAULT CURRENT_TIMESTAMP" for name in told]
