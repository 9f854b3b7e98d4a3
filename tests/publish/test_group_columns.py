"""What statements on tables of a group bring to target tables that other tables fill too, and which are stopped at."""

from __future__ import annotations

import json

import pytest
from schema_support import Followed

from migrate.model.coordinate import Coordinate
from migrate.publish.schema.definitions import Selected
from migrate.publish.schema.policy import ToBeApplied
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.token_cursor import Name
from sandbox.stack import Sandbox
from tests.helpers import unique

COLUMNS = (
    "id INT PRIMARY KEY, v VARCHAR(20) NOT NULL DEFAULT 'a) COMMENT', n INT NOT NULL, f FLOAT,"
    " d DECIMAL(5,2) DEFAULT 1, at DATETIME NULL COMMENT 'when', e ENUM('a','b)'), CONSTRAINT small CHECK (n < 100)"
)


def made(box: Sandbox, columns: str = COLUMNS) -> Followed:
    """Two tables of one source, of one group."""
    database = unique("grouped")
    tables = [f"CREATE TABLE {name} ({columns.replace('small', f'small_{name}')}) CHARSET utf8mb4" for name in "ab"]
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(*tables, database=database)
    followed = Followed(box.source, box.targets[0], database, "a", "b", follow=False)
    policy = Selected(False, ("id",), applies=True, follows_standby=True, grouped=True)
    followed.selected = dict.fromkeys(followed.selected, policy)
    return followed


def brought(followed: Followed, statement: str) -> dict[str, str]:
    start = followed.here
    followed.sql(statement)
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied), error
    found: dict[str, str] = json.loads(error.brings)
    followed.applied |= {error.since}
    followed.read(start)
    return found


SAME = (
    ("ADD x INT, ADD COLUMN y VARCHAR(9) NOT NULL DEFAULT ''", "ADD (y VARCHAR(9) DEFAULT '' NOT NULL, x INT)", "x y"),
    ("ADD COLUMN z CHAR(3)", "ADD z CHAR(3) CHARACTER SET utf8mb4 COMMENT 'new', ADD KEY (n), COMMENT 't'", "z"),
    ("MODIFY v VARCHAR(40) NOT NULL DEFAULT 'a) COMMENT'", "CHANGE v v VARCHAR(40) DEFAULT 'a) COMMENT' NOT NULL", "v"),
    ("MODIFY n BIGINT NOT NULL, MODIFY at DATETIME(6)", "MODIFY at DATETIME(6) NULL, MODIFY n BIGINT NOT NULL", "at n"),
    (
        "MODIFY e ENUM('a','b)','c'), MODIFY d DECIMAL(7,2) DEFAULT 1",
        "MODIFY d DECIMAL(7,2) DEFAULT 1.0, MODIFY e ENUM('a','b)','c')",
        "d e",
    ),
    ("ADD g INT AS (n + 1) VIRTUAL", "ADD g INT GENERATED ALWAYS AS (n + 1) VIRTUAL", "g"),
    ("ADD h JSON, ADD i INT, ADD CHECK (i <> 4)", "ADD i INT, ADD h JSON, ADD CHECK (i <> 4)", "h i"),
)


def test_two_statements_that_make_the_same_columns_bring_the_same(box: Sandbox) -> None:
    """However they are written, also where the table has another comment, or another key by it."""
    followed = made(box)
    for statement, other, names in SAME:
        first, second = brought(followed, f"ALTER TABLE a {statement}"), brought(followed, f"ALTER TABLE b {other}")
        assert sorted(first) == [f"`{name}`" for name in names.split()]
        assert first == second
    one, two = (brought(followed, f"ALTER TABLE {name} ADD w INT DEFAULT {name == 'a'}") for name in "ab")
    assert one != two
    followed.close()


