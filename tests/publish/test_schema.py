"""Statements on selected tables in a real server's log: what the columns are at each place in it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from decode_support import server_variables
from pydantic import SecretStr
from schema_support import Followed

from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.mysql.definition import create_as
from migrate.mysql.foreign_keys import foreign_keys
from migrate.preflight.server.grants import SHADOW
from migrate.publish.schema.definitions import Selected
from migrate.publish.schema.policy import ToBeApplied
from migrate.publish.schema.statement import Statement
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.helpers import globally, unique

TABLE = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, a INT, s VARCHAR(20) CHARACTER SET latin1,"
    " e ENUM('x','y'), KEY by_a (a))"
)


@pytest.fixture(params=["FULL", "MINIMAL"])
def metadata(request: pytest.FixtureRequest, box: Sandbox) -> Iterator[str]:
    with server_variables(box.source, binlog_row_metadata=request.param):
        yield request.param


def made(box: Sandbox, *more: str, follow: bool = True) -> Followed:
    database = unique("schema")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(TABLE, *more, database=database)
    return Followed(box.source, box.targets[0], database, "t", follow=follow)


@pytest.fixture
def followed(box: Sandbox, metadata: str) -> Iterator[Followed]:
    assert metadata
    one = made(box)
    yield one
    one.close()


@pytest.fixture
def stopping(box: Sandbox) -> Iterator[Followed]:
    one = made(box, follow=False)
    yield one
    one.close()


ALTERS = {
    "add": "ALTER TABLE t ADD COLUMN n INT UNSIGNED DEFAULT 7",
    "add-first": "ALTER TABLE t ADD COLUMN n DATETIME(3) FIRST",
    "add-after": "ALTER TABLE t ADD n TEXT CHARACTER SET gbk AFTER id",
    "drop": "ALTER TABLE t DROP COLUMN a",
    "rename-column": "ALTER TABLE t RENAME COLUMN a TO `or``der`",
    "change": "ALTER TABLE t CHANGE a b BIGINT NOT NULL DEFAULT 1 AFTER e",
    "modify-width": "ALTER TABLE t MODIFY a BIGINT, MODIFY s VARCHAR(300) CHARACTER SET latin1",
    "modify-charset": "ALTER TABLE t MODIFY s VARCHAR(20) CHARACTER SET utf8mb4",
    "convert": "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    "modify-enum": "ALTER TABLE t MODIFY e ENUM('w','x','y')",
    "many": "ALTER TABLE t ADD x1 INT, DROP COLUMN e, RENAME COLUMN a TO z, ADD x2 INT FIRST, ADD INDEX (x1)",
    "generated": "ALTER TABLE t ADD g INT AS (a * 2) STORED, ADD v INT AS (a + 1)",
    "comment": "ALTER TABLE t ADD n INT COMMENT 'a '' ; -- \\\\ /* `t` */ % %s (', ADD `RENAME TO x` INT",
    "qualified": "ALTER /* gh */ TABLE `{db}` . `t` -- why\n ADD COLUMN `n` INT # really",
    "executed-comment": "ALTER TABLE t /*!50000 ADD COLUMN n INT */",
}


@pytest.mark.parametrize("alter", ALTERS.values(), ids=ALTERS)
def test_rows_before_and_after_a_statement_have_the_columns_of_their_time(followed: Followed, alter: str) -> None:
    start = followed.here
    followed.sql(
        "INSERT INTO t (id, a, s, e) VALUES (18446744073709551615, -1, 'äö', 'y')",
        alter.format(db=followed.database),
        "INSERT INTO t (id) VALUES (2)" if "NOT NULL" not in alter else "INSERT INTO t (id, b) VALUES (2, 3)",
    )
    now = followed.catalog("t")
    expected = followed.server.query(f"SELECT * FROM {followed.database}.t WHERE id = 2")[0]

    seen = followed.read(start)

    (_, before), (_, after) = seen.rows_
    assert before == {"id": "18446744073709551615", "a": "-1", "s": "äö", "e": "2"}
    assert list(after) == followed.columns("t")
    assert list(after.values()) == [None if value is None else str(value) for value in expected]
    assert followed.known("t") == now


def test_a_restart_in_front_of_two_statements_reads_each_row_with_its_columns(followed: Followed) -> None:
    start = followed.here
    followed.sql("INSERT INTO t (id, a) VALUES (1, 1)", "ALTER TABLE t ADD n INT FIRST")
    between = followed.here
    followed.sql(
        "INSERT INTO t (id, n) VALUES (2, 22)",
        "ALTER TABLE t DROP COLUMN a, ADD m INT",
        "INSERT INTO t VALUES (5, 3, NULL, 'x', 9)",
    )
    one, two, three = followed.read(start).rows_
    assert len(followed.stored) == 2

    assert followed.read(start).rows_ == [one, two, three]  # before both: they are stored already, and come again
    assert followed.read(between).rows_ == [two, three]
    assert list(two[1]) == ["n", "id", "a", "s", "e"]
    assert three[1] == {"n": "5", "id": "3", "s": None, "e": "1", "m": "9"}


def test_rows_and_a_statement_while_nobody_reads_are_both_followed(followed: Followed) -> None:
    start = followed.here
    followed.sql("INSERT INTO t (id, a) VALUES (1, 1)", "ALTER TABLE t DROP COLUMN a", "UPDATE t SET s = 'v'")
    assert [list(row) for _, row in followed.read(start).rows_] == [["id", "a", "s", "e"], ["id", "s", "e"]]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD INDEX (s), COMMENT 'x', AUTO_INCREMENT = 77",
        "ALTER TABLE t DROP INDEX by_a",
        "CREATE INDEX i ON t (s)",
        "DROP INDEX by_a ON t",
        "ALTER TABLE t ENGINE=InnoDB",
        "ALTER TABLE t ALTER a SET DEFAULT 5",
        "ALTER TABLE t MODIFY a INT COMMENT 'what it is', FORCE",
        "ALTER TABLE t ORDER BY a",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES parent (id)",
        "ANALYZE TABLE t",
        "OPTIMIZE TABLE t",
        "RENAME TABLE t TO t2, t2 TO t",
        "CREATE TABLE IF NOT EXISTS t (x INT)",
        "CREATE TABLE u LIKE t",
        "CREATE TEMPORARY TABLE t (x INT)",
        "ALTER TABLE t ADD (KEY i1 (a))",
        "ALTER TABLE t ADD COLUMN (INDEX i1 (a), INDEX i2 (s), CHECK (a > 0))",
    ],
)
def test_a_statement_that_changes_neither_columns_nor_rows_passes_under_stop(
    stopping: Followed, statement: str
) -> None:
    stopping.sql("CREATE TABLE parent (id INT PRIMARY KEY)")
    start = stopping.here
    stopping.sql(statement)
    stopping.sql("INSERT INTO t (id, a) VALUES (1, NULL)")
    assert [row["id"] for _, row in stopping.read(start).rows_] == ["1"]


def test_what_passes_is_built_upon(stopping: Followed) -> None:
    """A key that was added is there when it is dropped again, also after a restart in between."""
    start = stopping.here
    stopping.sql("ALTER TABLE t ADD INDEX later (s)")
    between = stopping.here
    stopping.sql("ALTER TABLE t DROP INDEX later", "INSERT INTO t (id) VALUES (1)")
    assert len(stopping.read(start).rows_) == len(stopping.read(between).rows_) == 1


@pytest.mark.parametrize(
    "statement",
    [
        *ALTERS.values(),
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT AFTER id",  # the same columns, other values
    ],
)
def test_a_statement_that_changes_columns_stops_in_front_of_it_and_says_both_ways_on(
    stopping: Followed, statement: str
) -> None:
    start = stopping.here
    stopping.sql("INSERT INTO t (id, a) VALUES (1, 1)")
    stopping.sql(statement.format(db=stopping.database))
    error = stopping.stopped(start)
    assert f"a statement may change {stopping.database}.t: {' '.join(statement.split())[:20]}"[:60] in error.message
    assert "set tables[].ddl: ignore" in error.hint
    assert "start a new migration" in error.hint
    assert stopping.stored == []


def test_a_statement_at_a_standby_side_asks_for_the_other_sides_tables(stopping: Followed) -> None:
    """Lost: no row, but an hour: the hint spoke of targets and of the source, which for the reverse stream are
    the other way round. Costs 1 s."""
    statement = Statement(stopping.database, "ALTER TABLE t ADD COLUMN n INT")
    for standby, hint in ((True, "make the other side's tables the same"), (False, "runs it at the target tables")):
        with pytest.raises(StopError) as caught:
            stopping.schema(stopping.here).statement(statement, Coordinate(1, 1, 1, 0), standby=standby)
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("TRUNCATE t", "its rows come or go"),
        ("DROP TABLE t", "its rows come or go"),
        ("DROP TABLE IF EXISTS other, t", "its rows come or go"),
        ("DROP DATABASE {db}", "not known"),
        ("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)", "made anew"),
        ("RENAME TABLE t TO old, other TO t", "takes its place"),
        ("ALTER TABLE t ADD UNIQUE (a)", "decides the order"),
        ("ALTER TABLE t RENAME COLUMN id TO k", "(id) is not a NOT NULL unique key"),
        ("ALTER TABLE t DROP PRIMARY KEY", "(id) is not a NOT NULL unique key"),
        ("ALTER TABLE t ENGINE = MyISAM", "uses engine MyISAM"),
        ("ALTER IGNORE TABLE t ADD INDEX (a)", "its rows come or go"),
        ("ALTER TABLE t DROP COLUMN e", "look at column e"),
        ("ALTER TABLE t MODIFY e ENUM('y','x')", "look at column e"),
    ],
)
def test_rows_that_go_without_events_stop_whatever_the_policy(
    box: Sandbox, flavour: Flavour, statement: str, why: str
) -> None:
    if flavour is Flavour.MYSQL and ("IGNORE" in statement or "OR REPLACE" in statement):
        pytest.skip("MariaDB only")
    followed = made(box, "CREATE TABLE other LIKE t")
    followed.selected[(followed.database, "t")] = Selected(True, ("id",), frozenset({"e"}))
    start = followed.here
    followed.sql(statement.format(db=followed.database))
    error = followed.stopped(start)
    assert f"a statement may change {followed.database}.t: " in error.message
    assert why in error.message + error.hint
    assert "start a new migration" in error.hint
    followed.close()


def test_a_statement_that_the_targets_are_to_get_is_stopped_in_front_of_until_they_have(box: Sandbox) -> None:
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, follows_standby=True)
    start, insert = followed.here, "INSERT INTO t (id) VALUES ({})"
    followed.sql(insert.format(1), add := "ALTER TABLE t ADD COLUMN more INT", insert.format(2), "ALTER TABLE t DROP a")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied)
    assert (error.name, error.sql) == ((followed.database, "t"), add)
    followed.applied = frozenset({error.since})
    second = followed.stopped(start)
    assert isinstance(second, ToBeApplied)
    assert second.sql == "ALTER TABLE t DROP a"
    followed.applied |= {second.since}
    assert len(followed.read(start).rows_) == 2
    followed.close()


TRUNCATES = {
    "short": "TRUNCATE t",
    "qualified": "/* migrate main 0.1.4.1 */ TRUNCATE /*!99999 x */ TABLE {db} . `t`",
    "ansi": "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'; TRUNCATE \"t\"",
    "wait": "TRUNCATE t WAIT 5",
    "settings": "SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE t NOWAIT",
}


@pytest.mark.parametrize("statement", TRUNCATES.values(), ids=TRUNCATES)
def test_a_table_is_emptied_once_the_targets_are_where_its_policy_names_it(
    box: Sandbox, flavour: Flavour, statement: str
) -> None:
    """However its session wrote that: a target of another kind, or with another sql_mode, would not read it."""
    if flavour is Flavour.MYSQL and "WAIT" in statement:
        pytest.skip("MariaDB only")
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(True, ("id",), empties=True)
    start = followed.here
    *settings, truncate = statement.format(db=followed.database).split("; ")
    followed.sql("INSERT INTO t (id) VALUES (1)", *settings, truncate)
    followed.sql("INSERT INTO t (id) VALUES (2)")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied), error
    assert error.sql == f"TRUNCATE TABLE `{followed.database}`.`t`"
    assert error.hint == "start a new migration and copy again"
    followed.applied = frozenset({error.since})
    assert [row["id"] for _, row in followed.read(start).rows_] == ["1", "2"]
    assert followed.in_force(followed.here)[(followed.database, "t")].unequal
    followed.close()


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN n INT"])
def test_what_a_session_does_to_a_temporary_table_of_the_name_is_brought_to_no_target(
    box: Sandbox, statement: str
) -> None:
    """Lost: every row of the target tables, for a TRUNCATE of a session's own table."""
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, empties=True)
    start = followed.here
    followed.sql("SET SESSION binlog_format = 'STATEMENT'", "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)", statement)
    error = followed.stopped(start)
    assert not isinstance(error, ToBeApplied)
    assert "it may be about a temporary table of that name" in error.message
    followed.close()


