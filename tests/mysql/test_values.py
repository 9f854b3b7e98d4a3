"""Every kind of value goes in as its canonical text and comes out as the same text, on the real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pymysql
import pytest

from migrate.model.errors import StopError
from migrate.model.table import Column, Kind
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.mysql.values import compared, from_server, parameter, placeholder, selected
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import catalog_table, scratch, session, unique

MEMBERS = ",".join(f"'m{number}'" for number in range(64))
POINT = b"\0\0\0\0\1\1\0\0\0" + b"\0\0\0\0\0\0\xf0\x3f" + b"\0\0\0\0\0\0\0\xc0"  # SRID 0, WKB of POINT(1 -2)
CASES: list[tuple[str, Kind, list[str]]] = [
    ("TINYINT", Kind.INT, ["-128", "0", "127"]),
    ("BIGINT UNSIGNED", Kind.INT, ["0", "9007199254740993", "18446744073709551615"]),
    ("BIGINT", Kind.INT, ["-9223372036854775808", "9223372036854775807"]),
    ("INT(10) UNSIGNED ZEROFILL", Kind.INT, ["7", "4294967295"]),
    ("DECIMAL(10,2) ZEROFILL", Kind.DECIMAL, ["7.50", "0.00"]),
    ("DECIMAL(20,4)", Kind.DECIMAL, ["-12.3000", "0.0000", "9999999999999999.9999"]),
    ("DECIMAL(65,30)", Kind.DECIMAL, ["12345678901234567890123456789012345.123456789012345678901234567890"]),
    (
        "FLOAT",
        Kind.FLOAT,
        ["0.10000000149011612", "-1.5", "3.4028234663852886e+38", "1.401298464324817e-45"],
    ),
    ("DOUBLE", Kind.DOUBLE, ["0.1", "-2.2250738585072014e-308", "1.7976931348623157e+308", "1e+30"]),
    ("BIT(1)", Kind.BIT, ["0", "1"]),
    ("BIT(64)", Kind.BIT, ["0", "9007199254740993", "18446744073709551615"]),
    ("ENUM('a','é','')", Kind.ENUM, ["1", "2", "3"]),
    (f"SET({MEMBERS})", Kind.SET, ["0", "5", "9007199254740993", "9223372036854775808", "18446744073709551615"]),
    ("DATE", Kind.DATE, ["2024-02-29", "0000-00-00", "2024-00-00", "2023-02-31", "9999-12-31"]),
    ("DATETIME", Kind.DATETIME, ["2024-02-29 23:59:59", "0000-00-00 00:00:00", "1000-01-01 00:00:00"]),
    ("DATETIME(6)", Kind.DATETIME, ["2024-02-29 23:59:59.000001", "0000-00-00 00:00:00.000000"]),
    ("TIMESTAMP NULL", Kind.TIMESTAMP, ["2024-03-31 01:30:00", "0000-00-00 00:00:00", "1970-01-01 00:00:01"]),
    ("TIMESTAMP(3) NULL", Kind.TIMESTAMP, ["2038-01-19 03:14:07.999", "0000-00-00 00:00:00.000"]),
    ("TIME", Kind.TIME, ["-838:59:59", "00:00:00", "838:59:59"]),
    ("TIME(6)", Kind.TIME, ["-00:00:00.000001", "12:34:56.700000"]),
    ("YEAR", Kind.YEAR, ["0000", "1901", "2155"]),
    ("VARCHAR(50) CHARACTER SET utf8mb4", Kind.TEXT, ["", " ", "é😀", "\\'\"%s%%\n\t\r\0", "trailing  "]),
    ("VARCHAR(50) CHARACTER SET utf8mb3", Kind.TEXT, ["", "€"]),
    ("VARCHAR(50) CHARACTER SET ascii", Kind.TEXT, ["", "~"]),
    ("LONGTEXT", Kind.TEXT, ["x" * 70_000]),
    ("VARCHAR(50) CHARACTER SET latin1", Kind.RAWTEXT, ["", "\x80\x81\xff%'\\", "caf\xe9"]),
    ("VARCHAR(50) CHARACTER SET gbk", Kind.RAWTEXT, ["\xb6\xa9\xb5\xa5", "\xd5\x5c"]),
    ("VARCHAR(50) CHARACTER SET cp1251", Kind.RAWTEXT, ["\xe7\xe0\xea"]),
    ("VARCHAR(50) CHARACTER SET ucs2", Kind.RAWTEXT, ["\x00a\x20\xac", ""]),
    ("BINARY(4)", Kind.BINARY, ["a\0\0\0", "\0\0\0\0", "\xff\x00\xfe "]),
    ("VARBINARY(10)", Kind.BINARY, ["", "\0", "a\0 ", "\xff'\\%s"]),
    ("BLOB", Kind.BINARY, ["", "".join(map(chr, range(256)))]),
    ("GEOMETRY", Kind.GEOMETRY, [POINT.decode("latin-1")]),
]
MARIADB: list[tuple[str, Kind, list[str]]] = [
    ("UUID", Kind.UUID, ["123e4567-e89b-12d3-a456-426655440000", "00000000-0000-0000-0000-000000000000"]),
    ("INET6", Kind.INET, ["::", "2001:db8::ff00:42:8329", "::ffff:192.0.2.128"]),
    ("INET4", Kind.INET, ["0.0.0.1", "192.0.2.1"]),
]
MYSQL: list[tuple[str, Kind, list[str]]] = [
    ("FLOAT NULL", Kind.FLOAT, ["0.0", "-0.0"]),  # MariaDB keeps no sign of zero
    ("DOUBLE NULL", Kind.DOUBLE, ["0.0", "-0.0"]),
    ("JSON", Kind.JSON, ['{"a": [1, 1.5, null, "é😀"]}', "[]", "null", '"\\""', "18446744073709551615"]),
    ("VECTOR(2)", Kind.VECTOR, ["\x00\x00\x80\x3f\x00\x00\x00\xc0"]),
]


@pytest.fixture(scope="module")
def sessions(box: Sandbox) -> Iterator[tuple[Connection, Connection, str]]:
    """A session as a target's writer has it, one with raw results as the copy's reader has it, and a database."""
    with ExitStack() as stack:
        database = stack.enter_context(scratch(box.targets[0], "values"))
        writer = stack.enter_context(session(box.targets[0], database))
        yield writer, stack.enter_context(session(box.targets[0], database, raw_results=True)), database


def stored(writer: Connection, database: str, definition: str, texts: list[str | None]) -> tuple[str, Column]:
    """A table with one row for each text, written as the service writes it."""
    name = unique("v")
    writer.execute(f"CREATE TABLE {name} (n INT PRIMARY KEY AUTO_INCREMENT, v {definition})")
    column = catalog_table(writer, database, name).by_name["v"]
    for text in texts:
        writer.execute(f"INSERT INTO {name} (v) VALUES ({placeholder(column)})", [parameter(column)(text)])
    return name, column


def cases(flavour: Flavour) -> list[tuple[str, Kind, list[str]]]:
    return CASES + (MARIADB if flavour is Flavour.MARIADB else MYSQL)


@pytest.mark.parametrize("definition", [case[0] for case in (*CASES, *MARIADB, *MYSQL)])
def test_what_is_written_is_read(box: Sandbox, sessions: tuple[Connection, Connection, str], definition: str) -> None:
    found = next((case for case in cases(box.flavour) if case[0] == definition), None)
    if found is None:
        pytest.skip("the other server's type")
    writer, reader, database = sessions
    texts: list[str | None] = [*found[2], None]
    name, column = stored(writer, database, definition, texts)
    assert column.kind is found[1]
    rows = reader.query(f"SELECT {selected(column)} FROM {quote(name)} ORDER BY n")
    assert [from_server(column)(row[0]) for row in rows] == texts


@pytest.mark.parametrize("definition", [case[0] for case in (*CASES, *MARIADB, *MYSQL)])
def test_two_tables_compare_equal_exactly_where_their_values_are(
    box: Sandbox, sessions: tuple[Connection, Connection, str], definition: str
) -> None:
    found = next((case for case in cases(box.flavour) if case[0] == definition), None)
    if found is None:
        pytest.skip("the other server's type")
    writer, _, database = sessions
    name, column = stored(writer, database, definition, [*found[2], None])
    digests = writer.query(f"SELECT SHA2({compared(column)}, 256) FROM {quote(name)} ORDER BY n")
    again, same = stored(writer, database, definition, [*found[2], None])
    assert writer.query(f"SELECT SHA2({compared(same)}, 256) FROM {quote(again)} ORDER BY n") == digests
    assert len(set(digests)) == len(digests)
    assert digests[-1] == (None,)


@pytest.mark.parametrize("kind", [Kind.INT, Kind.BIT, Kind.ENUM, Kind.SET])
@pytest.mark.parametrize("text", ["", "x", "1.5", "0x1", "1e3"])
def test_what_is_no_number_stops_without_showing_the_value(kind: Kind, text: str) -> None:
    with pytest.raises(StopError) as caught:
        parameter(Column("c", "whatever", kind))(text)
    assert caught.value.message == f"column c (whatever): {kind} value is not a number"


@pytest.mark.parametrize("kind", [Kind.BINARY, Kind.RAWTEXT, Kind.GEOMETRY, Kind.VECTOR])
def test_text_where_bytes_are_due_stops_without_showing_the_value(kind: Kind) -> None:
    with pytest.raises(StopError) as caught:
        parameter(Column("c", "blob", kind))("secret€")
    assert "column c (blob)" in caught.value.message
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("TINYINT", "128"),
        ("INT UNSIGNED", "-1"),
        ("DECIMAL(4,2)", "100.00"),
        ("DECIMAL(4,2)", "1.005"),
        ("BIT(3)", "8"),
        ("ENUM('a')", "2"),
        ("SET('a','b')", "4"),
        ("DATE", "2024-13-01"),
        ("DATETIME", "2024-01-01 25:00:00"),
        ("TIME", "839:00:00"),
        ("YEAR", "1800"),
        ("VARCHAR(2)", "abc"),
        ("VARCHAR(9) CHARACTER SET ascii", "é"),
        ("VARCHAR(9) CHARACTER SET utf8mb3", "😀"),
        ("VARCHAR(9) CHARACTER SET gbk", "\xff\xff"),
        ("BINARY(2)", "abc"),
        ("GEOMETRY", "abc"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_not_bent(
    sessions: tuple[Connection, Connection, str], definition: str, text: str
) -> None:
    writer, _, database = sessions
    with pytest.raises(Exception, match=r".") as caught:
        stored(writer, database, definition, [text])
    assert isinstance(caught.value, (pymysql.MySQLError, StopError)), type(caught.value)
