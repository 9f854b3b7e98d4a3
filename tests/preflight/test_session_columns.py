"""Generated columns whose stored value depends on the session are refused by name; others are not."""

from __future__ import annotations

import re

import pytest

from migrate.mysql.definition import show_create_whole
from migrate.mysql.expressions import expressions
from migrate.preflight import session_columns
from migrate.preflight.result import Verdict
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import catalog_table, globally, scratch, session

_TIMES = (
    "id INT PRIMARY KEY, at TIMESTAMP NULL, kind VARCHAR(20), plain DATETIME,"
    " day DATE AS (CAST(at AS DATE)) STORED,"
    " `local day` DATE AS (CAST(at AS DATE)) STORED,"
    " branch DATE AS (CASE WHEN kind = 'it''s (`x' THEN CAST(at AS DATE) END) STORED,"
    " far INT AS (CASE WHEN id > 1000000 THEN HOUR(at) ELSE 0 END) STORED,"
    " indexed INT AS (id * 2) VIRTUAL, KEY (indexed),"
    " free DATE AS (CAST(at AS DATE)) VIRTUAL,"
    " fixed DATE AS (CAST(plain AS DATE)) STORED,"
    " text VARCHAR(60) AS (CONCAT(kind, '%s 100%', id, ')')) STORED"
)
_NUMBERS = (
    "id INT PRIMARY KEY, a INT, price DECIMAL(10,2),"
    " ratio DECIMAL(20,9) AS (a / price) STORED,"
    " euros DECIMAL(10,2) AS (price / 100) STORED,"
    " whole INT AS (a DIV 2) STORED"
)
_LANGUAGE = "id INT PRIMARY KEY, at DATETIME, month VARCHAR(20) AS (MONTHNAME(at)) STORED, y INT AS (YEAR(at)) STORED"


def found(box: Sandbox, columns: str, *rows: str) -> dict[str, str]:
    """The refused columns of such a table, and the variables."""
    with scratch(box.source, "generated") as name:
        box.source.execute(f"CREATE TABLE t ({columns})", *rows, database=name)
        with session(box.source) as connection:
            results = session_columns.check(connection, catalog_table(connection, name, "t"))
            assert connection.query("SELECT @@SESSION.time_zone, @@SESSION.div_precision_increment") == [("+00:00", 4)]
    assert {one.verdict for one in results} <= {Verdict.PROBLEM}
    said = [re.split(": (?:generated column|unique key|check) ", one.message)[1] for one in results]
    return {one.split(" ")[0]: one.partition("(")[2].partition(")")[0] for one in said}


def test_columns_that_look_at_the_time_zone_are_named(box: Sandbox) -> None:
    zone = "time_zone"
    assert found(box, _TIMES) == {"day": zone, "local": zone, "branch": zone, "far": zone}


def test_division_is_refused_where_its_precision_is_kept(box: Sandbox) -> None:
    assert found(box, _NUMBERS) == {"ratio": "div_precision_increment"}


def test_a_check_that_looks_at_the_session_is_refused(box: Sandbox) -> None:
    """The copy stopped at a row that the source had taken in another time zone."""
    checks = (
        "CONSTRAINT `at work` CHECK (HOUR(at) BETWEEN 8 AND 18), CONSTRAINT small CHECK (id < 9),"
        " CONSTRAINT text CHECK (kind <> 'CONSTRAINT `x` CHECK (HOUR(at))')"
    )
    assert found(box, f"id INT PRIMARY KEY, at TIMESTAMP NULL, kind VARCHAR(60), {checks}") == {"at": "time_zone"}


def test_a_check_on_a_columns_own_line_is_refused_too(box: Sandbox) -> None:
    """MariaDB keeps it there, under the column's name; MySQL makes a constraint of it."""
    text = "s VARCHAR(60) DEFAULT ' CHECK (HOUR(at))' COMMENT 'it''s CHECK (HOUR(at))' CHECK (s <> 'CHECK (')"
    columns = (
        f"id INT PRIMARY KEY, at TIMESTAMP NOT NULL CHECK (HOUR(at) < 12), {text}, doc JSON CHECK (LENGTH(doc) < 99),"
        " kind ENUM(' CHECK (HOUR(at)', 'b') CHECK (kind <> 'c'), h INT AS (id + 1) STORED CHECK (h < 1000)"
    )
    named = "at" if box.flavour is Flavour.MARIADB else "t_chk_1"
    assert found(box, columns) == {named: "time_zone"}


def test_the_servers_own_sql_mode_is_tried(mysql_box: Sandbox) -> None:
    """A value of the source's that is padded, or below zero, is another one at the target; MariaDB refuses such columns
    itself."""
    columns = (
        "id INT PRIMARY KEY, c CHAR(9), a INT UNSIGNED, b INT UNSIGNED, fixed INT AS (id * 2) STORED,"
        " n INT AS (CHAR_LENGTH(c)) STORED, d BIGINT AS (CAST(a - b AS SIGNED)) STORED"
    )
    with globally(mysql_box.source, "sql_mode", "PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,STRICT_TRANS_TABLES"):
        refused = found(mysql_box, columns, "INSERT INTO t (id, c, a, b) VALUES (1, 'a', 1, 2)")
    assert refused == {"n": "sql_mode", "d": "sql_mode"}
    assert found(mysql_box, columns, "INSERT INTO t (id, c, a, b) VALUES (1, 'a', 2, 1)") == {}