TAKES = [
    "DROP TABLE t",
    "ALTER TABLE p TRUNCATE PARTITION p0",
    "ALTER TABLE p TRUNCATE PARTITION ALL",
    "ALTER TABLE p DROP PARTITION p0",
    "ALTER TABLE p /*!50100 DROP PARTITION */ p1",
]


@pytest.mark.parametrize("statement", TAKES)
def test_other_statements_that_take_rows_are_in_no_policy(box: Sandbox, statement: str) -> None:
    """Lost: every row of the target tables, for a part of the source's; or the part stayed there, and nobody knew."""
    parts = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    followed = made(box, f"CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id) {parts}")
    every = Selected(True, ("id",), renames=True, empties=True)
    followed.selected = {(followed.database, "t"): every, (followed.database, "p"): every}
    followed.first = {name: followed._version(name) for name in followed.selected}
    start = followed.here
    followed.sql(statement)
    error = followed.stopped(start)
    assert not isinstance(error, ToBeApplied)
    assert f"a statement may change {followed.database}.{'t' if ' t' in statement else 'p'}: " in error.message
    assert "its rows come or go without events" in error.message
    followed.close()


OTHERWISE = [
    ("sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" ADD COLUMN `as "it" is` INT', "sql_mode"),
    ("sql_mode = 'REAL_AS_FLOAT'", "ALTER TABLE t ADD COLUMN r REAL", "sql_mode"),
    ("sql_mode = 'PIPES_AS_CONCAT'", "ALTER TABLE t ADD COLUMN g VARCHAR(20) AS (s || s) STORED", "sql_mode"),
    ("time_zone = '+09:00'", "ALTER TABLE t ADD COLUMN z TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'", "time zone"),
    (
        "explicit_defaults_for_timestamp = OFF, time_zone = '+00:00'",
        "ALTER TABLE t ADD COLUMN z TIMESTAMP DEFAULT '2020-01-01 00:00:00'",
        "explicit_defaults_for_timestamp is off",
    ),
]


@pytest.mark.parametrize(("variable", "statement", "why"), OTHERWISE, ids=[why[:8] for *_, why in OTHERWISE])
def test_a_statement_that_our_session_would_read_otherwise_is_not_run_at_the_targets(
    box: Sandbox, variable: str, statement: str, why: str
) -> None:
    """Lost: what the source's column is: the targets' was DOUBLE and not FLOAT, OR and not a text, nine hours off."""
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, follows_standby=True)
    start = followed.here
    followed.sql(f"SET SESSION {variable}", statement)
    error = followed.stopped(start)
    assert not isinstance(error, ToBeApplied)
    assert f"its session's {why}" in error.message
    followed.close()


