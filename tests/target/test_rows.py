"""PlaceWriter on real servers: every kind of key, every odd name, and what a refusal leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from migrate.model.change import Key
from migrate.model.errors import StopError
from migrate.model.message import Row
from migrate.model.table import Kind
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.target.rows import PlaceWriter
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import catalog_table, scratch, session, unique

NAMES = [
    "a`b",
    "100%",
    "%s",
    "%(id)s",
    "my table",
    "dot.ted",
    'quo"te',
    "it's",
    "заказы€",
    "select",
    "x;drop table y",
    "`",
    "_new",
    "_NEW",
]
EXACT_KEYS: list[tuple[str, Kind, list[str]]] = [
    ("BIGINT UNSIGNED", Kind.INT, ["0", "18446744073709551615", "9007199254740993"]),
    ("DECIMAL(30,10)", Kind.DECIMAL, ["-1.5000000000", "0.0000000000", "12345678901234567890.0000000001"]),
    ("BIT(64)", Kind.BIT, ["0", "1", "18446744073709551615"]),
    ("ENUM('a','b','c')", Kind.ENUM, ["1", "3"]),
    ("SET('a','b','c')", Kind.SET, ["0", "5", "7"]),
    ("DATE", Kind.DATE, ["0000-00-00", "2024-02-29", "2023-02-31"]),
    ("DATETIME(3)", Kind.DATETIME, ["2024-02-29 12:00:00.123", "0000-00-00 00:00:00.000"]),
    ("TIMESTAMP(3)", Kind.TIMESTAMP, ["2024-03-31 02:30:00.001", "1970-01-01 00:00:01.000"]),
    ("TIME(1)", Kind.TIME, ["-838:59:59.0", "00:00:00.1"]),
    ("YEAR", Kind.YEAR, ["0000", "2024"]),
    ("BINARY(4)", Kind.BINARY, ["a\0\0\0", "\xff\xfe  ", "a\0\0 "]),
    ("VARBINARY(9)", Kind.BINARY, ["", "a", "a\0", "a ", "\xff'\\%"]),
    ("UUID", Kind.UUID, ["123e4567-e89b-12d3-a456-426655440000", "00000000-0000-0000-0000-000000000001"]),
    ("INET6", Kind.INET, ["::", "2001:db8::ff00:42:8329"]),
    ("INET4", Kind.INET, ["0.0.0.1", "192.0.2.1"]),
]
MARIADB_ONLY = {"UUID", "INET6", "INET4"}


class Place:
    """A table in a scratch database, and its writer."""

    def __init__(self, connection: Connection, database: str) -> None:
        self.connection = connection
        self.database = database
        self.writer: PlaceWriter

    def make(self, columns: str, *, name: str = "", key: tuple[str, ...] | None = None, **limits: Any) -> PlaceWriter:
        name = name or unique("t")
        self.connection.execute(f"CREATE TABLE {quote(name)} ({columns.replace('%', '%%')})")
        self.writer = PlaceWriter(catalog_table(self.connection, self.database, name, key), name, **limits)
        return self.writer

    def write(self, *rows: Mapping[str, str | None]) -> None:
        with self.connection.transaction():
            self.writer.insert(self.connection, [dict(row) for row in rows])

    def rows(self, order: str = "1") -> list[tuple[object, ...]]:
        return self.connection.query(f"SELECT * FROM {quote(self.writer.name)} ORDER BY {order}")

    def present(self, *keys: Key) -> set[Key]:
        with self.connection.transaction():
            return self.writer.present(self.connection, keys)


@pytest.fixture(scope="module")
def place(box: Sandbox) -> Iterator[Place]:
    with ExitStack() as stack:
        database = stack.enter_context(scratch(box.targets[0], "rows"))
        yield Place(stack.enter_context(session(box.targets[0], database)), database)


@pytest.mark.parametrize(("definition", "kind", "keys"), EXACT_KEYS, ids=[case[0] for case in EXACT_KEYS])
def test_keys_of_every_exact_kind_are_inserted_found_updated_and_deleted(
    box: Sandbox, place: Place, definition: str, kind: Kind, keys: list[str]
) -> None:
    if definition in MARIADB_ONLY and box.flavour is Flavour.MYSQL:
        pytest.skip("MariaDB's type")
    writer = place.make(f"k {definition} NOT NULL PRIMARY KEY, v VARCHAR(20)")
    assert writer.table.key_columns[0].kind is kind
    assert writer.table.key_is_exact
    place.write(*({"k": key, "v": "old"} for key in keys[1:]))
    assert place.present(*((key,) for key in keys)) == {(key,) for key in keys[1:]}
    with place.connection.transaction():
        writer.update(place.connection, [{"k": keys[-1], "v": "new"}])
    values = [row[1] for row in place.rows()]
    assert sorted(str(value) for value in values) == sorted(["old"] * (len(keys) - 2) + ["new"])
    with place.connection.transaction():
        assert writer.delete(place.connection, [(key,) for key in keys]) == len(keys) - 1
    assert place.rows() == []


@pytest.mark.parametrize("unique_key", ["", ", UNIQUE (v)"])
def test_columns_that_rows_of_other_tables_have_get_their_default(place: Place, unique_key: str) -> None:
    """By an update and by a change; a row that is deleted and inserted again has it anyway."""
    place.make(f"id INT PRIMARY KEY, v INT{unique_key}")
    old = place.writer
    for column in ("x VARCHAR(9) NOT NULL DEFAULT 'none'", "`a%s` INT", "y DATETIME(3) DEFAULT '2024-01-01 00:00:00'"):
        place.connection.execute(f"ALTER TABLE {quote(old.name)} ADD {column.replace('%', '%%')}")
    place.connection.execute(
        f"INSERT INTO {quote(old.name)} VALUES (1, 1, 'x', 5, '2020-01-01 00:00:00'), (2, 2, 'x', 5, NULL)"
    )
    place.writer = PlaceWriter(old.table, old.name, absent=["x", "a%s", "y"])
    with place.connection.transaction():
        place.writer.update(place.connection, [{"id": "1", "v": "7"}])
        place.writer.change(place.connection, {"id": "2", "v": "8"})
        place.writer.insert(place.connection, [{"id": "3", "v": "9"}])
    rows = [(key, v, x, a, str(y)) for key, v, x, a, y in place.rows()]
    assert rows == [(key, v, "none", None, "2024-01-01 00:00:00") for key, v in ((1, 7), (2, 8), (3, 9))]


def test_composite_keys_are_told_apart_by_all_their_parts(place: Place) -> None:
    writer = place.make("b VARBINARY(5), a INT, c DATE, v INT, PRIMARY KEY (a, b, c)")
    assert writer.table.key == ("a", "b", "c")
    keys = [("1", "x", "2024-01-01"), ("1", "x", "2024-01-02"), ("1", "y", "2024-01-01"), ("2", "x", "2024-01-01")]
    place.write(*({"a": a, "b": b, "c": c, "v": "0"} for a, b, c in keys[:3]))
    assert place.present(*keys) == set(keys[:3])
    with place.connection.transaction():
        writer.update(place.connection, [{"a": "1", "b": "x", "c": "2024-01-02", "v": "7"}])
        writer.delete(place.connection, [keys[2], keys[3]])
    assert sorted(str(row[3]) for row in place.rows()) == ["0", "7"]
    assert place.present(*keys) == set(keys[:2])


@pytest.mark.parametrize(
    ("collation", "same", "other"),
    [
        ("utf8mb4_general_ci", "abc  ", "abd"),
        ("utf8mb4_unicode_ci", "ÁBC", "abcd"),
        ("utf8mb4_bin", "ABC ", "abc"),
        ("latin1_swedish_ci", "abc ", "abe"),
        ("gbk_chinese_ci", "abc ", "abe"),
    ],
)
def test_text_keys_are_one_where_the_server_says_so(place: Place, collation: str, same: str, other: str) -> None:
    writer = place.make(f"k VARCHAR(20) CHARACTER SET {collation.split('_')[0]} COLLATE {collation} PRIMARY KEY, v INT")
    assert not writer.table.key_is_exact
    place.write({"k": "ABC", "v": "1"})
    assert place.present((same,)) == {(same,)}
    assert place.present((other,)) == set()
    with place.connection.transaction():
        writer.update(place.connection, [{"k": same, "v": "2"}])
    ((key, value),) = place.rows()
    assert (key, value) == (same, 2)  # the newest spelling too
    with place.connection.transaction():
        assert writer.delete(place.connection, [("ABC",)]) == 1


def test_no_pad_collations_keep_trailing_spaces_apart(box: Sandbox, place: Place) -> None:
    collation = "utf8mb4_nopad_bin" if box.flavour is Flavour.MARIADB else "utf8mb4_0900_ai_ci"
    place.make(f"k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation} PRIMARY KEY, v INT")
    place.write({"k": "abc", "v": "1"}, {"k": "abc ", "v": "2"})
    assert place.present(("abc",)) == {("abc",)}
    assert place.present(("abc  ",)) == set()


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_tables_and_columns_are_only_names(place: Place, name: str) -> None:
    columns = f"id INT PRIMARY KEY, {quote(name)} VARCHAR(40), {quote(name + 'u')} INT".replace("%%", "%")
    writer = place.make(columns, name=name)
    more = name + "u"
    place.write({"id": "1", name: "%s %(x)s ' \\ `", more: None})
    with place.connection.transaction():
        writer.update(place.connection, [{"id": "1", name: name, more: "5"}])
    assert place.rows() == [(1, name, 5)]
    with place.connection.transaction():
        writer.delete(place.connection, [("1",)])
    assert place.rows() == []
    place.connection.execute(f"DROP TABLE {quote(name)}")


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_key_columns_are_only_names(place: Place, name: str) -> None:
    column, other = quote(name).replace("%%", "%"), quote(name + "2").replace("%%", "%")
    writer = place.make(f"{column} INT, {other} VARBINARY(9), v INT, PRIMARY KEY ({column}, {other})")
    place.write({name: "1", name + "2": "x", "v": "1"})
    assert place.present(("1", "x"), ("2", "x")) == {("1", "x")}
    with place.connection.transaction():
        writer.update(place.connection, [{name: "1", name + "2": "x", "v": "2"}])
    assert place.rows() == [(1, b"x", 2)]


def test_values_swapped_between_unique_keys_do_not_collide_and_hit_no_other_row(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, u VARCHAR(9) UNIQUE, w INT, UNIQUE (w)")
    assert writer.table.unique_keys == (("u",), ("w",))
    place.write({"id": "1", "u": "a", "w": "1"}, {"id": "2", "u": "b", "w": "2"}, {"id": "3", "u": "c", "w": "3"})
    with place.connection.transaction():
        writer.update(place.connection, [{"id": "1", "u": "b", "w": "2"}, {"id": "2", "u": "a", "w": "1"}])
    assert place.rows() == [(1, "b", 2), (2, "a", 1), (3, "c", 3)]


def test_an_update_that_takes_another_rows_unique_value_is_refused_and_hits_no_other_row(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, u INT UNIQUE")
    place.write({"id": "1", "u": "1"}, {"id": "2", "u": "2"})
    with pytest.raises(pymysql.IntegrityError), place.connection.transaction():
        writer.update(place.connection, [{"id": "1", "u": "2"}])
    assert place.rows() == [(1, 1), (2, 2)]


def test_an_insert_of_a_present_key_is_an_error_and_changes_nothing(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, v INT")
    place.write({"id": "1", "v": "1"})
    with pytest.raises(pymysql.IntegrityError), place.connection.transaction():
        writer.insert(place.connection, [{"id": "5", "v": "5"}, {"id": "1", "v": "9"}])
    assert place.rows() == [(1, 1)]


def test_a_table_of_nothing_but_its_key_can_be_updated(place: Place) -> None:
    writer = place.make("a INT, b INT, PRIMARY KEY (a, b)")
    place.write({"a": "1", "b": "2"})
    with place.connection.transaction():
        writer.update(place.connection, [{"a": "1", "b": "2"}])
    assert place.rows() == [(1, 2)]


def test_a_key_named_in_the_config_stands_in_for_a_primary_key(place: Place) -> None:
    writer = place.make("a INT NOT NULL, b INT NOT NULL, v INT, UNIQUE (a), UNIQUE (b)", key=("b",))
    place.write({"a": "1", "b": "2", "v": "3"})
    assert place.present(("2",), ("1",)) == {("2",)}
    with place.connection.transaction():
        writer.update(place.connection, [{"a": "9", "b": "2", "v": "4"}])
    assert place.rows() == [(9, 2, 4)]


def test_generated_columns_and_columns_that_update_themselves_hold_what_the_source_had(place: Place) -> None:
    writer = place.make(
        "id INT PRIMARY KEY, a INT, g INT GENERATED ALWAYS AS (a + 1) STORED,"
        " at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    )
    place.write({"id": "1", "a": "1", "g": "777", "at": "2001-01-01 00:00:00"})
    with place.connection.transaction():
        writer.update(place.connection, [{"id": "1", "a": "5", "g": "0", "at": "2001-01-01 00:00:00"}])
    assert [tuple(map(str, row)) for row in place.rows()] == [("1", "5", "6", "2001-01-01 00:00:00")]


def test_an_auto_increment_key_of_zero_stays_zero(place: Place) -> None:
    place.make("id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    place.write({"id": "0", "v": "1"})
    assert place.rows() == [(0, 1)]


def test_long_batches_go_in_several_statements(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, v LONGTEXT", lookup_keys=7, write_rows=10)
    rows: list[Row] = [{"id": str(number), "v": "x" * (400_000 if number % 5 == 0 else 3)} for number in range(23)]
    place.write(*rows)
    keys: list[Key] = [(str(number),) for number in range(30)]
    assert place.present(*keys) == set(keys[:23])
    with place.connection.transaction():
        writer.update(place.connection, [{**row, "v": "y"} for row in rows])
        assert writer.delete(place.connection, keys[5:]) == 18
    assert place.rows() == [(number, "y") for number in range(5)]


def test_present_locks_the_rows_it_finds(box: Sandbox, place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, v INT")
    place.write({"id": "1", "v": "1"}, {"id": "2", "v": "2"})
    with session(box.targets[0], place.database, session={"innodb_lock_wait_timeout": 1}) as other:
        with place.connection.transaction():
            writer.present(place.connection, [("1",)])
            with pytest.raises(pymysql.OperationalError, match="1205"):
                other.execute(f"UPDATE {writer.name} SET v = 9 WHERE id = 1")
            other.execute(f"UPDATE {writer.name} SET v = 9 WHERE id = 2")
    assert place.rows() == [(1, 1), (2, 9)]


def test_a_write_with_a_warning_is_rolled_back(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, d DECIMAL(4,2)")
    with pytest.raises(StopError, match=r"the server warned: .*1265"), place.connection.transaction():
        writer.insert(place.connection, [{"id": "1", "d": "1.00"}, {"id": "2", "d": "1.005"}])
    assert place.rows() == []


def test_a_row_without_one_of_the_columns_stops(place: Place) -> None:
    writer = place.make("id INT PRIMARY KEY, v INT")
    with pytest.raises(StopError, match="column v is missing in a row image"):
        writer.insert(place.connection, [{"id": "1"}])
