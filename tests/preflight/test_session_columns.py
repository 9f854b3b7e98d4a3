"""Generated columns whose stored value depends on the session are refused by name; others are not."""

from __future__ import annotations

import re

import pymysql
import pytest

from migrate.mysql.definition import show_create_whole
from migrate.mysql.expressions import expressions
from migrate.preflight.result import Verdict
from migrate.preflight.schema import session_columns
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


def found(box: Sandbox, columns: str, *rows: str, verdict: Verdict = Verdict.PROBLEM) -> dict[str, str]:
    """The refused columns of such a table, and the variables; or those of which there is a note, and the modes."""
    with scratch(box.source, "generated") as name:
        box.source.execute(f"CREATE TABLE t ({columns})", *rows, database=name)
        with session(box.source) as connection:
            results = session_columns.check(connection, catalog_table(connection, name, "t"))
            assert connection.query("SELECT @@SESSION.time_zone, @@SESSION.div_precision_increment") == [("+00:00", 4)]
    assert {one.verdict for one in results} <= {Verdict.PROBLEM, Verdict.NOTE}
    told = [one.message for one in results if one.verdict is verdict]
    said = [re.split(": (?:generated column|unique key|check) ", one)[1] for one in told]
    if verdict is Verdict.NOTE:
        return {one.split(" ")[0]: one.partition("sql_mode ")[2].partition(", which")[0] for one in said}
    return {one.split(" ")[0]: one.partition("(")[2].partition(")")[0] for one in said}


def test_columns_that_look_at_the_time_zone_are_named(box: Sandbox) -> None:
    zone = "time_zone"
    assert found(box, _TIMES) == {"day": zone, "local": zone, "branch": zone, "far": zone}


def test_a_moment_is_another_one_in_each_zone_whatever_it_is_compared_with(box: Sandbox) -> None:
    """Lost: values of rows that came later: no made-up moment was near what the expression compared with."""
    moments = {
        "late": "at >= '2024-06-01 00:00:00'",
        "of year": "YEAR(at) = 2024",
        "hour": "HOUR(at) BETWEEN 3 AND 6",
        "text": "IFNULL(at, '2020-01-01') = '2020-01-01'",
    }
    alike = {"known": "at IS NOT NULL", "order": "at < other", "none": "ISNULL(at)"}
    if box.flavour is Flavour.MYSQL:  # each server takes one of the two
        moments["made"] = "FROM_UNIXTIME(n) > '2020-01-01'"
    else:
        alike["unix"] = "UNIX_TIMESTAMP(at) > 5"
    columns = ", ".join(f"`{name}` INT AS ({text}) STORED" for name, text in (moments | alike).items())
    refused = found(box, f"id INT PRIMARY KEY, n INT, at TIMESTAMP NULL, other TIMESTAMP NULL, {columns}")
    assert set(refused) == {name.split(" ")[0] for name in moments}
    assert set(refused.values()) == {"time_zone"}


def test_what_a_virtual_column_looks_at_is_looked_at(box: Sandbox) -> None:
    """Lost: a stored value that was computed from a column that keeps none, which was not tried."""
    columns = (
        "id INT PRIMARY KEY, at TIMESTAMP NULL, n INT,"
        " day DATE AS (CAST(at AS DATE)) VIRTUAL, `next` DATE AS (day + INTERVAL 1 DAY) VIRTUAL,"
        " twice INT AS (n * 2) VIRTUAL, four INT AS (twice * 2) STORED,"
        " s VARCHAR(20) AS (CONCAT('x', `next`)) STORED, CONSTRAINT early CHECK (day < '2030-01-01')"
    )
    refused = found(box, columns)
    assert refused == {"s": "time_zone", "early": "time_zone"}


def test_names_and_labels_of_any_kind_are_read(box: Sandbox) -> None:
    columns = (
        "id INT PRIMARY KEY, a INT, at TIMESTAMP NULL, `margin%` INT AS (a + 1) STORED,"
        " `hour%s` INT AS (HOUR(at)) STORED,"
        " g ENUM('x AS (y','z') AS (IF(HOUR(at) < 12, 'z', 'x AS (y')) STORED"
    )
    assert found(box, columns) == {"hour%s": "time_zone", "g": "time_zone"}


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


