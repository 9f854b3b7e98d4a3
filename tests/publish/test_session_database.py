"""Statements on selected tables from sessions in another database: which tables their names without one mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from schema_support import Followed

from sandbox.stack import Sandbox
from tests.helpers import unique

TABLE = "(id INT PRIMARY KEY, a INT) CHARACTER SET utf8mb4"
PARTS = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN (20))"


@dataclass
class Beside:
    """A selected table `t`, and a database that has none."""

    followed: Followed
    other: str

    @property
    def own(self) -> str:
        return self.followed.database

    def from_other(self, *statements: str) -> None:
        self.followed.server.execute(*statements, database=self.other)


@pytest.fixture
def beside(box: Sandbox) -> Iterator[Beside]:
    own, other = unique("own"), unique("other")
    box.source.execute(
        f"CREATE DATABASE {own} COLLATE utf8mb4_unicode_ci",
        f"CREATE DATABASE {other} COLLATE latin1_german1_ci",
        f"CREATE TABLE {own}.t {TABLE}",
        f"INSERT INTO {own}.t VALUES (1, 11)",
        f"CREATE TABLE {other}.hist {TABLE} {PARTS}",
    )
    followed = Followed(box.source, box.targets[0], own, "t")
    yield Beside(followed, other)
    followed.close()


def test_a_selected_table_exchanged_with_a_partition_of_another_database_stops(beside: Beside) -> None:
    """All rows of the table were swapped without a row event, and nothing stopped."""
    start = beside.followed.here
    beside.followed.sql(f"ALTER TABLE {beside.other}.hist EXCHANGE PARTITION p WITH TABLE t")
    assert beside.followed.server.query(f"SELECT * FROM {beside.other}.hist") == ((1, 11),)
    error = beside.followed.stopped(start)
    assert f"a statement may change {beside.own}.t: ALTER TABLE {beside.other}.hist EXCHANGE" in error.message
    assert "its rows come or go without events" in error.message


def test_a_selected_table_made_a_partition_of_another_database_stops(mariadb_box: Sandbox) -> None:
    """The table went with all rows, and nothing stopped."""
    own, other = unique("own"), unique("other")
    mariadb_box.source.execute(
        f"CREATE DATABASE {own}",
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {own}.t {TABLE}",
        f"CREATE TABLE {other}.hist {TABLE} {PARTS}",
    )
    followed = Followed(mariadb_box.source, mariadb_box.targets[0], own, "t")
    start = followed.here
    followed.sql(f"ALTER TABLE {other}.hist CONVERT TABLE t TO PARTITION r VALUES LESS THAN (30)")
    assert followed.columns("t") == []
    assert "its rows come or go without events" in followed.stopped(start).message
    followed.close()


def test_an_exchange_with_a_table_of_the_same_name_elsewhere_passes(beside: Beside) -> None:
    """The publisher stopped for good, for a table that nothing had happened to."""
    beside.from_other(f"CREATE TABLE t {TABLE}", f"CREATE TABLE {beside.own}.parts {TABLE} {PARTS}")
    start = beside.followed.here
    beside.from_other(
        f"ALTER TABLE {beside.own}.parts EXCHANGE PARTITION p WITH TABLE t", f"INSERT INTO {beside.own}.t VALUES (2, 3)"
    )
    assert [row["id"] for _, row in beside.followed.read(start).rows_] == ["2"]


@pytest.mark.parametrize(
    "rename",
    ["ALTER TABLE {own}.t RENAME TO t", "ALTER TABLE {own}.t ADD n INT, RENAME kept", "RENAME TABLE {own}.t TO t"],
)
def test_rows_of_a_table_renamed_into_the_sessions_database_stop_and_it_may_come_back(
    beside: Beside, rename: str
) -> None:
    """Such rows were taken for another table's and left out: the table was looked for beside its old name."""
    start = beside.followed.here
    beside.from_other(rename.format(own=beside.own))
    ((name,),) = beside.followed.server.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME <> 'hist'",
        (beside.other,),
    )
    beside.from_other(f"INSERT INTO {name} (id) VALUES (2)")
    message = beside.followed.stopped(start).message
    assert f"rows of {beside.own}.t change while it is named {beside.other}.{name}" in message

    start = beside.followed.here
    beside.followed.sql(f"ALTER TABLE {beside.other}.{name} RENAME TO t", "INSERT INTO t (id) VALUES (3)")
    assert [row["id"] for _, row in beside.followed.read(start).rows_] == ["3"]


def test_a_table_of_another_database_renamed_into_the_selected_ones_place_stops(beside: Beside) -> None:
    """Its rows were never copied, and its changes were published as the selected table's."""
    beside.from_other(f"CREATE TABLE fresh {TABLE}")
    start = beside.followed.here
    beside.followed.sql("RENAME TABLE t TO away", f"ALTER TABLE {beside.other}.fresh RENAME TO t")
    assert f"{beside.other}.fresh takes its place, with other rows" in beside.followed.stopped(start).message


def test_a_new_table_has_the_collation_of_its_own_database_not_of_the_sessions(beside: Beside) -> None:
    """A working table of a schema change got the session's character set, and its rows stopped the publisher."""
    start = beside.followed.here
    beside.from_other(
        "SET collation_database = cp1250_bin",
        f"CREATE TABLE {beside.own}._t_gho (id INT PRIMARY KEY, a VARCHAR(9))",
        f"INSERT INTO {beside.own}._t_gho VALUES (1, '11')",
        f"RENAME TABLE {beside.own}.t TO {beside.own}._t_del, {beside.own}._t_gho TO {beside.own}.t",
        f"UPDATE {beside.own}.t SET a = 'ł'",
    )
    ((_, row),) = beside.followed.read(start).rows_
    assert row == {"id": "1", "a": "ł"}
    assert beside.followed.known("t") == beside.followed.catalog("t")


def test_a_table_converted_to_the_default_character_set_has_that_of_the_database_that_is_meant(beside: Beside) -> None:
    """MySQL's CONVERT TO CHARACTER SET DEFAULT means the session's database, MariaDB's the altered table's; the history
    had the latter for both."""
    start = beside.followed.here
    beside.followed.sql("ALTER TABLE t ADD s VARCHAR(9) CHARACTER SET utf8mb4")
    beside.followed.read(start)
    for session in (beside.other, beside.own, None):
        start = beside.followed.here
        beside.followed.server.execute(
            f"ALTER TABLE {beside.own}.t CONVERT TO CHARACTER SET DEFAULT",
            f"INSERT INTO {beside.own}.t (id, s) VALUES ({beside.followed.here[1]}, 'é')",
            database=session,
        )
        assert [row["s"] for _, row in beside.followed.read(start).rows_] == ["é"]
        assert beside.followed.known("t") == beside.followed.catalog("t")
