"""`LOAD DATA LOCAL`: our bytes arrive, and no file of this machine ever leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from migrate.model.errors import StopError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import LOAD_FORBIDDEN, number
from migrate.mysql.local_load import FILE, LoadCounts, load
from sandbox.stack import Sandbox
from tests.helpers import session, unique
from tests.mysql.hostile import Hostile

QUIT = b"\x01"
STATEMENT = rf"LOAD DATA LOCAL INFILE '{FILE}' INTO TABLE t FIELDS TERMINATED BY '\t' LINES TERMINATED BY '\n'"


@pytest.fixture
def database(box: Sandbox) -> Iterator[str]:
    name = unique("load")
    box.source.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v LONGTEXT)")
    yield name
    box.source.execute(f"DROP DATABASE {name}")


@pytest.fixture
def connection(box: Sandbox, database: str) -> Iterator[Connection]:
    with session(box.source, database, loads=True) as opened:
        yield opened


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("1\tsecret\n")
    return file


def test_blocks_arrive_as_the_rows_of_one_file(connection: Connection) -> None:
    assert load(connection, STATEMENT, [b"1\ta\n2", b"", b"\tb\n", b"3\tc\n"]) == LoadCounts(3, 0)
    assert connection.query("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_row_beyond_a_packets_size_arrives(connection: Connection) -> None:
    block = b"x" * (12 * 1024 * 1024)
    assert load(connection, STATEMENT, [b"1\t", block, block, b"\n"]) == LoadCounts(1, 0)
    assert connection.query("SELECT LENGTH(v), v = REPEAT('x', 25165824) FROM t") == [(2 * len(block), 1)]


def test_a_row_that_is_there_already_warns_and_stays(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'before')")
    assert load(connection, STATEMENT, [b"1\ta\n2\tb\n"]) == LoadCounts(1, 1)
    assert connection.query("SELECT * FROM t ORDER BY id") == [(1, "before"), (2, "b")]


def test_a_refused_load_leaves_the_session_usable(connection: Connection) -> None:
    with pytest.raises(pymysql.MySQLError):
        load(connection, STATEMENT.replace("TABLE t ", "TABLE absent "), [b"1\ta\n"])
    assert connection.query("SELECT 1") == [(1,)]


def test_a_server_that_forbids_it_says_so_by_a_number_that_is_known(box: Sandbox, connection: Connection) -> None:
    box.source.execute("SET GLOBAL local_infile = 0")
    try:
        with pytest.raises(pymysql.MySQLError) as refused:
            load(connection, STATEMENT, [b"1\ta\n"])
    finally:
        box.source.execute("SET GLOBAL local_infile = 1")
    assert number(refused.value) in LOAD_FORBIDDEN
    assert connection.query("SELECT * FROM t") == []


def test_the_server_gets_our_rows_and_not_the_file_it_asks_for(box: Sandbox, database: str, secret: Path) -> None:
    with Hostile(box.source, "LOAD DATA", str(secret)) as hostile:
        with session(box.source, database, loads=True, port=hostile.port) as connection:
            with pytest.raises(StopError, match=r"asked for the file .*secret"):
                load(connection, STATEMENT, [b"1\ta\n"])
            assert not connection.open
    assert hostile.given in ([], [QUIT])


@pytest.mark.parametrize("loads", [True, False])
def test_any_other_statement_gives_no_file_either(box: Sandbox, database: str, secret: Path, loads: bool) -> None:
    with Hostile(box.source, "SELECT 42", str(secret)) as hostile:
        with session(box.source, database, loads=loads, port=hostile.port) as connection:
            with pytest.raises(StopError, match="asked for a file"):
                connection.query("SELECT 42")
    assert hostile.given in ([], [QUIT])


def test_the_file_would_be_seen_if_it_left(box: Sandbox, database: str, secret: Path) -> None:
    """The trap itself: a client that serves files, as the driver does where `local_infile` is on."""
    with Hostile(box.source, "SELECT 42", str(secret)) as hostile:
        raw = pymysql.connect(
            host="127.0.0.1",
            port=hostile.port,
            user=box.source.user,
            password=box.source.password,
            local_infile=True,
            ssl_disabled=True,
        )
        with raw.cursor() as cursor, pytest.raises(pymysql.MySQLError):
            cursor.execute("SELECT 42")
    assert hostile.given is not None
    assert b"secret" in b"".join(hostile.given)
