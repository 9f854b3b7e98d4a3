"""Statements taken apart: where the tables' names stand, and what clauses do to rows. No server needed."""

from __future__ import annotations

import pytest

from migrate.publish.schema.alter_effects import keeps_names, leaves_values, takes_rows
from migrate.publish.schema.ddl import Ddl, Verb, parse
from migrate.publish.schema.sqltext import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES, tokens

NEW = {("d", "t"): ("x", "s0"), ("d", "u"): ("x", "s1"), ("e", "u"): ("x", "s2"), ("d", "a`b"): ("x", "s3")}


def read(sql: str, mode: int = 0, *, mariadb: bool = True, version: int = 101106) -> Ddl | None:
    return parse(sql, tokens(sql, mode, version, mariadb=mariadb), "d")


def known(sql: str) -> Ddl:
    found = read(sql)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("ALTER TABLE t ADD c INT", "ALTER TABLE `x`.`s0` ADD c INT"),
        ("alter online ignore table `d` . t add c int;", "alter online ignore table `x`.`s0` add c int;"),
        ("ALTER TABLE IF EXISTS t WAIT 5 ADD t INT", "ALTER TABLE IF EXISTS `x`.`s0` WAIT 5 ADD t INT"),
        ("ALTER TABLE t COMMENT 'd.t', RENAME e.u", "ALTER TABLE `x`.`s0` COMMENT 'd.t', RENAME `x`.`s2`"),
        ("ALTER TABLE t RENAME = u, ADD x INT", "ALTER TABLE `x`.`s0` RENAME = `x`.`s1`, ADD x INT"),
        ("ALTER TABLE t RENAME COLUMN t TO u", "ALTER TABLE `x`.`s0` RENAME COLUMN t TO u"),
        ("ALTER TABLE t RENAME KEY t TO u", "ALTER TABLE `x`.`s0` RENAME KEY t TO u"),
        ("ALTER TABLE`a``b`ADD c INT COMMENT '5 %'", "ALTER TABLE`x`.`s3`ADD c INT COMMENT '5 %%'"),
        ("CREATE TABLE u LIKE t", "CREATE TABLE `x`.`s1` LIKE `x`.`s0`"),
        ("CREATE TABLE IF NOT EXISTS u (LIKE d.t)", "CREATE TABLE IF NOT EXISTS `x`.`s1` (LIKE `x`.`s0`)"),
        ("CREATE OR REPLACE TABLE t (u INT)", "CREATE OR REPLACE TABLE `x`.`s0` (u INT)"),
        ("RENAME TABLE t TO e.u, u TO t", "RENAME TABLE `x`.`s0` TO `x`.`s2`, `x`.`s1` TO `x`.`s0`"),
        ("DROP TABLE IF EXISTS t, e.u CASCADE", "DROP TABLE IF EXISTS `x`.`s0`, `x`.`s2` CASCADE"),
        ("TRUNCATE /* t */ t", "TRUNCATE /* t */ `x`.`s0`"),
        ("TRUNCATE t WAIT 5 REUSE STORAGE", "TRUNCATE `x`.`s0` WAIT 5 REUSE STORAGE"),
        ("TRUNCATE t DROP STORAGE NOWAIT;", "TRUNCATE `x`.`s0` DROP STORAGE NOWAIT;"),
        ("CREATE UNIQUE INDEX t USING BTREE ON u (t)", "CREATE UNIQUE INDEX t USING BTREE ON `x`.`s1` (t)"),
        ("DROP INDEX u ON t", "DROP INDEX u ON `x`.`s0`"),
        (
            "SET STATEMENT lock_wait_timeout=1 FOR DROP TABLE t",
            "SET STATEMENT lock_wait_timeout=1 FOR DROP TABLE `x`.`s0`",
        ),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
            "ALTER TABLE `x`.`s0` EXCHANGE PARTITION p WITH TABLE `x`.`s1`",
        ),
        # a name alone is one of the session's database, whichever the altered table's is
        ("ALTER TABLE e.u RENAME t", "ALTER TABLE `x`.`s2` RENAME `x`.`s0`"),
        ("ALTER TABLE e.u RENAME = t, COMMENT 'u'", "ALTER TABLE `x`.`s2` RENAME = `x`.`s0`, COMMENT 'u'"),
        (
            "ALTER TABLE e.u EXCHANGE PARTITION p WITH TABLE t WITHOUT VALIDATION",
            "ALTER TABLE `x`.`s2` EXCHANGE PARTITION p WITH TABLE `x`.`s0` WITHOUT VALIDATION",
        ),
        (
            "ALTER TABLE e.u CONVERT PARTITION p TO TABLE t",
            "ALTER TABLE `x`.`s2` CONVERT PARTITION p TO TABLE `x`.`s0`",
        ),
        (
            "ALTER TABLE e.u CONVERT TABLE t TO PARTITION p",
            "ALTER TABLE `x`.`s2` CONVERT TABLE `x`.`s0` TO PARTITION p",
        ),
        ("/*!40000 ALTER TABLE */ t /*M!100000 FORCE */", "/*!40000 ALTER TABLE */ `x`.`s0` /*M!100000 FORCE */"),
    ],
)
def test_only_the_tables_names_are_replaced(sql: str, rewritten: str) -> None:
    assert known(sql).rewritten(NEW) == rewritten


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("ALTER TABLE t TABLESPACE s, ADD c INT", "ALTER TABLE `x`.`s0` ADD c INT"),
        ("ALTER TABLE t ADD c INT, TABLESPACE = s", "ALTER TABLE `x`.`s0` ADD c INT"),
        (
            "ALTER TABLE t ENCRYPTION='N', TABLESPACE s, ADD c INT, ENCRYPTED=NO, ADD d INT",
            "ALTER TABLE `x`.`s0` ADD c INT , ADD d INT",
        ),
        (
            "ALTER TABLE t COMMENT 'TABLESPACE s' TABLESPACE = s ENGINE = InnoDB",
            "ALTER TABLE `x`.`s0` COMMENT 'TABLESPACE s' ENGINE = InnoDB",
        ),
        (
            "ALTER TABLE t /*!50100 TABLESPACE s, */ ADD encryption INT",
            "ALTER TABLE `x`.`s0` /*!50100 */ ADD encryption INT",
        ),
        ("ALTER TABLE t TABLESPACE s, ENCRYPTION 'N'", "ALTER TABLE `x`.`s0`"),
        (
            "ALTER TABLE t ADD tablespace INT, ADD INDEX (encryption), RENAME COLUMN a TO encrypted",
            "ALTER TABLE `x`.`s0` ADD tablespace INT, ADD INDEX (encryption), RENAME COLUMN a TO encrypted",
        ),
        (
            "ALTER TABLE t ADD PARTITION (PARTITION encryption VALUES LESS THAN (3)"
            " DATA DIRECTORY = '/a' TABLESPACE s)",
            "ALTER TABLE `x`.`s0` ADD PARTITION (PARTITION encryption VALUES LESS THAN (3) )",
        ),
        (
            "ALTER TABLE t PARTITION BY LIST COLUMNS (tablespace, b) (PARTITION p VALUES IN ((1, 2))"
            " INDEX DIRECTORY '/a')",
            "ALTER TABLE `x`.`s0` PARTITION BY LIST COLUMNS (tablespace, b) (PARTITION p VALUES IN ((1, 2)) )",
        ),
        (
            "CREATE TABLE u (tablespace INT) ENGINE=InnoDB, TABLESPACE=s COMMENT='a'",
            "CREATE TABLE `x`.`s1` (tablespace INT) ENGINE=InnoDB COMMENT='a'",
        ),
        ("CREATE TABLE u (a INT) DATA DIRECTORY='/a', ENCRYPTION='Y'", "CREATE TABLE `x`.`s1` (a INT)"),
        (
            "ALTER TABLE t ALGORITHM=INSTANT, LOCK = DEFAULT, ADD COLUMN `lock` INT AFTER algorithm",
            "ALTER TABLE `x`.`s0` ADD COLUMN `lock` INT AFTER algorithm",
        ),
        ("ALTER TABLE t ADD lock INT, ALGORITHM INPLACE", "ALTER TABLE `x`.`s0` ADD lock INT"),
        (
            "CREATE INDEX i ON t (lock, algorithm) COMMENT 'c' ALGORITHM=INPLACE LOCK=NONE",
            "CREATE INDEX i ON `x`.`s0` (lock, algorithm) COMMENT 'c'",
        ),
        ("DROP INDEX lock ON t ALGORITHM = NOCOPY", "DROP INDEX lock ON `x`.`s0`"),
    ],
)
def test_in_which_files_a_table_is_and_how_it_is_changed_stays_behind(sql: str, rewritten: str) -> None:
    assert " ".join(known(sql).rewritten(NEW).split()) == rewritten


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW t AS SELECT 1",
        "CREATE TRIGGER t BEFORE INSERT ON u FOR EACH ROW SET @a = 1",
        "ALTER DATABASE t CHARACTER SET utf8mb4",
        "DROP DATABASE d",
        "RENAME USER a TO b",
        "GRANT ALL ON t TO a",
    ],
)
def test_what_defines_no_table_is_left_to_others(sql: str) -> None:
    assert read(sql) is None


