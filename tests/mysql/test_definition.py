"""A source's own definition as the target's: no foreign keys, no counters, nothing else changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from migrate.ddl.definition import normal
from migrate.ddl.inverse import inverse
from migrate.model.errors import PreflightError, StopError
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.definition import anywhere, create_as, readable, show_create, strip
from migrate.mysql.quoting import quote
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import globally, scratch, server_of, session, unique

_ROW_ID = "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE"


@pytest.fixture(scope="module")
def source(box: Sandbox) -> Iterator[tuple[Connection, str]]:
    with scratch(box.source, "definition") as database, session(box.source, database) as connection:
        connection.execute("CREATE TABLE parent (id INT PRIMARY KEY)")
        yield connection, database


def copied(source: tuple[Connection, str], body: str, *, rows: int = 0) -> tuple[str, str]:
    """Definitions of a table and of its copy, both as SHOW CREATE TABLE prints them after the name."""
    connection, database = source
    name, copy = unique("t"), unique("copy")
    connection.execute(f"CREATE TABLE {name} {body}".replace("%", "%%"))
    for _ in range(rows):
        connection.execute(f"INSERT INTO {name} () VALUES ()")
    connection.execute(create_as(show_create(connection, database, name), copy))
    printed = [connection.one(f"SHOW CREATE TABLE {each}") for each in (name, copy)]
    assert printed[0] is not None
    assert printed[1] is not None
    return str(printed[0][1]).split("(", 1)[1], str(printed[1][1]).split("(", 1)[1]


@pytest.mark.parametrize(
    "body",
    [
        "(id INT PRIMARY KEY, v VARCHAR(20) NOT NULL DEFAULT 'it''s 100%, (ok)' COMMENT 'a, b)\n) ENGINE=x')",
        "(id INT, b INT, c TEXT, PRIMARY KEY (id, b), UNIQUE KEY `u, k` (b), KEY k (c(10)), FULLTEXT KEY f (c))",
        "(id INT PRIMARY KEY) COMMENT='AUTO_INCREMENT=7 ''quoted'' \\\\ %s\n) x'",
        "(id INT PRIMARY KEY) COMMENT=' AUTO_INCREMENT=7 COMMENT=''x'' AUTO_INCREMENT=8'",
        "(id INT PRIMARY KEY, a INT, g INT GENERATED ALWAYS AS (a * 2) STORED, h INT AS (a % 7) VIRTUAL)",
        "(id INT PRIMARY KEY, at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3))",
        "(id INT PRIMARY KEY, e ENUM('a,b','c)','') DEFAULT 'c)', s SET('x','y')) CHARACTER SET latin1",
        "(`a``b` INT PRIMARY KEY, `50%` INT, `KEY (x)` INT, UNIQUE KEY `CONSTRAINT ``c`` FOREIGN KEY x` (`50%`))",
        "(id INT PRIMARY KEY, p POINT NOT NULL, SPATIAL KEY (p)) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
        "(id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS"
        " THAN MAXVALUE)",
        "(id INT PRIMARY KEY) COMMENT='x' PARTITION BY HASH (id) PARTITIONS 3",
    ],
)
def test_the_copy_is_defined_as_the_original(source: tuple[Connection, str], body: str) -> None:
    original, copy = copied(source, body)
    assert copy == original


@pytest.mark.parametrize(
    "tail",
    [
        "",
        " COMMENT='AUTO_INCREMENT=9'",
        " PARTITION BY HASH (id) PARTITIONS 2",
        " COMMENT='x' PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE COMMENT = 'AUTO_INCREMENT=5')",
    ],
)
def test_the_counter_stays_behind(source: tuple[Connection, str], tail: str) -> None:
    original, copy = copied(source, f"(id INT PRIMARY KEY AUTO_INCREMENT, v INT) AUTO_INCREMENT=500{tail}", rows=1)
    assert " AUTO_INCREMENT=501 " in original
    assert copy == original.replace(" AUTO_INCREMENT=501 ", " ")


def test_foreign_keys_stay_behind_and_their_indexes_come_along(source: tuple[Connection, str]) -> None:
    original, copy = copied(
        source,
        "(id INT PRIMARY KEY, a INT, b INT, CONSTRAINT `f, ``1``` FOREIGN KEY (a) REFERENCES parent (id) ON DELETE"
        " CASCADE, KEY b (b), CONSTRAINT f2 FOREIGN KEY (b) REFERENCES parent (id) ON UPDATE CASCADE)",
    )
    assert original.count("FOREIGN KEY") == 2
    assert "FOREIGN KEY" not in copy
    assert "KEY `b` (`b`)" in copy
    assert "(`a`)" in copy


def test_checks_come_along_without_their_names(box: Sandbox, source: tuple[Connection, str]) -> None:
    body = "(id INT PRIMARY KEY, a INT, CONSTRAINT {} CHECK (a > 0), CHECK (a < 10 AND 'FOREIGN KEY ' <> ''))"
    _, copy = copied(source, body.format(unique("named")))
    assert copy.count("CHECK (") == 2
    assert "named" not in copy
    connection, database = source
    name = unique("checked")
    connection.execute(create_as(show_create(connection, database, last_table(source)), name))
    with pytest.raises(pymysql.MySQLError):
        connection.execute(f"INSERT INTO {name} VALUES (1, 11)")


@pytest.mark.parametrize("length", [55, 58, 59, 64])
def test_checks_of_a_table_with_a_long_name_come_along(source: tuple[Connection, str], length: int) -> None:
    """The name that MySQL gives a CHECK is its table's and more, and above 64 letters it takes no definition."""
    connection, database = source
    checks = ", ".join(f"CONSTRAINT {unique('long')} CHECK (a <> {number})" for number in range(10))
    name = unique("checked")
    connection.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT COMMENT '\n  CHECK ', {checks})")
    statement = show_create(connection, database, name)
    for first in "ab":  # constraints have names of their schema
        copy = f"{first}{unique('é')}".ljust(length, "x")
        connection.execute(create_as(statement, copy))
        made = show_create(connection, database, copy).replace(f"`{copy}`", f"`{name}`")
        assert sorted(made.replace(",", "").split("\n")) == sorted(statement.replace(",", "").split("\n"))
        with pytest.raises(pymysql.MySQLError):
            connection.execute(f"INSERT INTO {quote(copy)} VALUES (1, 9)")