def test_a_column_beside_a_time_of_another_zone_is_run_at_the_targets(box: Sandbox) -> None:
    """MySQL notes the zone of each statement on a table with a TIMESTAMP."""
    followed = made(box, "ALTER TABLE t ADD z TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'")
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, follows_standby=True)
    start = followed.here
    followed.sql("SET SESSION time_zone = '+09:00'", "ALTER TABLE t ADD COLUMN more INT DEFAULT 1")
    assert isinstance(followed.stopped(start), ToBeApplied)
    followed.close()


def test_a_time_of_a_session_that_is_as_ours_is_run_at_the_targets(box: Sandbox) -> None:
    """MySQL's log has flags too, in which MariaDB's for explicit_defaults_for_timestamp is never set."""
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, follows_standby=True)
    start, session = followed.here, "SET SESSION time_zone = '+00:00', explicit_defaults_for_timestamp = ON"
    followed.sql(session, "ALTER TABLE t ADD COLUMN z TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'")
    assert isinstance(followed.stopped(start), ToBeApplied)
    followed.close()


@pytest.mark.parametrize("added", ["at DATETIME DEFAULT NOW()", "at TIMESTAMP"])
def test_a_column_that_the_targets_would_fill_with_values_of_their_own_is_stopped_at(box: Sandbox, added: str) -> None:
    """Lost: what the rows that were there have in it at the source."""
    followed = made(box)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True, follows_standby=True)
    start, session = followed.here, "SET SESSION explicit_defaults_for_timestamp = OFF"
    followed.sql(session, f"ALTER TABLE t ADD COLUMN {added}")
    error = followed.stopped(start)
    assert not isinstance(error, ToBeApplied)
    assert "column `at` DEFAULT " in error.message
    assert "other values at the sources than at the targets" in error.message
    assert "migrate verify --repair" in error.hint
    followed.close()


@pytest.mark.parametrize(
    ("key", "other"), [("v(3)", "v(10)"), ("(LOWER(v))", "(CONCAT(v, ''))")], ids=["prefix", "expression"]
)
def test_a_unique_key_that_tells_other_rows_apart_stops_and_an_index_passes(box: Sandbox, key: str, other: str) -> None:
    """Lost: rows that the source has both: by the targets' key, one of them made way for the other."""
    if "LOWER" in key and box.flavour is Flavour.MARIADB:
        pytest.skip("MySQL only")
    database = unique("keys")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(
        f"CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(20), UNIQUE KEY u ({key}), KEY k (v(3)))", database=database
    )
    followed = Followed(box.source, box.targets[0], database, "p", follow=False)
    start = followed.here
    followed.sql("ALTER TABLE p DROP KEY k, ADD KEY k (v(5))", "INSERT INTO p VALUES (1, 'abc')")
    assert len(followed.read(start).rows_) == 1
    start = followed.here
    followed.sql(f"ALTER TABLE p DROP KEY u, ADD UNIQUE KEY u ({other})")
    error = followed.stopped(start)
    assert "a unique key that the target tables have tells other rows apart" in error.message
    followed.close()


@pytest.mark.parametrize("verb", ["TRUNCATE", "DROP", "EXCHANGE"])
def test_partitions_that_take_rows_with_them_stop_others_pass(box: Sandbox, verb: str) -> None:
    more = " WITH TABLE plain" if verb == "EXCHANGE" else ""
    parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    followed = made(box, f"ALTER TABLE t {parts}", "CREATE TABLE plain LIKE t", "ALTER TABLE plain REMOVE PARTITIONING")
    start = followed.here
    split = "PARTITION p1 VALUES LESS THAN (15), PARTITION p2 VALUES LESS THAN (20)"
    followed.sql(f"ALTER TABLE t REORGANIZE PARTITION p1 INTO ({split})")
    assert followed.read(start).rows_ == []
    start = followed.here
    followed.sql(f"ALTER TABLE t {verb} PARTITION p0{more}")
    assert "its rows come or go" in followed.stopped(start).message
    followed.close()