_BY_MODE = (
    "id INT PRIMARY KEY, c CHAR(9), v VARCHAR(20), a INT UNSIGNED, at DATETIME(6), fixed INT AS (id * 2) STORED,"
    " d DATE AS (CAST(v AS DATE)) STORED, CONSTRAINT late CHECK (CAST(v AS DATE) IS NULL OR id > 0)"
)
_OF_MYSQL = (
    ", n INT AS (CHAR_LENGTH(c)) STORED, t VARCHAR(20) AS (CONCAT(c, '|')) STORED, u BIGINT AS (ABS(a - 5)) STORED,"
    " r DATETIME AS (CAST(at AS DATETIME)) STORED, UNIQUE KEY padded ((CHAR_LENGTH(c) * 1000 + id))"
)


def test_a_mode_that_nobody_is_known_to_have_is_a_note_and_one_of_a_routine_is_refused(box: Sandbox) -> None:
    """Lost: what a routine writes in a mode of its own, where no row has it yet and the global mode is another one: the
    target computed every row otherwise. Costs 2 s."""
    pad, zero = "PAD_CHAR_TO_FULL_LENGTH", "NO_ZERO_IN_DATE"
    columns, modes = _BY_MODE, {"d": zero}
    if box.flavour is Flavour.MYSQL:  # MariaDB refuses the others itself
        columns += _OF_MYSQL
        modes |= {"n": pad, "t": pad, "padded": pad, "u": "NO_UNSIGNED_SUBTRACTION", "r": "TIME_TRUNCATE_FRACTIONAL"}
    rows = "INSERT INTO t (id, c, v, a, at) VALUES (1, 'a', '2020-00-01', 7, '2020-01-01 10:00:00.9')"
    with globally(box.source, "sql_mode", "STRICT_TRANS_TABLES"):
        assert found(box, columns, rows) == {}
        assert found(box, columns, rows, verdict=Verdict.NOTE) == modes
        program = ("SET SESSION sql_mode = '{}'", "CREATE {} t_writes {} INSERT INTO t (id) VALUES (1)")
        event = program[1].format("EVENT", "ON SCHEDULE EVERY 1 YEAR DO")
        for mode in sorted(set(modes.values())):
            refused = dict.fromkeys((name for name, one in modes.items() if one == mode), "sql_mode")
            for made in (event, program[1].format("PROCEDURE", "()")):
                written = [rows] if mode == zero else []  # no made-up text is such a date
                assert found(box, columns, *written, program[0].format(mode), made) == refused


def test_by_what_mysql_compares_its_literals_is_tried(mysql_box: Sandbox) -> None:
    """A target compared them by its sessions' collation, whatever the source's was."""
    columns = "id INT PRIMARY KEY, g INT AS (CONCAT('ss', id) = 'ß7') STORED, h INT AS (CONCAT('s', id) = 's7') STORED"
    assert found(mysql_box, columns) == {}
    with globally(mysql_box.source, "default_collation_for_utf8mb4", "utf8mb4_general_ci"):
        assert found(mysql_box, columns) == {"g": "default_collation_for_utf8mb4"}


def test_a_pattern_that_may_escape_is_refused_where_the_source_has_no_escapes(mysql_box: Sandbox) -> None:
    """The target computed another value for rows that were written later, and refused rows that the source took."""
    columns = (
        "id INT PRIMARY KEY, s VARCHAR(9), g INT AS (s LIKE 'a\\_b') STORED, plain INT AS (s LIKE 'a%') STORED,"
        " said INT AS (s LIKE 'a|_b' ESCAPE '|') STORED, other INT AS (s LIKE CONCAT(s, 'b')) STORED,"
        " CONSTRAINT c CHECK (s NOT LIKE 'x\\_y')"
    )
    with globally(mysql_box.source, "sql_mode", "NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES"):
        assert found(mysql_box, columns) == {"g": "sql_mode", "other": "sql_mode", "c": "sql_mode"}
    assert found(mysql_box, columns) == {}


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
    far = "JSON_VALUE(CAST(UNHEX(a) AS CHAR), '$.n' RETURNING DECIMAL(10,2)) / 3"
    text = "s VARCHAR(9) AS (REGEXP_SUBSTR(a, '@@.'))"
    columns = f"id INT PRIMARY KEY, a VARCHAR(99), d DECIMAL(20,9) AS ({far}) STORED, {text}"
    row = """INSERT INTO t (id, a) VALUES (1, HEX('{"n": 10}'))"""
    with scratch(mysql_box.source, "generated") as name, session(mysql_box.source) as connection:
        mysql_box.source.execute(f"CREATE TABLE t ({columns})", database=name)
        table = catalog_table(connection, name, "t")
        (result,) = session_columns.check(connection, table)
        assert (result.verdict, result.subject) == (Verdict.UNKNOWN, f"{name}.t")
        assert "generated column d" in result.message
    assert found(mysql_box, columns, row) == {"d": "div_precision_increment"}