def last_table(source: tuple[Connection, str]) -> str:
    row = source[0].one(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME LIKE 'copy%%'"
        " ORDER BY LENGTH(TABLE_NAME) DESC, TABLE_NAME DESC LIMIT 1",
        (source[1],),
    )
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("name", ["a`b", "50%", "%s", "x (", "CREATE TABLE `y`", "заказы€"])
def test_odd_names_of_the_table_and_its_copy(source: tuple[Connection, str], name: str) -> None:
    connection, database = source
    connection.execute(f"CREATE TABLE {quote(name)} (id INT PRIMARY KEY, v VARCHAR(5) DEFAULT '%%s')")
    connection.execute(create_as(show_create(connection, database, name), f"{name}2"))
    table = load_table(connection, "s", database, f"{name}2")
    assert [column.name for column in table.columns] == ["id", "v"]


def test_a_vector_index_of_mariadb_comes_along() -> None:
    """As 11.8 prints it; the servers of these tests are older."""
    keys = "  PRIMARY KEY (`id`),\n  VECTOR KEY `v` (`v`) `M`=8 `DISTANCE`=cosine\n"
    body = f"(\n  `id` int(11) NOT NULL,\n  `v` vector(3) NOT NULL,\n{keys}) ENGINE=InnoDB"
    assert create_as(strip(f"CREATE TABLE `t` {body}"), "t_0") == f"CREATE TABLE `t_0` {body}"
    before = normal(f"CREATE TABLE `t` {body}", "t", {})
    after = normal(f"CREATE TABLE `t` {body.replace(keys, '  PRIMARY KEY (`id`)' + chr(10))}", "t", {})
    assert list(before.keys) == ["", "`v`"]
    assert before.key_leading(["`v`"]) is None, "it serves no foreign key"
    assert inverse(before, after, {name: name for name in before.columns}) == (
        "ADD VECTOR KEY `v` (`v`) `M`=8 `DISTANCE`=cosine",
    )