@pytest.mark.parametrize("sql", ["CREATE TEMPORARY TABLE t (a INT)", "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS t, u"])
def test_temporary_tables_are_nobodys(sql: str) -> None:
    assert known(sql).tables == ()


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE 't' ADD c INT",
        "RENAME TABLE t u",
        "RENAME TABLE t TO u x",
        "ALTER TABLE t COMMENT 'open",
        "DROP TABLE /* t",
        "TRUNCATE TABLE t PARTITION (p0)",
        "TRUNCATE TABLE t, u",
        "TRUNCATE t DROP PARTITION",
    ],
)
def test_what_cannot_be_read_is_an_error(sql: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(sql)


def test_sql_mode_says_what_quotes_are() -> None:
    ansi = read('ALTER TABLE "t" ADD "RENAME TO u" INT', ANSI_QUOTES)
    assert ansi is not None
    assert ansi.names == (("d", "t"),)
    sql = r"ALTER TABLE t COMMENT '\', RENAME TO u, COMMENT 'x'"
    plain, escaped = read(sql, NO_BACKSLASH_ESCAPES), known(sql.replace("u, COMMENT 'x'", "u'"))
    assert plain is not None
    assert plain.names == (("d", "t"), ("d", "u"))
    assert escaped.names == (("d", "t"),)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("ALTER TABLE [a`b]ADD[, RENAME TO u]INT", [("d", "a`b")]),
        (
            "RENAME TABLE [d].[a]]b] TO [it's], e . [-- u] TO [/*]",
            [("d", "a]b"), ("d", "it's"), ("e", "-- u"), ("d", "/*")],
        ),
    ],
)
def test_names_stand_in_brackets_in_one_mode(sql: str, names: list[tuple[str, str]]) -> None:
    found = read(sql, MSSQL | ANSI_QUOTES)
    assert found is not None
    assert list(found.names) == names
    with pytest.raises(ValueError, match=r"where a name should|does not end"):
        read(sql)
    with pytest.raises(ValueError, match=r"a bracket does not end"):
        read("DROP TABLE t, [u", MSSQL | ANSI_QUOTES)