def test_the_language_is_looked_at(box: Sandbox) -> None:
    if box.flavour is Flavour.MARIADB:
        pytest.skip("MariaDB refuses such columns itself")
    assert found(box, _LANGUAGE) == {"month": "lc_time_names"}


def test_a_unique_key_on_an_expression_is_refused_too(box: Sandbox) -> None:
    """Lost: a row whose value of such a key is another one's at the target."""
    if box.flavour is Flavour.MARIADB:
        pytest.skip("MySQL only")
    keys = "UNIQUE KEY day ((CAST(at AS DATE))), UNIQUE KEY twice ((id * 2)), KEY free ((CAST(at AS DATE)))"
    assert found(box, f"id INT PRIMARY KEY, at TIMESTAMP NULL, {keys}") == {"day": "time_zone"}


def test_a_unique_key_on_one_is_refused_too(box: Sandbox) -> None:
    """Where both rows got the same value at the target, one was lost."""
    columns = "id INT PRIMARY KEY, ts TIMESTAMP NULL, d DATE AS (DATE(ts)) STORED, UNIQUE KEY (d)"
    assert found(box, columns, "INSERT INTO t (id, ts) VALUES (1, '2020-01-01 23:00:00')") == {"d": "time_zone"}


_PATHS = (
    "id INT PRIMARY KEY, doc JSON, kind VARCHAR(9),"
    " d DATE AS (CAST(FROM_UNIXTIME(doc->>'$.ts') AS DATE)) STORED, UNIQUE KEY (d),"
    " ms DATE AS (DATE(FROM_UNIXTIME(JSON_EXTRACT(doc, '$.\"a b\"[0].at') / 1000))) STORED,"
    " branch DATE AS (CASE WHEN doc->>'$.kind' = 'it''s' AND kind = 'x' THEN DATE(FROM_UNIXTIME(doc->>'$.ts')) END)"
    " STORED,"
    " hour INT AS (CASE WHEN doc->>'$.n' > 5 THEN HOUR(FROM_UNIXTIME(doc->>'$.of[1].at')) END) VIRTUAL, KEY (hour),"
    " n INT AS (doc->>'$.n') STORED, name VARCHAR(60) AS (CONCAT(doc->>'$.name', '%', id)) STORED"
)


def test_documents_are_made_up_of_the_paths_that_an_expression_reads(mysql_box: Sandbox) -> None:
    """MariaDB refuses such columns itself, but for those that look at a TIMESTAMP."""
    zone = "time_zone"
    assert found(mysql_box, _PATHS) == {"d": zone, "ms": zone, "branch": zone, "hour": zone}


def test_a_document_decides_a_branch(box: Sandbox) -> None:
    hour = "CASE WHEN JSON_VALUE(doc, '$.kind') = 'x' THEN HOUR(at) ELSE 0 END"
    columns = f"id INT PRIMARY KEY, at TIMESTAMP NULL, doc JSON, h INT AS ({hour}) STORED"
    assert found(box, columns) == {"h": "time_zone"}


def test_what_no_row_gives_a_value_of_is_not_passed_by(mysql_box: Sandbox) -> None:
    far = "DATE(FROM_UNIXTIME(JSON_VALUE(CAST(UNHEX(a) AS CHAR), '$.at')))"
    columns = f"id INT PRIMARY KEY, a VARCHAR(99), d DATE AS ({far}) STORED, s VARCHAR(9) AS (REGEXP_SUBSTR(a, '@@.'))"
    row = """INSERT INTO t (id, a) VALUES (1, HEX('{"at": 1772330400}'))"""
    with scratch(mysql_box.source, "generated") as name, session(mysql_box.source) as connection:
        mysql_box.source.execute(f"CREATE TABLE t ({columns})", database=name)
        table = catalog_table(connection, name, "t")
        (result,) = session_columns.check(connection, table)
        assert (result.verdict, result.subject) == (Verdict.UNKNOWN, f"{name}.t")
        assert "generated column d" in result.message
    assert found(mysql_box, columns, row) == {"d": "time_zone"}


def test_expressions_are_read_whole(box: Sandbox) -> None:
    with scratch(box.source, "generated") as name, session(box.source) as connection:
        box.source.execute(f"CREATE TABLE t ({_TIMES})", database=name)
        statement = show_create_whole(connection, name, "t")
        read = {one.column: one for one in expressions(statement, catalog_table(connection, name, "t"))}
    assert {one for one in read if read[one].stored} == {"day", "local day", "branch", "far", "fixed", "text"}
    assert read["branch"].text.count("(") - read["branch"].text.count(")") == 1  # of the text in it