def test_a_statement_of_another_form_stops() -> None:
    with pytest.raises(StopError, match="did not start with CREATE TABLE"):
        create_as("CREATE ALGORITHM=MERGE VIEW `v` AS SELECT 1", "x")
    with pytest.raises(StopError, match="SHOW CREATE TABLE ended without"):
        strip("CREATE TABLE `t` (\n  `id` int")


# -- the catalog


def made(source: tuple[Connection, str], body: str) -> str:
    name = unique("c")
    source[0].execute(f"CREATE TABLE {name} {body}")
    return name


@pytest.mark.parametrize(
    ("body", "wanted", "key", "others"),
    [
        ("(a INT PRIMARY KEY, b INT)", None, ("a",), ()),
        ("(a INT, b INT, PRIMARY KEY (b, a))", None, ("b", "a"), ()),
        ("(a INT PRIMARY KEY, b INT UNIQUE, c INT, UNIQUE (c, b))", None, ("a",), (("b",), ("c", "b"))),
        ("(a INT NOT NULL UNIQUE, b INT UNIQUE)", None, ("a",), (("b",),)),
        ("(a INT PRIMARY KEY, b INT NOT NULL UNIQUE)", ("b",), ("b",), (("a",),)),
        ("(a INT, b INT, PRIMARY KEY (a, b))", ("b", "a"), ("a", "b"), ()),
        ("(a INT NOT NULL, b VARCHAR(20) NOT NULL, UNIQUE (b(3)), UNIQUE (a))", None, ("a",), (("",),)),
    ],
)
def test_the_key_and_the_other_unique_keys(
    source: tuple[Connection, str],
    body: str,
    wanted: tuple[str, ...] | None,
    key: tuple[str, ...],
    others: tuple[tuple[str, ...], ...],
) -> None:
    table = load_table(source[0], "s", source[1], made(source, body), wanted)
    assert (table.key, table.unique_keys) == (key, others)


@pytest.mark.parametrize(
    ("body", "wanted", "message", "hint"),
    [
        (
            "(a INT)",
            None,
            "has no primary key and no NOT NULL unique key",
            f"ADD COLUMN `row_id` {_ROW_ID} PRIMARY KEY;",
        ),
        ("(a INT, row_id INT)", None, "has no primary key", f"ADD COLUMN `row_id1` {_ROW_ID} PRIMARY KEY;"),
        ("(a INT AUTO_INCREMENT, KEY (a))", None, "has no primary key", "ADD PRIMARY KEY (`a`); it rebuilds"),
        ("(a INT UNIQUE)", None, "tells rows apart: unique key a takes NULL, in a", f"{_ROW_ID} PRIMARY KEY;"),
        ("(a VARCHAR(9) NOT NULL, UNIQUE p (a(3)))", None, "unique key p is on a prefix, a(3)", _ROW_ID),
        (
            "(a TEXT NOT NULL, PRIMARY KEY (a(3)))",
            None,
            "the primary key is on a prefix, a(3)",
            f"{_ROW_ID} UNIQUE KEY;",
        ),
        (
            "(a TEXT NOT NULL, PRIMARY KEY (a(3)))",
            ("a",),
            "the primary key is on a prefix, a(3)",
            "tables[].key, or ALTER",
        ),
        (
            "(a INT NOT NULL, g INT AS (a) STORED, UNIQUE k (a, g))",
            None,
            "k has generated columns, g",
            "ALTER",
        ),
        ("(a INT NOT NULL UNIQUE, b INT NOT NULL UNIQUE)", None, "several unique keys", "choose one in tables[].key"),
        ("(a INT PRIMARY KEY, b INT UNIQUE)", ("b",), "unique key b takes NULL, in b", "tables[].key"),
        ("(a INT PRIMARY KEY)", ("a", "x"), "(a, x) is not a NOT NULL unique key", "tables[].key"),
        ("(a INT PRIMARY KEY) ENGINE=MyISAM", None, "uses engine MyISAM", "ENGINE=InnoDB"),
    ],
)
def test_a_table_without_a_usable_key_is_refused(
    source: tuple[Connection, str], body: str, wanted: tuple[str, ...] | None, message: str, hint: str
) -> None:
    name = made(source, body)
    with pytest.raises(PreflightError) as caught:
        load_table(source[0], "s", source[1], name, wanted)
    assert f"table {source[1]}.{name}" in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_statement_of_the_refusal_gives_the_table_a_key(source: tuple[Connection, str]) -> None:
    connection, database = source
    for body in ("(a INT)", "(a TEXT NOT NULL, PRIMARY KEY (a(3)))", "(a INT, b INT AUTO_INCREMENT, KEY (b))"):
        name = made(source, body)
        with pytest.raises(PreflightError) as caught:
            load_table(connection, "s", database, name)
        connection.query(caught.value.hint.split(";")[0])
        assert load_table(connection, "s", database, name).key in {("row_id",), ("b",)}


