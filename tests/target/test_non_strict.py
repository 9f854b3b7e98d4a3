"""What strict mode refuses is written when the place then holds what was sent, else it is refused as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pymysql
import pytest

from migrate.commands.row_filter_changes import delete_others
from migrate.model.message import Row
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.values import from_server, parameter, selected
from migrate.target.rows import PlaceWriter
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import catalog_table, make_settings, plan_of, scratch, service_tables, session

Write = Callable[[PlaceWriter, Connection, list[Row]], None]
_GENERATED = (
    "id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(3), d DECIMAL(5,1), e ENUM('x') NOT NULL DEFAULT 'x',"
    " f VARCHAR(6) AS (CONCAT(a, b)) STORED, n INT AS (a + 0) VIRTUAL, KEY (n)"
)


@contextmanager
def place(box: Sandbox, columns: str, language: str = "en_US") -> Iterator[tuple[Connection, PlaceWriter]]:
    server = box.targets[0]
    with scratch(server, "exact") as name, session(server, name, session={"lc_messages": language}) as connection:
        connection.execute_noted(f"CREATE TABLE t ({columns})")
        yield connection, PlaceWriter(catalog_table(connection, name, "t"), "t")
        assert "STRICT_ALL_TABLES" in str(connection.query("SELECT @@SESSION.sql_mode"))


def _copied(writer: PlaceWriter, connection: Connection, rows: list[Row]) -> None:
    values = [[parameter(column)(row[column.name]) for column in writer.table.stored] for row in rows]
    writer.insert_values(connection, values)


WRITES: dict[str, Write] = {
    "insert": lambda writer, connection, rows: writer.insert(connection, rows),
    "update": lambda writer, connection, rows: writer.update(connection, rows),
    "copy": _copied,
}
writes = pytest.mark.parametrize("write", list(WRITES.values()), ids=list(WRITES))


def row(number: int, a: str | None, b: str | None, d: str | None = "1.5", e: str = "1") -> Row:
    return {"id": str(number), "a": a, "b": b, "d": d, "e": e}


@pytest.mark.parametrize("language", ["en_US", "de_DE"])
@writes
def test_a_generated_column_that_is_cut_is_computed_as_a_lax_source_does(
    box: Sandbox, write: Write, language: str
) -> None:
    with place(box, _GENERATED, language) as (connection, writer):
        with connection.transaction():
            write(writer, connection, [row(1, "1", "x"), row(2, "12abcdef", "ghi", e="0"), row(3, None, None, None)])
        found = connection.query("SELECT id, a, b, d + 0, CAST(e AS UNSIGNED), f, n + 0 FROM t ORDER BY id")
    assert [tuple(map(str, one)) for one in found] == [
        ("1", "1", "x", "1.5", "1", "1x", "1"),
        ("2", "12abcdef", "ghi", "1.5", "0", "12abcd", "12"),
        ("3", "None", "None", "None", "1", "None", "None"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [row(2, "12a", "longer"), row(2, "12a", "x", "1.57"), row(2, "12a", "x", "99999"), row(2, "12a", "x", e="7")],
    ids=["cut", "rounded", "clamped", "no label"],
)
@writes
def test_a_column_that_does_not_hold_what_was_sent_is_refused(box: Sandbox, write: Write, wrong: Row) -> None:
    """Beside a generated column that is cut, which alone would be written."""
    with place(box, _GENERATED) as (connection, writer):
        with pytest.raises((pymysql.MySQLError, Warned)), connection.transaction():
            write(writer, connection, [row(1, "1", "x"), wrong, row(3, "3x", "x")])
        assert connection.query("SELECT * FROM t") == []


@writes
def test_null_in_a_column_that_has_none_is_refused(box: Sandbox, write: Write) -> None:
    with place(box, "id INT PRIMARY KEY, v INT NOT NULL") as (connection, writer):
        with pytest.raises(pymysql.MySQLError, match="1048"), connection.transaction():
            write(writer, connection, [{"id": "1", "v": "0"}, {"id": "2", "v": None}, {"id": "3", "v": "0"}])
        assert connection.query("SELECT * FROM t") == []


@writes
def test_a_float_above_its_digits_is_written_where_it_is_the_largest(box: Sandbox, write: Write) -> None:
    with place(box, "id INT PRIMARY KEY, v FLOAT(10,2), w FLOAT(8,2)") as (connection, writer):
        column = writer.table.by_name["v"]
        with connection.transaction():
            write(writer, connection, [{"id": "1", "v": "100000000.0", "w": "-1000000.0"}])
        with pytest.raises(pymysql.MySQLError, match="1264"), connection.transaction():
            write(writer, connection, [{"id": "2", "v": "100000008.0", "w": "1.0"}])
        rows = connection.query(f"SELECT {selected(column)} FROM t")
        assert [from_server(column)(str(value).encode()) for (value,) in rows] == ["100000000.0"]


def test_rows_of_a_lax_source_are_deleted(box: Sandbox) -> None:
    with place(box, _GENERATED) as (connection, writer):
        writer.insert(connection, [row(1, "1", "x"), row(2, "2abc", "x"), row(3, "3abc", "xyz"), row(4, "4", "")])
        assert writer.delete(connection, [("1",), ("2",), ("3",), ("9",)]) == 3
        assert connection.query("SELECT id FROM t") == [(4,)]


def test_rows_of_a_lax_source_that_other_conditions_leave_out_are_deleted(box: Sandbox) -> None:
    with place(box, _GENERATED) as (connection, writer):
        box.targets[0].execute(*service_tables("m"), database=writer.table.database)
        writer.insert(connection, [row(1, "1", "x"), row(2, "2abc", "x"), row(3, "3abc", "xyz"), row(4, "4", "")])
        one = {"name": writer.table.full_name, "rows": [{"column": "id", "below": 2}], "sharding": {"nodes": "ds_0.t"}}
        planned = plan_of(writer.table, settings=make_settings(tables=[one])).tables[writer.table.id]
        assert delete_others(connection, "m", planned, "t") == 3
        assert connection.query("SELECT id FROM t") == [(1,)]


@writes
def test_a_key_on_an_expression_takes_what_a_lax_source_has(mysql_box: Sandbox, write: Write) -> None:
    keys = "KEY ((CAST(a AS UNSIGNED))), UNIQUE KEY ((CAST(t AS DECIMAL(3,1))))"
    with place(mysql_box, f"id INT PRIMARY KEY, a VARCHAR(9), t VARCHAR(9), {keys}") as (connection, writer):
        rows: list[Row] = [{"id": "1", "a": "12abc", "t": "999"}, {"id": "2", "a": "x", "t": "7"}]
        write(writer, connection, rows)
        assert connection.query("SELECT * FROM t ORDER BY id") == [(1, "12abc", "999"), (2, "x", "7")]
        with pytest.raises(pymysql.err.IntegrityError):  # both are cut to 99.9
            writer.insert(connection, [{"id": "3", "a": "1x", "t": "1000"}])
        assert writer.delete(connection, [("1",), ("2",)]) == 2


def test_every_kind_of_value_is_read_back_as_it_was_sent(box: Sandbox) -> None:
    """Beside a generated column that is cut; the texts are those of the source's own server."""
    columns = {
        "i": ("BIGINT UNSIGNED ZEROFILL", "18446744073709551615"),
        "m": ("DECIMAL(30,10)", "-1.5"),
        "o": ("DOUBLE", "-1.2345678901234567e-300"),
        "p": ("FLOAT", "0.1"),
        "q": ("BIT(9)", "b'101'"),
        "s": ("SET('a','b')", "'a,b'"),
        "d": ("DATE", "'2023-02-31'"),
        "at": ("TIMESTAMP(3) NULL", "'2024-03-31 02:30:00.001'"),
        "t": ("TIME(1)", "'-838:59:59.0'"),
        "y": ("YEAR", "0"),
        "c": ("CHAR(9)", "'a '"),
        "u": ("VARCHAR(9) CHARACTER SET utf8mb4", "'заказы€ '"),
        "r": ("VARCHAR(9) CHARACTER SET latin1", "'é€'"),
        "b": ("VARBINARY(9)", "0xFF00275C0A"),
        "g": ("POINT", "POINT(1, 2)"),
        "j": ("JSON", """JSON_OBJECT('a', CAST(1.5 AS DECIMAL(5,2)), 'b', '\\t"')"""),
        "zz": ("VARCHAR(2) AS (CONCAT('cut', id)) STORED", ""),
    }
    if box.flavour is Flavour.MARIADB:
        columns |= {"uu": ("UUID", "'123e4567-e89b-12d3-a456-426655440000'"), "ip": ("INET6", "'2001:db8::ff00'")}
    made = ", ".join(f"`{name}` {kind}" for name, (kind, _) in columns.items())
    sent = {name: value for name, (_, value) in columns.items() if value}
    with place(box, f"id INT PRIMARY KEY, {made}") as (connection, writer):
        names = ", ".join(f"`{name}`" for name in sent)
        with connection.lax():
            connection.execute(f"INSERT INTO t (id, {names}) VALUES (1, {', '.join(sent.values())})")
        with session(box.targets[0], writer.table.database, raw_results=True) as raw:
            stored = writer.table.stored
            (values,) = raw.query(f"SELECT {', '.join(map(selected, stored))} FROM t")
        texts = {column.name: from_server(column)(value) for column, value in zip(stored, values, strict=True)}
        image: Row = {**texts, "id": "2"}
        for name, write in WRITES.items():
            write(writer, connection, [image])
            rows = connection.query("SELECT COUNT(*) FROM t AS one JOIN t AS two ON two.id = 2 AND one.j = two.j")
            assert [int(count) for (count,) in rows] == [2], name
            writer.delete(connection, [("2",)])


def test_a_document_of_mysql_is_read_back_at_mariadb(mysql_box: Sandbox, mariadb_box: Sandbox) -> None:
    """Where it is text, and has no types of its own."""
    columns = "id INT PRIMARY KEY, a VARCHAR(9), j {}, o DOUBLE, n INT AS (a + 0) STORED"
    with (
        place(mysql_box, columns.format("JSON")) as (_, writer),
        place(mariadb_box, columns.format("LONGTEXT")) as (there, _),
    ):
        image: Row = {"id": "1", "a": "12abc", "j": '{"a": \n1.50, "b": "\\t"}', "o": "-0.0"}
        for write in WRITES.values():
            write(writer, there, [image])
            assert there.query("SELECT a, j, n FROM t") == [("12abc", '{"a": 1.50, "b": "\\t"}', 12)]
            writer.delete(there, [("1",)])