_MANY = "INSERT INTO t (id, kind) SELECT 1 + n, '' FROM ({}) AS some"
_NUMBERS_TO_300 = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(300))


@pytest.mark.parametrize("number", [150, 1000])
def test_values_that_no_session_of_ours_computes_are_found_among_the_rows(mysql_box: Sandbox, number: int) -> None:
    """A branch that made-up rows do not come to, and the first hundred do not either. MariaDB fixes the precision as
    the table is made."""
    branch = "CASE WHEN REVERSE(kind) = 'zyx' THEN id / 7 ELSE -1 END"
    columns = f"id INT PRIMARY KEY, kind VARCHAR(9), h DECIMAL(20,9) AS ({branch}) STORED"
    many = _MANY.format(_NUMBERS_TO_300)
    one = f"REPLACE INTO t (id, kind) VALUES ({number}, 'xyz')"
    refused = found(mysql_box, columns, "SET SESSION div_precision_increment = 9", many, one)
    assert refused == {"h": "1 of 300 rows looked at" if number == 150 else "1 of 301 rows looked at"}
    assert found(mysql_box, columns, many, one.replace("'xyz'", "'b'")) == {}


_PADDED = {
    "its rows": (
        "fixed INT AS (id * 2) STORED, n INT AS (CHAR_LENGTH(c)) STORED, t VARCHAR(20) AS (CONCAT(c, '|')) STORED"
    ),
    "what an index holds of a virtual column": (
        "n INT AS (CHAR_LENGTH(c)) VIRTUAL, free INT AS (CHAR_LENGTH(c)) VIRTUAL,"
        " t VARCHAR(20) AS (CONCAT(c, '|')) VIRTUAL, x INT, KEY odd (x, n), UNIQUE KEY (t), KEY (t(3))"
    ),
}


@pytest.mark.parametrize("by", _PADDED)
def test_a_mode_of_the_writers_session_alone_is_found(mysql_box: Sandbox, by: str) -> None:
    columns = f"id INT PRIMARY KEY, c CHAR(9), {_PADDED[by]}"
    padded = "SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'"
    rows = "INSERT INTO t (id, c) VALUES (1, 'a'), (2, '123456789')"
    seen = "1 of 2 rows looked at"
    assert found(mysql_box, columns, padded, rows) == {"n": seen, "t": seen}
    assert found(mysql_box, columns, rows) == {}


_BY_OTHER_INDEXES = {
    "no primary key": "id INT NOT NULL, UNIQUE KEY by_id (id), KEY odd (n)",
    "an index that no plan takes": "id INT PRIMARY KEY, KEY odd (n) {unseen}",
    "both": "id INT NOT NULL, x INT, UNIQUE KEY by_id (id), UNIQUE KEY by_x (x) {unseen}, UNIQUE KEY odd (n) {unseen}",
}


@pytest.mark.parametrize("by", _BY_OTHER_INDEXES)
def test_entries_of_an_index_are_compared_whatever_the_tables_key_is(box: Sandbox, by: str) -> None:
    """Without a primary key, or with an index that no plan takes, preflight could not ask, and refused."""
    unseen, of = ("INVISIBLE", "CHAR_LENGTH(c) * 10 + id") if box.flavour == "mysql" else ("IGNORED", "id * 2")
    columns = f"c CHAR(9), n INT AS ({of}) VIRTUAL, {_BY_OTHER_INDEXES[by].format(unseen=unseen)}"
    rows = "INSERT INTO t (id, c) VALUES (1, 'a'), (2, '123456789')"
    assert found(box, columns, rows) == {}
    if box.flavour == "mysql":  # whose index alone has it as the writer computed it
        padded = "SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'"
        assert found(box, columns, padded, rows) == {"n": "1 of 2 rows looked at"}