@pytest.mark.parametrize(
    ("comment", "mariadb", "version", "runs"),
    [
        ("!50100", True, 101106, True),
        ("!50700", True, 101106, False),  # MySQL's own
        ("!100200", True, 101106, True),
        ("!110000", True, 101106, False),
        ("M!100301", True, 101106, True),
        ("M!100301", False, 90704, False),
        ("!80000", False, 90704, True),
        ("!99999", False, 90704, False),
        ("!", False, 90704, True),
        ("", True, 101106, False),
    ],
)
def test_a_comment_runs_where_the_server_runs_it(comment: str, mariadb: bool, version: int, runs: bool) -> None:
    found = read(f"ALTER TABLE t FORCE /*{comment} , RENAME TO u */", mariadb=mariadb, version=version)
    assert found is not None
    assert (("d", "u") in found.names) is runs


@pytest.mark.parametrize(
    ("clauses", "takes", "leaves"),
    [
        ("ADD INDEX (a), ADD UNIQUE KEY k (b), DROP INDEX i, DROP FOREIGN KEY f, COMMENT 'x', FORCE", False, True),
        ("MODIFY a INT, CHANGE b b INT, CHANGE `C` c INT, ALTER a SET DEFAULT 1", False, True),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (1)), ADD CONSTRAINT CHECK (a > 0)", False, True),
        ("ADD a INT", False, False),
        ("ADD COLUMN (a INT, b INT)", False, False),
        ("DROP a", False, False),
        ("DROP COLUMN IF EXISTS a", False, False),
        ("CHANGE a b INT", False, False),
        ("RENAME COLUMN a TO b", False, False),
        ("ADD FOREIGN KEY (a) REFERENCES u (id) ON DELETE CASCADE", False, False),
        ("SOMETHING new", False, False),
        ("DROP PARTITION p", True, True),
        ("ALGORITHM = INPLACE, TRUNCATE PARTITION p", True, False),
        ("DISCARD TABLESPACE", True, False),
        ("IMPORT PARTITION p TABLESPACE", True, False),
        ("COMMENT 'DROP PARTITION p'", False, True),
        ("ADD COLUMN import INT", False, False),
        ("MODIFY discard VARCHAR(20), ADD INDEX import (a)", False, True),
        ("ADD INDEX k (a), DROP SYSTEM VERSIONING", True, False),
        ("DROP COLUMN system", False, False),
        ("REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (20))", False, True),
        ("REBUILD PARTITION p0, p1, p2", False, True),
        ("ANALYZE PARTITION p0, `p 1`", False, True),
        ("ORDER BY a, b DESC, c", False, True),
        ("ORDER BY a, ADD d INT", False, False),
        ("DROP PARTITION p0, p1", True, True),
        ("TRUNCATE PARTITION p0, p1", True, False),
        ("IMPORT PARTITION p0, p1 TABLESPACE", True, False),
        ("AUTOEXTEND_SIZE = 4M, SECONDARY_ENGINE = NULL", False, True),
        ("ADD (KEY i (a, b), CHECK (a > 0)), ADD COLUMN (INDEX (b))", False, True),
        ("ADD (KEY i (a), b INT)", False, False),
        ("ADD (b DECIMAL(9, 2), KEY (b))", False, False),
        ("ADD (FOREIGN KEY (a) REFERENCES u (id) ON DELETE CASCADE)", False, False),
    ],
)
def test_what_clauses_do_to_rows_and_values(clauses: str, takes: bool, leaves: bool) -> None:
    found = known(f"ALTER TABLE t {clauses}")
    assert found.verb is Verb.ALTER
    assert takes_rows(found) is takes
    assert leaves_values(found) is leaves


@pytest.mark.parametrize(
    ("clauses", "keeps"),
    [
        ("ADD COLUMN a INT AFTER b, ADD (c INT, d INT), ADD INDEX (a), FORCE", True),
        ("DROP COLUMN a, DROP b, ADD INDEX (c)", True),
        ("MODIFY a BIGINT FIRST, CHANGE `B` b INT, RENAME INDEX i TO j, DROP INDEX k", True),
        ("RENAME COLUMN a TO b", False),
        ("FORCE, CHANGE COLUMN a b INT", False),
        ("DROP COLUMN a, ADD COLUMN a INT", False),
        ("ADD b INT, DROP IF EXISTS a", False),
        ("ADD (KEY (b), INDEX (c)), DROP a", True),
        ("ADD (KEY (b), c INT), DROP a", False),
    ],
)
def test_what_may_give_a_name_to_another_column(clauses: str, keeps: bool) -> None:
    assert keeps_names(known(f"ALTER TABLE t {clauses}")) is keeps
