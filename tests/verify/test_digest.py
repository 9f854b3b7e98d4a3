"""Digests of rows: equal on two servers exactly when the rows are, and sums that see swapped values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate.chunks.sessions import Sessions
from migrate.model.chunk import Chunk
from migrate.mysql.connection import Connection, connect
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.target.rows import PlaceWriter
from migrate.verify.digest import row_digest, suspects
from migrate.verify.lookup import differing_columns, look_up
from sandbox.stack import Sandbox
from tests.copy import types
from tests.copy.setup import Laid, alike, lay, one_place, spread
from tests.helpers import server_of, unique

EVERYTHING = Chunk(0, None, None)


@contextmanager
def sessions_of(laid: Laid) -> Iterator[Sessions]:
    sessions = Sessions(laid.settings)
    try:
        yield sessions
    finally:
        sessions.close()


def digests(connection: Connection, name: str, laid: Laid, key: str) -> dict[str, str]:
    rows = connection.query(f"SELECT CAST({key} AS CHAR), {row_digest(laid.table.table)} FROM {name}")
    return {str(row[0]): str(row[1]) for row in rows}


def test_every_value_digests_alike_on_both_servers(box: Sandbox, tmp_path: Path) -> None:
    flavour = box.source.flavour
    laid = lay(box, tmp_path, types.CREATE[flavour], one_place("t"), fill=types.fill(flavour, 300))
    source = connect(server_of(box.source), "source")
    target = laid.connect(0)
    table = laid.table.table
    rows = _read(source, laid)
    PlaceWriter(table, "t").insert(target, rows)
    here, there = digests(source, full_name(laid.source, "t"), laid, "id"), digests(target, "t", laid, "id")
    assert here == there
    with sessions_of(laid) as sessions:
        assert alike(sessions, laid.table)
    assert len(set(here.values())) == len(here) == 307


def _read(source: Connection, laid: Laid) -> list[dict[str, str | None]]:
    from migrate.mysql.values import from_server, selected

    table = laid.table.table
    raw = connect(server_of(laid.box.source), "source", raw_results=True)
    fields = ", ".join(selected(column) for column in table.stored)
    rows = raw.query(f"SELECT {fields} FROM {full_name(laid.source, 't')}")
    raw.close()
    return [{c.name: from_server(c)(value) for c, value in zip(table.stored, row, strict=True)} for row in rows]


PAIRS = {
    "NULL and ''": ("(1, NULL, 'x')", "(1, '', 'x')"),
    "NULL and '-'": ("(1, NULL, 'x')", "(1, '-', 'x')"),
    "'' and '0'": ("(1, '', 'x')", "(1, '0', 'x')"),
    "a border moved": ("(1, 'ab', 'c')", "(1, 'a', 'bc')"),
    "a NULL moved": ("(1, NULL, 'x')", "(1, 'x', NULL)"),
    "lengths in the value": ("(1, '1,1:x', '')", "(1, '1', '1:x')"),
    "case": ("(1, 'a', 'x')", "(1, 'A', 'x')"),
    "trailing space": ("(1, 'a', 'x')", "(1, 'a ', 'x')"),
    "accent": ("(1, 'e', 'x')", "(1, 'é', 'x')"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_rows_that_nearly_look_alike_do_not_digest_alike(box: Sandbox, tmp_path: Path, pair: tuple[str, str]) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b LONGTEXT) COLLATE utf8mb4_general_ci"
    laid = lay(box, tmp_path, create, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES {pair[0]}"])
    target = laid.connect(0)
    target.execute(f"INSERT INTO t VALUES {pair[1]}")
    with sessions_of(laid) as sessions:
        source = sessions.source
        assert not alike(sessions, laid.table)
        found = suspects(source, sessions.targets, [laid.table], EVERYTHING, 10)
        assert list(found.keys) == [("1",)]


def test_two_rows_that_swapped_a_value_are_seen(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
    rows = "(1, 'aaa'), (2, 'bbb'), (3, 'ccc')"
    laid = lay(box, tmp_path, create, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES {rows}"])
    target = laid.connect(0)
    target.execute(f"INSERT INTO t VALUES {rows}")
    with sessions_of(laid) as sessions:
        source = sessions.source
        assert alike(sessions, laid.table)
        target.execute("UPDATE t SET v = IF(id = 1, 'bbb', 'aaa') WHERE id < 3")
        assert not alike(sessions, laid.table)
        found = suspects(source, sessions.targets, [laid.table], EVERYTHING, 10)
        assert set(found.keys) == {("1",), ("2",)}
        target.execute("UPDATE t SET v = 'x'")
        crowded = suspects(source, sessions.targets, [laid.table], EVERYTHING, 2)
        assert (len(crowded.keys), crowded.more) == (2, 1)


def test_only_the_rows_of_the_range_are_compared(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
    laid = lay(
        box, tmp_path, create, spread("id", "t"), fill=["INSERT INTO {t} VALUES (1,'a'),(2,'b'),(9,'c'),(70,'d')"]
    )
    for index, place in enumerate(laid.table.places):
        rows = [f"({key}, '{value}')" for key, value in ((1, "a"), (2, "b"), (9, "c")) if _home(laid, key) == index]
        if rows:
            laid.connect(index).execute(f"INSERT INTO {quote(place.table)} VALUES {', '.join(rows)}")
    with sessions_of(laid) as sessions:
        up_to_nine = Chunk(0, ("0",), ("9",))
        assert alike(sessions, laid.table, up_to_nine)
        assert not alike(sessions, laid.table, Chunk(1, ("9",), None))


def _home(laid: Laid, key: int) -> int:
    return laid.table.rule.route_many([[str(key)]])[0]


def test_a_row_beyond_the_packet_limit_has_a_digest(box: Sandbox, tmp_path: Path) -> None:
    """CONCAT of large values would give NULL, and a sum would pass over it."""
    database = unique("large")
    box.source.execute(f"CREATE DATABASE {database}")
    create = f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB)"
    box.source.execute(create, f"INSERT INTO {database}.t VALUES (1, REPEAT('a', 900000), REPEAT('b', 900000))")
    laid = lay(box, tmp_path, "", one_place("t"), source=database)
    before = box.source.query("SELECT @@max_allowed_packet")[0][0]
    box.source.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        connection = connect(server_of(box.source), "source")
        (digest,) = digests(connection, f"{database}.t", laid, "id").values()
    finally:
        box.source.execute(f"SET GLOBAL max_allowed_packet = {before}", f"DROP DATABASE {database}")
    assert len(digest) == 32


KEYS = {
    "int": ("INT(5) ZEROFILL", "42"),
    "decimal": ("DECIMAL(30,10)", "'12345678901234567890.0000000001'"),
    "double": ("DOUBLE", "0.1e0"),
    "bit": ("BIT(40)", "b'1000000001'"),
    "enum": ("ENUM('b','a')", "'a'"),
    "set": ("SET('x','y')", "'x,y'"),
    "datetime": ("DATETIME(6)", "'2020-02-02 02:02:02.000001'"),
    "timestamp": ("TIMESTAMP(3) DEFAULT '2000-01-01'", "'2020-02-02 02:02:02.123'"),
    "time": ("TIME(2)", "'-10:00:00.01'"),
    "year": ("YEAR", "2020"),
    "varchar": ("VARCHAR(20) COLLATE utf8mb4_general_ci", "'É %s'"),
    "latin1": ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_general_cs", "'é'"),
    "ucs2": ("VARCHAR(20) CHARACTER SET ucs2", "'ü'"),
    "binary": ("BINARY(4)", "x'FF00'"),
    "uuid": ("UUID", "'123e4567-e89b-12d3-a456-426655440000'"),
    "inet6": ("INET6", "'2001:db8::1'"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_any_type_is_told_apart_and_found_on_both_sides(box: Sandbox, tmp_path: Path, name: str) -> None:
    if name in ("uuid", "inet6") and box.source.flavour != "mariadb":
        pytest.skip("a type of MariaDB")
    kind, value = KEYS[name]
    laid = lay(
        box,
        tmp_path,
        f"CREATE TABLE {{t}} (k {kind} NOT NULL PRIMARY KEY, v INT)",
        one_place("t"),
        fill=[f"INSERT INTO {{t}} VALUES ({value}, 1)"],
    )
    target = laid.connect(0)
    (row,) = _read(connect(server_of(box.source), "source"), laid)
    writer = PlaceWriter(laid.table.table, "t")
    writer.insert(target, [row])
    key = writer.key_of(row)
    assert writer.present(target, [key]) == {key}
    with sessions_of(laid) as sessions:
        source = sessions.source
        assert alike(sessions, laid.table)
        target.execute("UPDATE t SET v = 2")
        found = suspects(source, sessions.targets, [laid.table], EVERYTHING, 10)
        assert list(found.keys) == [key]
        seen = look_up(sessions, [laid.table], [key])[key]
        assert seen.source is not None
        assert list(seen.targets) == [0]
        assert differing_columns(sessions, laid.table, key, 0) == ["v"]
        assert writer.delete(target, [key]) == 1


def test_texts_of_columns_in_other_collations_are_compared_by_their_bytes(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_general_ci)"
    rows = "(1, 'a'), (2, 'b '), (3, 'é'), (4, '')"
    laid = lay(box, tmp_path, create, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES {rows}"])
    target = laid.connect(0)
    target.execute("ALTER TABLE t MODIFY v VARCHAR(20) COLLATE utf8mb4_unicode_ci")
    target.execute(f"INSERT INTO t VALUES {rows}")
    with sessions_of(laid) as sessions:
        source = sessions.source
        assert alike(sessions, laid.table)
        for key, equal in ((1, "A"), (2, "b"), (3, "e"), (4, " ")):  # equal by either collation
            target.execute("UPDATE t SET v = %s WHERE id = %s", [equal, key])
        found = suspects(source, sessions.targets, [laid.table], EVERYTHING, 10)
        assert set(found.keys) == {("1",), ("2",), ("3",), ("4",)}