LIMITED = (
    "CREATE TABLE p (id INT PRIMARY KEY, a INT, l VARCHAR(9) CHARACTER SET latin1, CONSTRAINT c CHECK (a > 0),"
    " CONSTRAINT ` CHECK (` CHECK (a <> 7), CHECK (l <> 'é' AND l <> _utf8mb4'x')) COMMENT = 'CHECK (x)' {by}"
)
BELOW_10 = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (10))"
LIFTS = {
    "range": (BELOW_10, "ADD PARTITION (PARTITION p2 VALUES LESS THAN (20))"),
    "range-end": (BELOW_10, "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN MAXVALUE)"),
    "list": ("PARTITION BY LIST (id) (PARTITION p0 VALUES IN (1, 2))", "ADD PARTITION (PARTITION p1 VALUES IN (3))"),
    "no-partitions": (BELOW_10, "REMOVE PARTITIONING"),
    "other-partitions": (BELOW_10, "PARTITION BY HASH (id) PARTITIONS 2"),
    "drop": ("", "DROP CONSTRAINT c"),
    "other-check": ("", "DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (a >= 0)"),
    "drop-check-mysql": ("", "DROP CHECK c"),
    "not-enforced-mysql": ("", "ALTER CHECK c NOT ENFORCED"),
    "of-a-column-mariadb": ("", "MODIFY b INT"),
    "list-default-mariadb": (
        "PARTITION BY LIST (id) (PARTITION p0 VALUES IN (1, 2))",
        "ADD PARTITION (PARTITION p1 DEFAULT)",
    ),
}


def limited(box: Sandbox, by: str, *, follow: bool) -> Followed:
    database = unique("limits")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(LIMITED.format(by=by), database=database)
    if box.flavour is Flavour.MARIADB:
        box.source.execute("ALTER TABLE p ADD b INT COMMENT 'b' CHECK (b < 9)", database=database)
    return Followed(box.source, box.targets[0], database, "p", follow=follow)


@pytest.mark.parametrize(("by", "lift"), LIFTS.values(), ids=LIFTS)
def test_rows_that_the_targets_would_refuse_from_now_on_stop_in_front_of_the_statement(
    box: Sandbox, request: pytest.FixtureRequest, by: str, lift: str
) -> None:
    other = {Flavour.MYSQL: "mariadb", Flavour.MARIADB: "mysql"}[box.flavour]
    if request.node.callspec.id.endswith(other):
        pytest.skip(f"{other} only")
    followed = limited(box, by, follow=False)
    start = followed.here
    followed.sql(f"ALTER TABLE p {lift}")
    error = followed.stopped(start)
    assert f"a statement may change {followed.database}.p: ALTER TABLE p {lift}" in error.message
    assert ("a CHECK that" if not by else "its partitions take other rows") in error.message
    assert f'`migrate ddl run "ALTER TABLE p {lift}" --side targets` runs it at the target tables' in error.hint
    assert "then set tables[].ddl: ignore and start again" in error.hint
    followed.selected[(followed.database, "p")] = Selected(True, ("id",))
    followed.sql("INSERT INTO p (id, a) VALUES (2, 3)")
    assert [row["id"] for _, row in followed.read(start).rows_] == ["2"]
    followed.close()


@pytest.mark.parametrize(
    ("by", "alter"),
    [
        (BELOW_10, "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (3), PARTITION b VALUES LESS THAN (5))"),
        (
            "PARTITION BY RANGE COLUMNS (id) (PARTITION p0 VALUES LESS THAN (MAXVALUE))",
            "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (9), PARTITION b VALUES LESS THAN (MAXVALUE))",
        ),
        ("PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE)", "REMOVE PARTITIONING"),
        ("PARTITION BY HASH (id) PARTITIONS 2", "ADD PARTITION PARTITIONS 2"),
        ("PARTITION BY KEY () PARTITIONS 3", "COALESCE PARTITION 1"),
        ("", BELOW_10),
        ("", "ADD CONSTRAINT d CHECK (a < 100)"),
        ("", "DROP CONSTRAINT c, ADD CONSTRAINT other CHECK (a > 0)"),
        ("", "ADD INDEX (a)"),
    ],
)
def test_partitions_and_checks_by_which_the_targets_refuse_nothing_more_pass(box: Sandbox, by: str, alter: str) -> None:
    followed = limited(box, by, follow=False)
    start = followed.here
    followed.sql(f"ALTER TABLE p {alter}", "INSERT INTO p (id, a) VALUES (2, 3)")
    assert [row["id"] for _, row in followed.read(start).rows_] == ["2"]
    followed.close()


PERIOD = "ADD x DATE NOT NULL DEFAULT '2020-01-01', ADD y DATE NOT NULL DEFAULT '2020-01-02'"
OF_TIME = f"{PERIOD}, ADD PERIOD FOR app (x, y)"


@pytest.mark.parametrize(
    ("before", "alter", "why"),
    [
        (OF_TIME, "DROP PERIOD FOR app", "(a PERIOD that the target tables have is lifted)"),
        (
            OF_TIME,
            "DROP PERIOD FOR app, ADD PERIOD FOR app (y, x), ALTER x SET DEFAULT '2020-02-01'",
            "a PERIOD that the target tables have is lifted",
        ),
        (
            f"{OF_TIME}, ADD UNIQUE (a, x)",
            "ADD UNIQUE (a, app WITHOUT OVERLAPS)",
            "excludes rows whose periods overlap",
        ),
        (OF_TIME, "DROP PERIOD FOR app, ADD PERIOD FOR other (x, y)", ""),
        (OF_TIME, "DROP PERIOD IF EXISTS FOR nobody", ""),
        (OF_TIME, "ADD PERIOD IF NOT EXISTS FOR app (x, y)", ""),
        (PERIOD, "ADD PERIOD FOR app (x, y)", ""),
        (PERIOD, "ADD COLUMN period INT", "ADD COLUMN period INT"),
        (f"{PERIOD}, ADD COLUMN period INT", "DROP COLUMN period", "DROP COLUMN period"),
    ],
)
def test_a_period_stops_where_the_targets_would_refuse_rows(
    mariadb_box: Sandbox, before: str, alter: str, why: str
) -> None:
    followed = made(mariadb_box, f"ALTER TABLE t {before}", follow=False)
    start = followed.here
    followed.sql(f"ALTER TABLE t {alter}", "INSERT INTO t (id) VALUES (1)")
    if why:
        error = followed.stopped(start)
        assert f"a statement may change {followed.database}.t: ALTER TABLE t {alter}" in error.message
        assert why in error.message
        assert "ddl: ignore" in error.hint
    else:
        assert [row["id"] for _, row in followed.read(start).rows_] == ["1"]
    followed.close()


SET_FOR = "SET STATEMENT lock_wait_timeout = 5 FOR"