_LAX = {
    "TINYINT": "a, b * 100, c, '12.7', c + 0, 2.5e0, -2.5",
    "INT UNSIGNED": "a, b, c, '12.7', a - b, 1e30",
    "BIGINT": "a * b, c",
    "DECIMAL(4,1)": "a / 3, b, c, x / 7, 1e30",
    "DECIMAL(4,1) UNSIGNED": "a / 3, -b",
    "DOUBLE": "a / 3, x / 7, SQRT(b), c, 1.0 / 7",
    "FLOAT": "a / 3, x / 7, SQRT(b), c, x",
    "FLOAT(5,1)": "b * 1000, x",
    "VARCHAR(6)": "CONCAT(c, 'longer'), a, x, at, CONCAT('ab    ', a), UPPER(c), b / 3",
    "CHAR(6)": "CONCAT(c, 'longer'), CONCAT(c, '  '), a",
    "VARCHAR(6) CHARACTER SET latin1": "CONCAT(c, '€ж'), MD5(c), UNHEX(MD5(c))",
    "TEXT": "CONCAT(c, a), REPEAT(c, 5)",
    "BINARY(5)": "UNHEX(MD5(c)), c, a, CONCAT(c, 'longer')",
    "VARBINARY(5)": "UNHEX(MD5(c)), c, a, CONCAT(c, 'longer')",
    "ENUM('x','7','12abc')": "c, a, 'y', '', 2",
    "SET('x','7')": "'7,x', a",
    "BIT(3)": "a, b > 5",
    "DATE": "at, c, CONCAT('2026-02-', a), 20260101, dt",
    "DATETIME(1)": "at, c, '2026-01-01 10:00:00.27', dt",
    "TIME(1)": "TIME(at), c, '10:00:00.27'",
    "YEAR": "YEAR(at), a",
}
"""Expressions that say the same in every session, by the type that keeps them: cut, rounded, clamped, or none."""


def test_what_a_lax_mode_made_of_a_value_is_no_difference(box: Sandbox) -> None:
    """Of types and expressions that the server takes; a variable that one depends on is another test's."""
    base = "id INT PRIMARY KEY, a INT, b INT, c VARCHAR(20), x DOUBLE, at DATETIME(3), dt DATE"
    rows = (
        "(1, 7, 3, '12abc', 1.5, '2026-03-01 23:59:59.9', '2026-03-01'), (2, -1, 1000, 'x', -0.1, NULL, '2023-02-31'),"
        " (3, NULL, NULL, NULL, NULL, NULL, NULL), (4, 28, 2147483647, '7', 1e20, '0000-00-00', '0000-00-00'),"
        " (5, 0, -5, '', 0, '2026-12-31 00:00:00', '2026-12-31')"
    )
    kept = [(kind, text) for kind, texts in _LAX.items() for text in re.split(r", (?![^(]*\))", texts)]
    refused, looked = {}, 0
    for kind, text in kept:
        columns = f"{base}, g {kind} AS ({text}) STORED"
        insert = f"INSERT IGNORE INTO t (id, a, b, c, x, at, dt) VALUES {rows}"
        lax = "SET SESSION sql_mode = ''"
        try:
            told = found(box, columns, lax, insert)
        except pymysql.MySQLError:
            continue
        looked += not told
        if "rows" in told.get("g", ""):
            refused[kind, text] = told["g"]
    assert refused == {}
    assert looked > 50


def test_expressions_are_read_whole(box: Sandbox) -> None:
    with scratch(box.source, "generated") as name, session(box.source) as connection:
        box.source.execute(f"CREATE TABLE t ({_TIMES})", database=name)
        statement = show_create_whole(connection, name, "t")
        read = {one.column: one for one in expressions(statement, catalog_table(connection, name, "t"))}
    assert {one for one in read if read[one].stored} == {"day", "local day", "branch", "far", "fixed", "text"}
    assert read["branch"].text.count("(") - read["branch"].text.count(")") == 1  # of the text in it