def test_a_generated_invisible_key_counts_where_the_server_hides_it(mysql_box: Sandbox) -> None:
    with scratch(mysql_box.source, "gipk") as database:
        mysql_box.source.execute(
            "SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a INT)", database=database
        )
        with (
            globally(mysql_box.source, "show_gipk_in_create_table_and_information_schema", 0),
            session(mysql_box.source) as connection,
        ):
            table = load_table(connection, "s", database, "t")
            assert table.key == ("my_row_id",)
            assert [column.name for column in table.columns] == ["my_row_id", "a"]
            assert "`my_row_id`" in show_create(connection, database, "t")


def test_a_grant_is_advised_only_where_the_account_may_not_see_the_table(box: Sandbox) -> None:
    user = unique("blind")[:30]
    with scratch(box.source, "hidden") as database:
        box.source.execute(
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"CREATE USER {user} IDENTIFIED BY 'pw-1'"
        )
        try:
            with (
                closing(connect(server_of(box.source, user=user, password="pw-1"), "source")) as poor,
                pytest.raises(PreflightError) as caught,
            ):
                load_table(poor, "s", database, "t")
            assert caught.value.message.endswith(".t is missing (or not visible to this user)")
            assert caught.value.hint.startswith(f"GRANT SELECT ON `{database}`.`t` TO '{user}'@'%'")
        finally:
            box.source.execute(f"DROP USER {user}")
        with session(box.source) as rich, pytest.raises(PreflightError) as caught:
            load_table(rich, "s", database, "gone")
        assert caught.value.message.endswith(".gone is missing")
        assert "GRANT" not in caught.value.hint


def test_columns_that_only_the_log_has_are_refused_by_name(mariadb_box: Sandbox) -> None:
    with scratch(mariadb_box.source, "hashed") as database, session(mariadb_box.source, database) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b INT, UNIQUE x (a), UNIQUE y (b) USING HASH)")
        with pytest.raises(PreflightError, match=r"\.t has unique keys by hash \(x, y\)") as caught:
            load_table(connection, "s", database, "t")
        assert f"ALTER TABLE `{database}`.`t` DROP INDEX `x`, DROP INDEX `y`" in caught.value.hint
        connection.execute("ALTER TABLE t DROP INDEX x, DROP INDEX y")
        assert load_table(connection, "s", database, "t").key == ("id",)