@pytest.mark.parametrize(
    "statement",
    [
        "SET STATEMENT max_statement_time = 60 FOR OPTIMIZE TABLE t",
        f"{SET_FOR} ANALYZE TABLE t",
        f"{SET_FOR} {SET_FOR} CREATE OR REPLACE VIEW v AS SELECT * FROM t",
        f"{SET_FOR} DROP VIEW v /* t */",
        f"{SET_FOR} GRANT SELECT ON t TO CURRENT_USER",
        f"{SET_FOR} CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        "SET STATEMENT sql_mode = 'NO_BACKSLASH_ESCAPES', lock_wait_timeout = (SELECT LENGTH(' FOR '))"
        " FOR DROP TRIGGER IF EXISTS t",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT, `S` DECIMAL(10, 2) DEFAULT 7)",
        f"{SET_FOR} ALTER TABLE t ADD IF NOT EXISTS (a INT)",
    ],
)
def test_what_a_statement_of_mariadb_changes_nothing_by_passes(mariadb_box: Sandbox, statement: str) -> None:
    followed = made(mariadb_box, "CREATE VIEW v AS SELECT 1", follow=False)
    start = followed.here
    followed.sql(statement, "INSERT INTO t (id) VALUES (1)")
    assert [row["id"] for _, row in followed.read(start).rows_] == ["1"]
    followed.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"{SET_FOR} TRUNCATE t",
        f"{SET_FOR} {SET_FOR} TRUNCATE t",
        "SET STATEMENT lock_wait_timeout = (SELECT LENGTH(SUBSTRING('abc' FROM 1 FOR 2))) FOR TRUNCATE t",
        "SET STATEMENT lock_wait_timeout = (SELECT LENGTH(' FOR DO ')) FOR TRUNCATE t",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT, n INT)",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT, KEY (s))",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT), ADD n INT",
    ],
)
def test_what_a_statement_of_mariadb_changes_something_by_stops(mariadb_box: Sandbox, statement: str) -> None:
    followed = made(mariadb_box, follow=False)
    start = followed.here
    followed.sql(statement)
    assert f"a statement may change {followed.database}.t: " in followed.stopped(start).message
    followed.close()


def test_what_a_killed_publisher_left_and_another_one_that_tries_a_statement_are_in_nobodys_way(box: Sandbox) -> None:
    """Names of constraints are the database's: another source's copy of the same table kept the statement from being
    tried, and the publisher stopped."""
    parent = "CREATE TABLE p (id BIGINT UNSIGNED PRIMARY KEY)"
    key = "ADD COLUMN p BIGINT UNSIGNED, ADD CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id)"
    followed = made(box, parent, f"ALTER TABLE t {key}")
    state, shadow = box.targets[0], followed.state.shadow
    state.execute(parent, "CREATE TABLE s0123abcd_0 (id INT)", f"ALTER TABLE s0123abcd_0 {key}", database=shadow)
    start = followed.here
    followed.sql("ALTER TABLE t ADD n INT", "INSERT INTO t (id, n) VALUES (1, 2)")
    with closing(state.connect()) as other, other.cursor() as cursor, ThreadPoolExecutor(1) as beside:
        cursor.execute("SELECT GET_LOCK(%s, 0)", [f"migrate {shadow}"])
        reading = beside.submit(followed.read, start)
        waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET_LOCK%'"
        wait(lambda: state.query(waiting)[0][0], "the statement to wait for another one")
        cursor.execute("SELECT RELEASE_LOCK(%s)", [f"migrate {shadow}"])
        assert [row["n"] for _, row in reading.result().rows_] == ["2"]
    followed.close()


def test_constraints_that_the_server_named_are_dropped_by_the_names_that_the_source_gave(box: Sandbox) -> None:
    """The statement stopped the publisher: the server that it is tried on had named them by its own table."""
    followed = made(box, "CREATE TABLE p (id BIGINT UNSIGNED PRIMARY KEY)")
    checks = ["ADD CHECK (a < 9)", "DROP CHECK t_chk_1"] if box.flavour is Flavour.MYSQL else ["FORCE", "FORCE"]
    with server_variables(box.source, binlog_row_metadata="MINIMAL"):
        start = followed.here
        followed.sql(
            "ALTER TABLE t ADD COLUMN p BIGINT UNSIGNED, ADD FOREIGN KEY (p) REFERENCES p (id)",
            f"ALTER TABLE t ADD n INT, {checks[0]}",
            "ALTER TABLE t ADD COLUMN q BIGINT UNSIGNED, ADD FOREIGN KEY (q) REFERENCES p (id)",
            "ALTER TABLE t DROP FOREIGN KEY t_ibfk_2",
            f"ALTER TABLE t DROP FOREIGN KEY t_ibfk_1, {checks[1]}",
            "ALTER TABLE t ADD m INT",
            "INSERT INTO t (id, p, n, q, m) VALUES (1, 7, 1, 8, 2)",
        )
        assert [(row["p"], row["n"], row["q"], row["m"]) for _, row in followed.read(start).rows_] == [
            ("7", "1", "8", "2")
        ]
    followed.close()


def test_a_foreign_key_has_the_name_that_its_parents_column_was_given(box: Sandbox) -> None:
    """Lost: rows below a parent whose referenced column was renamed: the child's definition had the old name, by which
    nobody finds them, and a verification from after the statement still counted."""
    child = "CREATE TABLE c (id INT PRIMARY KEY, `c` INT, FOREIGN KEY (c) REFERENCES p (`a`) ON UPDATE CASCADE)"
    database = unique("schema")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute("CREATE TABLE p (id INT PRIMARY KEY, `a` INT, UNIQUE (`a`))", child, database=database)
    followed = Followed(box.source, box.targets[0], database, "p", "c")
    start, name = followed.here, (database, "c")
    followed.sql("ALTER TABLE p CHANGE `a` `b%``` INT")
    between = followed.here
    followed.sql("ALTER TABLE c ADD n INT", "INSERT INTO c (id, n) VALUES (1, 2)")
    assert [row["n"] for _, row in followed.read(start).rows_] == ["2"]
    for place in (between, followed.here):
        (key,) = foreign_keys(followed.in_force(place)[name].create, database)
        assert (key.columns, key.referenced, key.on_update) == (("c",), ("b%`",), "CASCADE")
    followed.close()


def test_a_table_renamed_away_and_back_is_followed(followed: Followed) -> None:
    start = followed.here
    followed.sql("RENAME TABLE t TO away")
    between = followed.here
    followed.sql("ALTER TABLE away ADD n INT", "ALTER TABLE away RENAME TO t", "INSERT INTO t (id, n) VALUES (1, 2)")
    for place in (start, between):
        assert [row["n"] for _, row in followed.read(place).rows_] == ["2"]


@pytest.mark.parametrize("rename", ["RENAME TABLE t TO away", "ALTER TABLE t RENAME away"])
def test_another_name_of_the_table_stops_unless_its_policy_names_it(box: Sandbox, rename: str) -> None:
    followed = made(box)
    start = followed.here
    followed.selected[(followed.database, "t")] = Selected(True, ("id",), follows_standby=True)
    followed.sql(rename)
    error = followed.stopped(start)
    assert f"a statement may change {followed.database}.t: {rename} (it gets another name)" in error.message
    assert "set `rename: ignore` in its tables[].ddl and start again" in error.hint
    followed.close()


def test_rows_that_change_while_the_table_has_another_name_stop(followed: Followed) -> None:
    start = followed.here
    followed.sql("RENAME TABLE t TO away", "INSERT INTO away (id) VALUES (1)")
    assert f"rows of {followed.database}.t change while it is named" in followed.stopped(start).message