STOPPED = (
    ("DROP COLUMN f", "column `f` is there no more"),
    ("RENAME COLUMN f TO g", "column `f` is there no more"),
    ("ADD x INT NOT NULL", "column `x` has no default, and rows of the group's other tables come without it"),
    ("MODIFY v VARCHAR(40) NOT NULL DEFAULT 'b'", "column `v` gets more than a wider type"),
    ("MODIFY v VARCHAR(40) DEFAULT 'a) COMMENT'", "column `v` gets more than a wider type"),
    ("MODIFY at DATETIME NOT NULL", "column `at` gets more than a wider type"),
    ("MODIFY v VARCHAR(40) CHARSET latin1 NOT NULL DEFAULT 'a) COMMENT'", "column `v` gets more than a wider type"),
    ("CONVERT TO CHARACTER SET latin1, ADD x INT", "gets more than a wider type"),
    ("MODIFY f DOUBLE", "column `f` is a FLOAT, whose values another type holds otherwise"),
    ("MODIFY n INT NOT NULL FIRST", "no column is new or wider by it"),
    ("DROP CONSTRAINT small_a, ADD x INT", "a CHECK that the target tables have is lifted"),
    ("ADD x INT, ADD CHECK (n < 50)", "it adds a CHECK over columns that are there"),
    ("ADD x INT, ADD CHECK (x > 0 OR `F` < 1)", "it adds a CHECK over columns that are there"),
)


def test_what_rows_of_the_other_tables_could_not_be_written_beside_is_stopped_at(box: Sandbox) -> None:
    followed = made(box)
    for statement, why in STOPPED:
        start = followed.here
        followed.sql(f"ALTER TABLE a {statement}")
        error = followed.stopped(start)
        assert not isinstance(error, ToBeApplied), statement
        assert why in error.message, statement
        assert "it is not brought to the target tables of a group (ddl: apply)" in error.message
        assert "let the target tables take rows of both definitions" in error.hint
        followed.sql("DROP TABLE a", f"CREATE TABLE a ({COLUMNS.replace('small', 'small_a')}) CHARSET utf8mb4")
    followed.close()


def test_what_another_table_of_the_group_brought_is_followed_without_a_stop(box: Sandbox) -> None:
    followed = made(box)
    asked: list[str] = []
    schema = followed.schema

    def joins(name: Name, _since: Coordinate, brings: str) -> int:
        asked.append(brings)
        return 7 if name[1] == "b" else 0

    def knowing(place: tuple[str, int]) -> Schema:
        found = schema(place)
        found.known.joins = joins
        return found

    followed.schema = knowing  # type: ignore[method-assign]
    start = followed.here
    followed.sql("ALTER TABLE b ADD x INT", "INSERT INTO b (id, n, x) VALUES (1, 1, 5)", "ALTER TABLE a ADD x INT")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied)
    assert error.name == (followed.database, "a")
    assert len(asked) == 2
    assert asked[0] == asked[1] == error.brings
    assert followed.known("b") == followed.catalog("b")
    followed.close()


@pytest.mark.parametrize("applies", [False, True])
def test_a_statement_of_a_table_without_a_group_brings_as_before(box: Sandbox, applies: bool) -> None:
    followed = made(box)
    followed.selected[(followed.database, "a")] = Selected(False, ("id",), applies=applies)
    start = followed.here
    followed.sql("ALTER TABLE a DROP COLUMN f")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied) is applies
    assert getattr(error, "brings", "") == ""
    followed.close()


TAKES_MORE = (
    ("ADD x INT, ADD y JSON, MODIFY v VARCHAR(60) NOT NULL DEFAULT 'a) COMMENT'", True),
    ("MODIFY v VARCHAR(20) DEFAULT 'b'", True),
    ("MODIFY n BIGINT", True),
    ("DROP CONSTRAINT small_a", True),
    ("MODIFY at DATETIME NOT NULL", False),
    ("ADD x INT, ADD CHECK (n < 50)", False),
    ("ADD x INT NOT NULL", False),
    ("MODIFY f DOUBLE", False),
    ("MODIFY n INT DEFAULT 5", True),
    ("RENAME COLUMN f TO g", False),
)


def test_which_statements_of_a_table_without_a_group_rows_from_before_can_come_behind(box: Sandbox) -> None:
    followed = made(box)
    followed.selected[(followed.database, "a")] = Selected(False, ("id",), applies=True)
    for statement, more in TAKES_MORE:
        start = followed.here
        followed.sql(f"ALTER TABLE a {statement}")
        error = followed.stopped(start)
        assert isinstance(error, ToBeApplied), statement
        assert error.takes_more is more, statement
        followed.sql("DROP TABLE a", f"CREATE TABLE a ({COLUMNS.replace('small', 'small_a')}) CHARSET utf8mb4")
    followed.close()