def test_literals_that_are_no_text_are_read_as_the_bytes_they_stand_for() -> None:
    printed = (
        b"CREATE TABLE `a'b` (\n  `x` varbinary(9) DEFAULT '\\0\xff''\\n\\\\',\n  `c` char(1) DEFAULT '\xc3\xa4'\n)"
    )
    assert (
        readable(printed)
        == "CREATE TABLE `a'b` (\n  `x` varbinary(9) DEFAULT X'00ff270a5c',\n  `c` char(1) DEFAULT 'ä'\n)"
    )
    with pytest.raises(UnicodeDecodeError):
        readable(b"CREATE TABLE `\xff` (\n  `x` int\n)")


def test_views_and_missing_tables_are_refused(source: tuple[Connection, str]) -> None:
    source[0].execute("CREATE VIEW v AS SELECT * FROM parent")
    with pytest.raises(PreflightError, match=r"\.v is a view, not a table"):
        load_table(source[0], "s", source[1], "v")
    with pytest.raises(PreflightError, match=r"\.nowhere is missing"):
        load_table(source[0], "s", source[1], "nowhere")
    with pytest.raises(PreflightError) as caught:
        load_table(source[0], "s", source[1], "b.t")
    assert "it is read as table `b.t` of database" in caught.value.hint


def test_a_system_versioned_table_is_refused_by_name(box: Sandbox, source: tuple[Connection, str]) -> None:
    if box.flavour is not Flavour.MARIADB:
        pytest.skip("MariaDB only")
    source[0].execute("CREATE TABLE versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    with pytest.raises(PreflightError, match=r"\.versioned is system-versioned") as caught:
        load_table(source[0], "s", source[1], "versioned")
    assert "DROP SYSTEM VERSIONING" in caught.value.hint


def test_generated_columns_are_told_from_columns_with_an_expression_as_default(
    box: Sandbox, source: tuple[Connection, str]
) -> None:
    default = "b VARCHAR(36) DEFAULT (UUID())" if box.flavour is Flavour.MYSQL else "b VARCHAR(36) DEFAULT UUID()"
    name = made(source, f"(a INT PRIMARY KEY, {default}, g INT AS (a + 1) STORED, h INT AS (a + 2) VIRTUAL)")
    table = load_table(source[0], "s", source[1], name)
    assert {column.name: column.generated for column in table.columns} == {"a": False, "b": False, "g": True, "h": True}


def test_characters_that_are_printed_as_question_marks_are_made_as_they_are(source: tuple[Connection, str]) -> None:
    """Lost: a label, a default, or a literal of an expression became '?' at the targets, and rows were equal by
    number."""
    connection, database = source
    name, copy = unique("t"), unique("copy")
    connection.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, e ENUM('?','😀','it''s 😀?','订') CHARACTER SET utf8mb4,"
        " s SET('x','\U0001f600 y') CHARACTER SET utf8mb4, d VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT 'a😀?',"
        " l VARCHAR(9) CHARACTER SET latin1, g INT AS (IF(l = 'é', 1, 2)) STORED, m VARCHAR(9) CHARACTER SET utf8mb4,"
        " h INT AS (IF(m = '😀', 1, 2)) STORED, CHECK (m <> '😀😀'))"
    )
    connection.execute(create_as(show_create(connection, database, name), copy))
    seen = []
    for each in (name, copy):
        rows = "(1, 1, 1, 'é', 'é'), (2, 2, 2, 'x', '😀'), (3, 3, 3, 'e', 'e'), (4, 4, 0, '?', '?')"
        connection.execute(f"INSERT INTO {each} (id, e, s, l, m) VALUES {rows}")
        with pytest.raises(pymysql.MySQLError, match=r"CONSTRAINT|constraint"):
            connection.execute(f"INSERT INTO {each} (id, m) VALUES (5, '😀😀')")
        seen.append(connection.query(f"SELECT id, HEX(e), HEX(s), HEX(d), g, h FROM {each} ORDER BY id"))
    assert seen[0] == seen[1]
    assert seen[0][2][1] == "it's 😀?".encode().hex().upper()
    again = [show_create(connection, database, each).split("(", 1)[1] for each in (name, copy)]
    assert again[0] == again[1]