def test_sql_modes_decide_what_a_quote_is(followed: Followed) -> None:
    start = followed.here
    followed.sql(
        "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        """ALTER TABLE "t" ADD "n" INT COMMENT '\\', ADD m INT COMMENT 'x'""",
        "INSERT INTO t (id, n, m) VALUES (1, 2, 3)",
    )
    assert [(row["n"], row["m"]) for _, row in followed.read(start).rows_] == [("2", "3")]


def test_a_state_server_of_the_other_kind_leaves_it_to_the_columns_in_the_log(
    mariadb_box: Sandbox, mysql_box: Sandbox
) -> None:
    followed = made(mysql_box)
    other = Followed(mysql_box.source, mariadb_box.targets[0], followed.database, "t")
    start = other.here
    other.sql("ALTER TABLE t ADD n INT")
    between = other.here
    other.sql("INSERT INTO t (id, n) VALUES (1, 2)")
    for place in (start, between):
        assert [row["n"] for _, row in other.read(place).rows_] == ["2"]
    with server_variables(mysql_box.source, binlog_row_metadata="MINIMAL"):
        start = other.here
        other.sql("ALTER TABLE t ADD m INT", "INSERT INTO t (id, m) VALUES (2, 2)")
        error = other.stopped(start)
    assert "the state server is mariadb, the source mysql), and the log does not name them" in error.message
    followed.close()
    other.close()


def test_columns_that_changed_again_since_are_not_taken_for_those_of_the_row(
    mariadb_box: Sandbox, mysql_box: Sandbox
) -> None:
    made(mysql_box).close()
    followed = made(mysql_box)
    other = Followed(mysql_box.source, mariadb_box.targets[0], followed.database, "t")
    start = other.here
    other.sql("ALTER TABLE t ADD n INT", "INSERT INTO t (id, n) VALUES (1, 2)", "ALTER TABLE t DROP COLUMN n")
    assert "it changed again since" in other.stopped(start).message
    followed.close()
    other.close()


def test_metadata_switched_while_reading_changes_nothing(box: Sandbox, flavour: Flavour) -> None:
    followed = made(box)
    start = followed.here
    for number, mode in enumerate(["FULL", "MINIMAL", "NO_LOG" if flavour is Flavour.MARIADB else "FULL", "MINIMAL"]):
        with server_variables(box.source, binlog_row_metadata=mode):
            followed.sql(f"INSERT INTO t (id, a, s) VALUES ({2**64 - 1 - number}, -{number}, 'ö')")
    rows = [row for _, row in followed.read(start).rows_]
    assert [(row["id"], row["a"], row["s"]) for row in rows] == [(str(2**64 - 1 - n), str(-n), "ö") for n in range(4)]
    followed.close()


def test_an_alter_in_two_phases_counts_where_it_is_committed(mariadb_box: Sandbox) -> None:
    followed = made(mariadb_box)
    start = followed.here
    followed.sql(
        "SET SESSION binlog_alter_two_phase = ON",
        "ALTER TABLE t ADD COLUMN n INT, ALGORITHM = COPY",
        "INSERT INTO t (id, n) VALUES (1, 2)",
    )
    logged = followed.server.query(f"SHOW BINLOG EVENTS IN '{start[0]}' FROM {start[1]}")
    assert sum("ALTER TABLE" in str(row[5]) for row in logged) == 2  # its start, and its commit
    assert [row["n"] for _, row in followed.read(start).rows_] == ["2"]
    assert len(followed.stored) == 1
    followed.close()


SESSIONS = {
    "ansi": (
        "SET SESSION sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" ADD INDEX "i1" ("a")',
        "SET SESSION sql_mode = DEFAULT", "ALTER TABLE t ADD INDEX i2 (s)",
        "SET SESSION sql_mode = 'ANSI'", 'CREATE INDEX "i3" ON "t" ("a", "s")',
    ),
    "no backslash escapes": (
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'", "ALTER TABLE t ADD INDEX i1 (a), COMMENT 'a\\'",
        "SET SESSION sql_mode = DEFAULT", "ALTER TABLE t ADD INDEX i2 (b)",
    ),
    "bytes": ("ALTER TABLE t ALTER w SET DEFAULT x'ff'", "ALTER TABLE t ADD INDEX i1 (a)"),
    "zone": ("SET SESSION time_zone = '+05:00'", "ALTER TABLE t ALTER z SET DEFAULT '2020-01-01 00:00:00'"),
}  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_a_statement_is_read_and_replayed_as_its_session_meant_it(box: Sandbox, name: str) -> None:
    more = (
        "ALTER TABLE t ADD b ENUM('a\\\\b','c') DEFAULT 'a\\\\b', ADD w VARBINARY(4) DEFAULT x'00ff',"
        " ADD z TIMESTAMP NULL DEFAULT '2021-01-01 00:00:00'"
    )
    followed = made(box, more, follow=False)
    start = followed.here
    followed.sql("INSERT INTO t (id) VALUES (1)", *SESSIONS[name], "INSERT INTO t (id) VALUES (2)")
    assert [row["id"] for _, row in followed.read(start).rows_] == ["1", "2"]
    assert _made(followed) == followed.now("t")
    followed.close()


def _made(followed: Followed) -> str:
    """The definition of `t` that is known."""
    return create_as(followed.in_force(followed.here)[followed.database, "t"].create, "t").replace("%%", "%")


def test_a_statement_in_a_character_set_with_backslashes_in_characters_is_replayed_in_it(box: Sandbox) -> None:
    followed = made(box, follow=False)
    start = followed.here
    with closing(box.source.connect(followed.database, charset="gbk")) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE t ADD INDEX i1 (a), COMMENT '\u8aa0'")  # 0xD5 0x5C
        cursor.execute("ALTER TABLE t ADD INDEX i2 (s)")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
    assert len(followed.read(start).rows_) == 1
    assert _made(followed) == followed.now("t")
    assert "COMMENT='\u8aa0'" in _made(followed)
    followed.close()


def test_a_new_table_gets_the_collation_of_its_database(box: Sandbox) -> None:
    followed = made(box)
    followed.sql(f"ALTER DATABASE {followed.database} COLLATE latin1_german1_ci")
    again = Followed(box.source, box.targets[0], followed.database, "t")
    start = again.here
    again.sql(
        "CREATE TABLE _t_gho (id BIGINT UNSIGNED PRIMARY KEY, n VARCHAR(9))",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "INSERT INTO t VALUES (1, 'x')",
    )
    assert len(again.read(start).rows_) == 1
    assert again.known("t") == again.catalog("t")
    assert again.catalog("t").by_name["n"].collation == "latin1_german1_ci"
    followed.close()
    again.close()


def test_timestamps_are_explicit_or_not_as_in_the_statements_session(box: Sandbox) -> None:
    for explicit in (1, 0):
        followed = made(box, follow=True)
        start = followed.here
        followed.sql(
            f"SET SESSION explicit_defaults_for_timestamp = {explicit}, sql_mode = ''",
            "ALTER TABLE t ADD x TIMESTAMP",
            "INSERT INTO t (id) VALUES (2)",
        )
        with globally(box.targets[0], "explicit_defaults_for_timestamp", 1 - explicit):
            assert len(followed.read(start).rows_) == 1
        assert followed.known("t") == followed.catalog("t")
        assert followed.catalog("t").by_name["x"].nullable is bool(explicit)
        followed.close()


def test_a_state_server_that_demands_primary_keys_and_makes_them_replays_all_the_same(mysql_box: Sandbox) -> None:
    database = unique("schema")
    mysql_box.source.execute(f"CREATE DATABASE {database}")
    mysql_box.source.execute("CREATE TABLE t (id INT NOT NULL UNIQUE, a INT)", database=database)
    followed = Followed(mysql_box.source, mysql_box.targets[0], database, "t", follow=False)
    start = followed.here
    followed.sql("ALTER TABLE t ADD INDEX (a)", "INSERT INTO t VALUES (1, 2)")
    target = mysql_box.targets[0]
    with globally(target, "sql_require_primary_key", 1), globally(target, "sql_generate_invisible_primary_key", 1):
        assert len(followed.read(start).rows_) == 1
    followed.close()


def test_where_the_source_has_a_table_is_nothing_that_a_state_server_needs(mysql_box: Sandbox) -> None:
    """It has no such tablespace: an index that was added stopped the publisher."""
    space = unique("space")
    mysql_box.source.execute(f"CREATE TABLESPACE {space} ADD DATAFILE '{space}.ibd'")
    followed = made(mysql_box, f"ALTER TABLE t TABLESPACE {space}", follow=False)
    try:
        start = followed.here
        followed.sql(
            "ALTER TABLE t ADD INDEX (s)",
            "ALTER TABLE t TABLESPACE innodb_file_per_table",
            f"ALTER TABLE t TABLESPACE = {space}, ENCRYPTION = 'N'",
            f"ALTER TABLE t TABLESPACE {space}, ADD INDEX (a, s), ENCRYPTION 'N' COMMENT 'where'",
            f"ALTER TABLE t ADD INDEX (s, a) COMMENT 'TABLESPACE x', TABLESPACE {space}",
            "ALTER TABLE t ADD INDEX (e)",
            "INSERT INTO t (id) VALUES (1)",
        )
        assert len(followed.read(start).rows_) == 1
    finally:
        followed.sql("DROP TABLE t")
        mysql_box.source.execute(f"DROP TABLESPACE {space}")
        followed.close()


def test_a_parent_in_another_database_needs_no_privilege_there(box: Sandbox) -> None:
    """Lost: servers ask for REFERENCES on a parent that the state server has not, and the publisher stopped."""
    followed, state = made(box, follow=False), box.targets[0]
    parents, account = f"{followed.database}_p", "'parentless'@'127.0.0.1'"
    followed.sql(f"CREATE DATABASE {parents}", f"CREATE TABLE {parents}.`p ``q` (id INT PRIMARY KEY)")
    followed.sql("CREATE TABLE q (id INT PRIMARY KEY)")
    of_shadow = f"GRANT {', '.join(SHADOW)} ON {followed.state.shadow}.* TO {account}"
    state.execute(f"DROP USER IF EXISTS {account}", f"CREATE USER {account} IDENTIFIED BY 'p'", of_shadow)
    followed.state = followed.state.model_copy(update={"user": "parentless", "password": SecretStr("p")})
    try:
        start = followed.here
        followed.sql(
            f"ALTER TABLE t ADD CONSTRAINT `f``k` FOREIGN KEY (a) REFERENCES {parents}.`p ``q` (id)",
            "ALTER TABLE t ADD INDEX (s)",
            f"ALTER TABLE t ADD CONSTRAINT own FOREIGN KEY (a) REFERENCES {followed.database}.q (id)",
            "INSERT INTO t (id) VALUES (1)",
        )
        assert len(followed.read(start).rows_) == 1
        kept = followed.in_force(followed.here)[(followed.database, "t")].create
        assert kept.splitlines()[1:] == followed.now("t").splitlines()[1:]
    finally:
        followed.sql("DROP TABLE t", f"DROP DATABASE {parents}")
        state.execute(f"DROP USER {account}")
        followed.close()


IN_ORACLE_MODE = (
    "SET SESSION sql_mode = 'ORACLE'",
    'ALTER TABLE "t" ADD COLUMN "n" VARCHAR2(9), ADD COLUMN m NUMBER(9), ADD COLUMN d DATE',
    "INSERT INTO t (id, d) VALUES (1, '2020-01-01 01:02:03')",
    "SET SESSION sql_mode = DEFAULT",
    "ALTER TABLE t ADD COLUMN d2 DATE",
    "INSERT INTO t (id, d2) VALUES (2, '2020-01-01')",
)


def test_a_statement_in_oracle_mode_is_followed(mariadb_box: Sandbox) -> None:
    with server_variables(mariadb_box.source, binlog_row_metadata="NO_LOG"):
        followed = made(mariadb_box)
        start = followed.here
        followed.sql(*IN_ORACLE_MODE)
        rows = [row for _, row in followed.read(start).rows_]
        assert [row["d"] for row in rows] == ["2020-01-01 01:02:03", None]
        assert followed.known("t") == followed.catalog("t")
        followed.close()


KEYS = (
    "ADD CONSTRAINT to_p FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE, ADD CONSTRAINT few CHECK (a < 9),"
    " ADD UNIQUE KEY one (a)"
)


def test_what_changes_nothing_stops_nothing(mariadb_box: Sandbox) -> None:
    followed = made(mariadb_box, "CREATE TABLE p (id INT PRIMARY KEY)", f"ALTER TABLE t {KEYS}", follow=False)
    start = followed.here
    followed.sql(
        "ALTER TABLE t DROP COLUMN IF EXISTS nothing",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
        "ALTER TABLE t MODIFY COLUMN IF EXISTS nothing INT, DROP INDEX IF EXISTS nothing",
        "ALTER TABLE t CHANGE COLUMN IF EXISTS nothing more INT",
        "ALTER TABLE t RENAME COLUMN IF EXISTS nothing TO more",
        "ALTER TABLE IF EXISTS nothing ADD COLUMN a INT",
        "ALTER TABLE t DROP CONSTRAINT IF EXISTS nothing, DROP FOREIGN KEY IF EXISTS nothing",
        "CREATE INDEX IF NOT EXISTS by_a ON t (a)",
        "DROP INDEX IF EXISTS nothing ON t",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "DROP TABLE IF EXISTS nothing",
        "RENAME TABLE IF EXISTS nothing TO t",
        "RENAME TABLE IF EXISTS nothing TO t, t TO t2, t2 TO t, nothing TO t",
        "ALTER TABLE IF EXISTS nothing RENAME TO t",
        "ALTER TABLE t ADD FOREIGN KEY IF NOT EXISTS to_p (a) REFERENCES p (id) ON DELETE CASCADE",
        "ALTER TABLE t ADD CONSTRAINT to_p FOREIGN KEY IF NOT EXISTS (a) REFERENCES p (id) ON UPDATE SET NULL",
        "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS few CHECK (a < 5), ADD UNIQUE KEY IF NOT EXISTS one (a)",
        "CREATE UNIQUE INDEX IF NOT EXISTS one ON t (s)",
        "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (a), DROP PERIOD IF EXISTS FOR nothing",
        "ALTER TABLE t DROP COLUMN IF EXISTS nothing CASCADE, DROP COLUMN IF EXISTS more, ALGORITHM=INPLACE",
        "ALTER TABLE t RENAME INDEX IF EXISTS nothing TO more, ALTER INDEX IF EXISTS nothing IGNORED",
        "ALTER TABLE t ALTER COLUMN IF EXISTS nothing DROP DEFAULT",
        "INSERT INTO t (id) VALUES (1)",
    )
    assert len(followed.read(start).rows_) == 1
    followed.close()


IN_BRACKETS = (
    "SET SESSION sql_mode = 'MSSQL'",
    "ALTER TABLE [t] ADD[it's]INT, ADD [-- no] INT, ADD [, RENAME TO u] INT, ADD [a]]b`c] INT COMMENT ']['",
    "ALTER TABLE [{db}].[t]ALTER [a]]b`c] SET DEFAULT 3",
    "CREATE INDEX [i -- x] ON [{db}] . [t]([a]]b`c])",
    "RENAME TABLE [t] TO [t ]]'], [t ]]'] TO t",
    "INSERT INTO t (id) VALUES (1)",
    "CREATE TABLE [u -- '] (id INT)",
    "DROP TABLE [u -- ']",
    "SET SESSION sql_mode = DEFAULT",
    "ALTER TABLE t DROP COLUMN `it's`, ADD d DATE",
    "INSERT INTO t (id, d) VALUES (2, '2020-01-01')",
)


def test_a_statement_with_names_in_brackets_is_followed(mariadb_box: Sandbox) -> None:
    """In mode MSSQL a name stands in brackets, and what is in it is no quote, comment or comma: the publisher stopped
    for good at what it could not read."""
    with server_variables(mariadb_box.source, binlog_row_metadata="NO_LOG"):
        followed = made(mariadb_box)
        start = followed.here
        followed.sql(*(one.format(db=followed.database) for one in IN_BRACKETS))
        (_, first), (_, second) = followed.read(start).rows_
        assert list(first)[4:] == ["it's", "-- no", ", RENAME TO u", "a]b`c"]
        assert (first["a]b`c"], second["a]b`c"], second["d"]) == ("3", "3", "2020-01-01")
        assert _made(followed) == followed.now("t")
        followed.close()


def test_a_letter_that_mysql_has_no_place_for_is_a_question_mark_of_the_name(mysql_box: Sandbox) -> None:
    """Lost: nothing, but the statement passed as that of another table, and the rows behind it had columns that nobody
    knew. MariaDB refuses such a name."""
    followed = made(mysql_box, "RENAME TABLE t TO `t?`", "CREATE TABLE t LIKE `t?`")
    name = (followed.database, "t?")
    followed.selected[name] = Selected(True, ("id",))
    followed.first[name] = followed._version(name)
    start = followed.here
    followed.sql("ALTER TABLE `t😀` ADD `n😀` INT", "INSERT INTO `t?` (id, `n?`) VALUES (1, 2)")
    assert [(table, row["n?"]) for table, row in followed.read(start).rows_] == [("t?", "2")]
    followed.close()


def test_what_a_session_says_of_tables_that_are_not_there_is_read_with_its_statements(mariadb_box: Sandbox) -> None:
    """The log has the session's sql_if_exists beside the statement, whose text says nothing of it: the publisher
    stopped, as if one that is not there had taken a table's place."""
    followed = made(mariadb_box, follow=False)
    start = followed.here
    followed.sql(
        "SET SESSION sql_if_exists = ON",
        "RENAME TABLE nothing TO t",
        "RENAME TABLE nothing TO t, t TO t2, t2 TO t, nothing TO t",
        "ALTER TABLE nothing RENAME TO t",
        "DROP TABLE nothing",
        "INSERT INTO t (id) VALUES (1)",
    )
    assert len(followed.read(start).rows_) == 1
    for statement, why in (("RENAME TABLE t TO old, other TO t", "takes its place"), ("DROP TABLE t", "come or go")):
        start = followed.here
        followed.sql("CREATE TABLE other (id INT PRIMARY KEY)", "SET SESSION sql_if_exists = ON", statement)
        assert why in followed.stopped(start).message
    followed.close()


def test_a_partition_that_is_not_there_is_dropped_and_one_that_is_stops(mariadb_box: Sandbox) -> None:
    parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    followed = made(mariadb_box, f"ALTER TABLE t {parts}", follow=False)
    start = followed.here
    followed.sql("ALTER TABLE t DROP PARTITION IF EXISTS nothing, `more`", "INSERT INTO t (id) VALUES (1)")
    assert len(followed.read(start).rows_) == 1
    followed.sql("ALTER TABLE t DROP PARTITION IF EXISTS nothing, `P1`")
    assert "its rows come or go" in followed.stopped(start).message
    followed.close()


def test_a_table_that_takes_the_place_if_it_is_there_stops(mariadb_box: Sandbox) -> None:
    """It has the name only where the selected one has left it; and a partition takes the rows in any case."""
    parts = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    followed = made(mariadb_box, "CREATE TABLE other LIKE t", f"ALTER TABLE other {parts}", follow=False)
    start = followed.here
    followed.sql("ALTER TABLE IF EXISTS other EXCHANGE PARTITION p WITH TABLE t")
    assert "its rows come or go" in followed.stopped(start).message
    start = followed.here
    followed.sql("RENAME TABLE IF EXISTS t TO old, other TO t")
    assert "other takes its place" in followed.stopped(start).message
    followed.close()


def test_a_backslash_in_a_quoted_name_is_a_letter_of_it(stopping: Followed) -> None:
    start = stopping.here
    stopping.sql(
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        'ALTER TABLE "t" ADD INDEX "i\\" ("a")',
        'ALTER TABLE "t" ADD INDEX "i\\\\" ("a"), COMMENT \'x\\\'"\'',
        "INSERT INTO t (id) VALUES (1)",
    )
    assert len(stopping.read(start).rows_) == 1
