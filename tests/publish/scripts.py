"""Statements on a source, and what the reader makes of the log that they leave: rows by key, or a stop.

Each runs in the database `reader_test` with the tables `t (id, v)`, `other (id)` and the service's own; `t` alone is
selected (`reader_support.Log`). `record.py` keeps the events of each server in `recorded/`; `test_recorded.py` reads
them without that server.
"""

from __future__ import annotations

from dataclasses import dataclass

BOTH = frozenset({"mariadb", "mysql"})
MARIADB, MYSQL = frozenset({"mariadb"}), frozenset({"mysql"})


@dataclass(frozen=True)
class Script:
    statements: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Of the rows that the sink was given, in order."""
    stops: str = ""
    """What the reader stops with, as a regular expression; "" where it does not."""
    flavours: frozenset[str] = BOTH


def reads(*statements: str, keys: str = "", flavours: frozenset[str] = BOTH) -> Script:
    """keys: separated by spaces."""
    return Script(statements, tuple(keys.split()), flavours=flavours)


def stops(message: str, *statements: str, flavours: frozenset[str] = BOTH) -> Script:
    return Script(statements, stops=message, flavours=flavours)


_HERE = "INSERT INTO t VALUES (1, 'here')"
_LONG = "x" * 1000
_STATEMENT = "SET SESSION binlog_format = STATEMENT"
_UNTOUCHED = "CREATE TABLE IF NOT EXISTS untouched (id INT) ENGINE=MyISAM"  # without transactions
_MAY_CHANGE = r"a statement may change reader_test\.t: "

SCRIPTS = {
    "rows": reads(
        "BEGIN", "INSERT INTO other VALUES (1)", "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        "UPDATE t SET v = 'b' WHERE id = 1", "DELETE FROM other", "COMMIT", "DELETE FROM t WHERE id = 2",
        keys="1 2 1 2",
    ),
    "key changes": reads("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET id = 2", keys="1 1"),
    "savepoint": reads(
        "BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (2, 'b')", "ROLLBACK TO s",
        "COMMIT", "BEGIN", "INSERT INTO t VALUES (3, 'c')", "ROLLBACK", "INSERT INTO t VALUES (4, 'd')",
        keys="1 4",
    ),
    "rolled back, temporary table": reads(
        "BEGIN", "INSERT INTO t VALUES (1, 'gone')", "CREATE TEMPORARY TABLE x (a INT)", "DROP TEMPORARY TABLE x",
        "INSERT INTO t VALUES (2, 'gone')", "ROLLBACK", "INSERT INTO t VALUES (9, 'stays')",
        keys="9", flavours=MARIADB,
    ),
    "rolled back, savepoint before all rows": reads(
        _UNTOUCHED, "BEGIN", "SAVEPOINT s", "INSERT INTO t VALUES (1, 'gone')", "INSERT INTO untouched VALUES (1)",
        "ROLLBACK TO s", "INSERT INTO t VALUES (9, 'stays')", "COMMIT",
        keys="9", flavours=MARIADB,
    ),
    "rolled back, savepoint before all selected rows": reads(
        _UNTOUCHED, "BEGIN", "INSERT INTO other VALUES (1)", "SAVEPOINT s", "INSERT INTO t VALUES (1, 'gone')",
        "INSERT INTO untouched VALUES (1)", "ROLLBACK TO s", "INSERT INTO t VALUES (9, 'stays')", "COMMIT",
        keys="9", flavours=MARIADB,
    ),
    "rolled back, savepoints between rows": reads(
        _UNTOUCHED, "BEGIN", "INSERT INTO t VALUES (7, 'stays')", "SAVEPOINT `a ``TO`",
        "INSERT INTO t VALUES (8, 'stays')", "SAVEPOINT s", "INSERT INTO t VALUES (1, 'gone')",
        "INSERT INTO untouched VALUES (1)", "ROLLBACK WORK TO SAVEPOINT s", "INSERT INTO t VALUES (9, 'stays')",
        "COMMIT",
        keys="7 8 9", flavours=MARIADB,
    ),
    "rolled back, to an outer savepoint": reads(
        _UNTOUCHED, "BEGIN", "INSERT INTO t VALUES (9, 'stays')", "SAVEPOINT `a ``TO`",
        "INSERT INTO t VALUES (1, 'gone')", "SAVEPOINT s", "INSERT INTO t VALUES (2, 'gone')",
        "INSERT INTO untouched VALUES (1)", "ROLLBACK TO `A ``to`", "COMMIT",
        keys="9", flavours=MARIADB,
    ),
    "rolled back, to a savepoint, then all": reads(
        _UNTOUCHED, "BEGIN", "INSERT INTO t VALUES (1, 'gone')", "SAVEPOINT s", "INSERT INTO untouched VALUES (1)",
        "INSERT INTO t VALUES (2, 'gone')", "ROLLBACK TO s", "ROLLBACK", "INSERT INTO t VALUES (9, 'stays')",
        keys="9", flavours=MARIADB,
    ),
    "tables that are not selected": reads(
        "CREATE TABLE new_one (id INT)", "ALTER TABLE new_one ADD COLUMN t INT", "RENAME TABLE new_one TO newer",
        "TRUNCATE TABLE newer", "DROP TABLE newer", "CREATE VIEW seen AS SELECT * FROM t", "DROP VIEW seen",
        "CREATE TABLE made SELECT 1 AS id", "DROP TABLE made", _HERE,
        keys="1",
    ),
    "what stands beside tables": reads(
        "CREATE PROCEDURE p() UPDATE t SET v = 'x'", "DROP PROCEDURE p",
        "CREATE USER 'reader'@'localhost' IDENTIFIED BY 'a word of 20 letters'",
        "GRANT SELECT ON reader_test.t TO 'reader'@'localhost'", "DROP USER 'reader'@'localhost'",
        "ANALYZE TABLE t", "FLUSH TABLES", "CREATE DATABASE reader_other", "DROP DATABASE reader_other", _HERE,
        keys="1",
    ),
    "a sequence": reads("CREATE SEQUENCE s", "SELECT NEXTVAL(s)", "DROP SEQUENCE s", _HERE, keys="1", flavours=MARIADB),
    "an XA transaction in one phase": reads(
        "XA START 'x'", "INSERT INTO t VALUES (9, 'x'), (10, 'y')", "XA END 'x'", "XA COMMIT 'x' ONE PHASE",
        "INSERT INTO t VALUES (11, 'z')",
        keys="9 10 11",
    ),
    "a compressed transaction": reads(
        "SET SESSION binlog_transaction_compression = ON", "INSERT INTO t VALUES (2, REPEAT('b', 50)), (3, NULL)",
        "BEGIN", "UPDATE t SET v = REPEAT('c', 40)", "DELETE FROM t WHERE id = 2", "COMMIT",
        keys="2 3 2 3 2", flavours=MYSQL,
    ),
    "compressed rows": reads(
        "SET GLOBAL log_bin_compress = ON", "INSERT INTO t VALUES (2, REPEAT('b', 50)), (3, NULL)",
        "BEGIN", "UPDATE t SET v = REPEAT('c', 40)", "DELETE FROM t WHERE id = 2", "COMMIT",
        f"CREATE TABLE long_statement (id INT) COMMENT '{_LONG}'", "DROP TABLE long_statement",
        "SET GLOBAL log_bin_compress = OFF",
        keys="2 3 2 3 2", flavours=MARIADB,
    ),
    "without checksums": reads(
        "SET GLOBAL binlog_checksum = NONE", _HERE, "SET GLOBAL binlog_checksum = CRC32",
        keys="1",
    ),
    "partial JSON of another table": reads(
        "CREATE TABLE IF NOT EXISTS another (id INT PRIMARY KEY, d JSON)",
        "REPLACE INTO another VALUES (1, JSON_OBJECT('a', 'long enough to matter', 'b', 2))",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "BEGIN", "UPDATE another SET d = JSON_SET(d, '$.b', 3) WHERE id = 1", _HERE, "COMMIT",
        keys="1", flavours=MYSQL,
    ),
    "truncate": stops(f"{_MAY_CHANGE}TRUNCATE TABLE t", "TRUNCATE TABLE t"),
    "truncate in a compressed event": stops(
        f"{_MAY_CHANGE}TRUNCATE", "SET GLOBAL log_bin_compress = ON", f"TRUNCATE /* {_LONG} */ t",
        "SET GLOBAL log_bin_compress = OFF", flavours=MARIADB,
    ),
    "alter": stops(f"{_MAY_CHANGE}ALTER TABLE t", "ALTER TABLE t COMMENT 'x'"),
    "rename": stops(
        f"{_MAY_CHANGE}RENAME TABLE t", "RENAME TABLE t TO away", "RENAME TABLE away TO t",
    ),
    "statement format": stops(
        "an INSERT that names reader_test.t was logged as a statement", _STATEMENT, "INSERT INTO t VALUES (8, 's')",
    ),
    "statement format of another table": stops(
        "an INSERT was logged as a statement", _STATEMENT, "INSERT INTO other VALUES (77)",
    ),
    "minimal image": stops(
        "binlog_row_image", _HERE, "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 'm'",
    ),
    "an XA transaction in two phases": stops(
        "an XA transaction on selected tables",
        "XA START 'x'", "INSERT INTO t VALUES (9, 'x')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'",
    ),
}  # fmt: skip
