"""JSON with types that its text does not show goes in and comes out as it was; what cannot is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from migrate.model.errors import StopError
from migrate.model.table import Column, Kind
from migrate.mysql import typed_json
from migrate.mysql.connection import Connection
from migrate.mysql.typed_json import JsonValue, to_parameter
from migrate.mysql.values import compared, from_server, parameter, selected
from sandbox.stack import Sandbox
from tests.helpers import scratch, session

J = Column("j", "json", Kind.JSON)
CASES = {
    '{"i": \t7, "m": 5000000000}': dict.fromkeys("im", "UNSIGNED INTEGER"),
    '{"n": \t5000000000}': {"n": "INTEGER"},
    '{"d": \n1.10, "e": \n-0.05, "f": \n5, "g": 1.1}': dict.fromkeys("def", "DECIMAL") | {"g": "DOUBLE"},
    '{"d": \r"2006-02-15", "s": "2006-02-15"}': {"d": "DATE", "s": "STRING"},
    '{"t": \r"-12:00:00.500000", "u": \r"2006-02-15 04:34:33.000001"}': {"t": "TIME", "u": "DATETIME"},
    '{"t": \r\r"2006-02-15 04:34:33.000000"}': {"t": "TIMESTAMP"},
    '{"b": \r"base64:type15:AP8=", "c": \r"base64:type252:"}': dict.fromkeys("bc", "BLOB"),
    '{"d": \r"base64:type254:YQA="}': {"d": "BLOB"},
    '{"m": \r"base64:type250:YWI=", "n": \r"base64:type251:YWI="}': dict.fromkeys("mn", "BLOB"),
    '{"b": \r"base64:type16:AAU=", "c": \r"base64:type16://////////8="}': dict.fromkeys("bc", "BIT"),
    '{"": \n1.0, "\\"\\\\": \n4.0, "%s\'": \n3.0, "a.b": \n2.0, "ü🎁": \n6.0}': dict.fromkeys(
        ("", '"\\', "%s'", "a.b", "ü🎁"), "DECIMAL"
    ),
    '{"\\u0001": \n5.0}': {"\x01": "DECIMAL"},
}  # fmt: skip


@pytest.fixture(scope="module")
def sessions(mysql_box: Sandbox) -> Iterator[tuple[Connection, Connection]]:
    """A writer's session, and one with raw results as the copy's reader has it."""
    server = mysql_box.targets[0]
    with scratch(server, "typed_json") as database:
        with session(server, database) as writer, session(server, database, raw_results=True) as reader:
            writer.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
            yield writer, reader


def written(sessions: tuple[Connection, Connection], text: str) -> str | None:
    """A canonical text written as the stream does, and read as the copy does."""
    writer, reader = sessions
    writer.execute("DELETE FROM t")
    writer.execute("INSERT INTO t VALUES (1, %s)", [parameter(J)(text)])
    return from_server(J)(reader.query(f"SELECT {selected(J)} FROM t")[0][0])


@pytest.mark.parametrize("text", CASES, ids=lambda text: text.encode("unicode_escape").decode())
def test_a_marked_text_is_written_and_read_as_it_is(sessions: tuple[Connection, Connection], text: str) -> None:
    assert written(sessions, text) == text
    names = {name: "$." + json.dumps(name, ensure_ascii=False) for name in CASES[text]}
    types = {
        name: sessions[0].query("SELECT JSON_TYPE(JSON_EXTRACT(j, %s)) FROM t", [path])[0][0]
        for name, path in names.items()
    }
    assert types == CASES[text]


@pytest.mark.parametrize(
    "text",
    [
        "\n1.50",
        "\t40000",
        '\r"2006-02-15"',
        '[1, [\t2, {"a": [\n3.0, {"b": \n4.00}]}, \n5.0], "x", \r"12:00:00.000000"]',
    ],
)
def test_a_mark_stands_anywhere(sessions: tuple[Connection, Connection], text: str) -> None:
    assert written(sessions, text) == text
    assert json.loads(text) == json.loads(JsonValue(text).plain)  # the same for every other reader


@pytest.mark.parametrize("text", ["{}", "null", '{"a": "\\t\\n\\r", "b": [1, 4294967296, 1.0]}'])
def test_a_text_without_marks_stays_a_plain_string(sessions: tuple[Connection, Connection], text: str) -> None:
    assert to_parameter(text) == text
    assert written(sessions, text) == text


def test_values_of_other_types_with_one_text_do_not_compare_equal(sessions: tuple[Connection, Connection]) -> None:
    """What verification digests: a DECIMAL that became a DOUBLE is a difference."""
    writer, _ = sessions
    found = []
    for text in (
        '{"a": \n1.5}',
        '{"a": 1.5}',
        '{"a": \t5}',
        '{"a": 5}',
        '{"a": \r"2006-02-15"}',
        '{"a": "2006-02-15"}',
    ):
        written(sessions, text)
        found.append(writer.query(f"SELECT SHA2({compared(J)}, 256) FROM t")[0][0])
    assert len(set(found)) == 6


def test_a_server_whose_json_is_text_gets_the_text(mariadb_box: Sandbox) -> None:
    server = mariadb_box.targets[0]
    with scratch(server, "typed_json") as database, session(server, database) as writer:
        writer.execute("CREATE TABLE t (j JSON)")
        writer.execute("INSERT INTO t VALUES (%s)", [parameter(J)('{"d": \n1.10, "s": \r"2006-02-15"}')])
        assert writer.query(f"SELECT j, {selected(J)} FROM t") == [('{"d": 1.10, "s": "2006-02-15"}',) * 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": \r"base64:type249:YWI="}', "server's type 249 inside cannot be written"),
        ('{"a": \r"no date"}', "not written as MySQL prints it"),
        ('{"a": \n"1.0"}', "not written as MySQL prints it"),
        ('{"a": \t-1}', "not written as MySQL prints it"),
        ('{"a": \r\r"2006-02-15"}', "not written as MySQL prints it"),
        ('{"a": \r"base64:type15:Y"}', "not written as MySQL prints it"),
        ('{\n  "a": 1\n}', "not written as MySQL prints it"),
        ('{"a": \n1.0', "not written as MySQL prints it"),
        ("\n1.0 2", "not written as MySQL prints it"),
    ],
)
def test_what_cannot_be_written_stops_and_names_the_column_without_the_value(text: str, message: str) -> None:
    with pytest.raises(StopError, match=r"column j \(json\): ") as caught:
        parameter(J)(text)
    assert message in caught.value.message
    assert "YWI=" not in str(caught.value)


def test_a_value_cannot_leave_its_statement(sessions: tuple[Connection, Connection]) -> None:
    text = '{"y": \r"base64:type15:Jyk7", "x\\\\": "\') -- ", "\'), (2, NULL); -- ": \n1.0}'
    assert written(sessions, text) == text
    assert sessions[0].query("SELECT COUNT(*) FROM t") == [(1,)]


def test_the_longest_document_is_counted_in_a_statements_size() -> None:
    assert len(JsonValue('["' + "x" * 1000 + '", \n1.0]')) == 1009


def test_typed_json_does_not_touch_null() -> None:
    assert typed_json.from_server(None) is None
    assert to_parameter(None) is None