def test_labels_are_asked_for_also_where_a_server_lets_no_query_ask_itself(
    box: Sandbox, source: tuple[Connection, str]
) -> None:
    """MySQL refused the question (error 3636), and MariaDB gave no answer: a table with such labels was not made."""
    _, database = source
    name = unique("t")
    box.source.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, e ENUM('x','😀') CHARACTER SET utf8mb4)", database=database
    )
    limit = "cte_max_recursion_depth" if box.flavour is Flavour.MYSQL else "max_recursive_iterations"
    with globally(box.source, limit, 0), session(box.source) as connection:
        assert "enum('x','😀')" in show_create(connection, database, name)


@pytest.mark.parametrize("flavour", [Flavour.MARIADB], indirect=True)
def test_a_default_that_nobody_says_is_left_as_it_is_printed(source: tuple[Connection, str]) -> None:
    """MariaDB: of a column that is NOT NULL, and no row is there to ask by. A plain question mark stopped a publisher
    at every statement, whose scratch table is empty."""
    connection, database = source
    name = unique("t")
    made = "`50%` VARCHAR(9) NOT NULL DEFAULT '?', d VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL DEFAULT '😀'"
    connection.query(f"CREATE TABLE {name} (id INT PRIMARY KEY, {made.replace('%', '%%')})")
    assert show_create(connection, database, name).count("DEFAULT '?'") == 2
    connection.execute(f"INSERT INTO {name} (id) VALUES (1)")
    printed = show_create(connection, database, name)
    assert (printed.count("DEFAULT '?'"), printed.count("DEFAULT '😀'")) == (1, 1)


STORED = {
    "mariadb": (
        "(id INT PRIMARY KEY, c VARCHAR(90) COMMENT ' DATA DIRECTORY=''x''') DATA DIRECTORY='{files}'",
        "(id INT PRIMARY KEY) COMMENT=' DATA DIRECTORY=''x''' ENCRYPTION_KEY_ID=7 PARTITION BY RANGE (id) (PARTITION p"
        " VALUES LESS THAN (5) COMMENT ' DATA DIRECTORY = ''x''' DATA DIRECTORY = '{files}', PARTITION q VALUES LESS"
        " THAN MAXVALUE)",
    ),
    "mysql": (
        "(id INT PRIMARY KEY, c VARCHAR(90) COMMENT ' DATA DIRECTORY=''x''') TABLESPACE innodb_system",
        "(id INT PRIMARY KEY) COMMENT=' TABLESPACE = `x`' ENCRYPTION='N' PARTITION BY RANGE (id) (PARTITION p VALUES"
        " LESS THAN (5) TABLESPACE innodb_file_per_table, PARTITION q VALUES LESS THAN MAXVALUE)",
    ),
}
PLACES = r" (TABLESPACE =? ?\w+|DATA DIRECTORY ?= ?'/.+?'|ENCRYPTION_KEY_ID=7|ENCRYPTION='N')"


@pytest.mark.parametrize("number", [0, 1])
def test_where_a_table_is_stored_is_left_out_and_nothing_else(
    source: tuple[Connection, str], tmp_path: Path, number: int
) -> None:
    connection, database = source
    body = STORED[connection.flavour][number].format(files=tmp_path)
    name, elsewhere = unique("stored"), unique("elsewhere")
    connection.execute_noted(f"CREATE TABLE {name} {body}")
    plain = re.sub(PLACES, "", body)
    assert plain != body
    connection.execute_noted(f"CREATE TABLE {elsewhere} {plain}")
    printed = show_create(connection, database, name)
    assert anywhere(printed) != printed
    assert anywhere(printed).replace(name, elsewhere) == show_create(connection, database, elsewhere)
    connection.execute(f"DROP TABLE {name}")
