"""One session: warnings are errors, transactions roll back, statements are logged without values, refusals are told."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial

import pymysql
import pytest
import structlog

from migrate.model.errors import MigrateError, ServerError, StopError
from migrate.mysql import errors
from migrate.mysql.channel import driver_options
from migrate.mysql.connection import Connection, connect, log_statements
from migrate.mysql.errors import explain, explained, passes
from migrate.mysql.quoting import quote, table
from migrate.settings import Server
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import scratch, server_of, session


@pytest.fixture(scope="module")
def database(box: Sandbox) -> Iterator[str]:
    with scratch(box.source, "session") as name:
        box.source.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))",
            "CREATE TABLE d (id INT PRIMARY KEY, v DECIMAL(4,2))",
            database=name,
        )
        yield name


@pytest.fixture
def connection(box: Sandbox, database: str) -> Iterator[Connection]:
    with session(box.source, database) as opened:
        opened.execute("DELETE FROM t")
        yield opened


def in_transaction(connection: Connection, *steps: str | Callable[[], object]) -> None:
    with connection.transaction():
        for step in steps:
            if isinstance(step, str):
                connection.execute(step)
            else:
                step()


def test_a_session_is_utc_strict_read_committed_and_without_local_infile(box: Sandbox, connection: Connection) -> None:
    isolation = "@@tx_isolation" if box.flavour is Flavour.MARIADB else "@@transaction_isolation"
    row = connection.one(f"SELECT @@session.time_zone, {isolation}, @@session.sql_mode, @@character_set_client")
    assert row is not None
    assert row[:2] == ("+00:00", "READ-COMMITTED")
    assert {"STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO", "ALLOW_INVALID_DATES"} <= set(row[2].split(","))
    assert "NO_ZERO_DATE" not in row[2]
    assert row[3] == "utf8mb4"
    assert connection.flavour == str(box.flavour)
    with pytest.raises(pymysql.MySQLError):
        connection.execute("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t")


def test_raw_results_are_the_columns_own_bytes(box: Sandbox, connection: Connection, database: str) -> None:
    connection.execute("CREATE TABLE raw (a VARCHAR(9) CHARACTER SET latin1, b INT, c BLOB)")
    connection.execute("INSERT INTO raw VALUES ('é', 7, x'00ff')")
    with session(box.source, database, raw_results=True) as reader:
        assert list(reader.stream("SELECT a, b, c, NULL FROM raw")) == [(b"\xe9", b"7", b"\x00\xff", None)]


def test_a_warning_rolls_the_transaction_back(connection: Connection) -> None:
    with pytest.raises(StopError, match=r"the server warned: .*1265"):
        in_transaction(connection, "INSERT INTO d VALUES (1, 1.00)", "INSERT INTO d VALUES (2, 1.005)")
    assert connection.query("SELECT * FROM d") == []


def test_a_duplicate_that_ignore_hides_is_an_error(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(StopError, match="1062"):
        in_transaction(connection, "INSERT IGNORE INTO t VALUES (2, 'b'), (1, 'c')")
    assert connection.query("SELECT * FROM t") == [(1, "a")]


def test_no_words_of_a_server_that_may_quote_a_row_are_shown(connection: Connection) -> None:
    """Lost to who reads the log: values of rows, which servers quote."""
    connection.execute("CREATE TABLE q (id INT PRIMARY KEY, u VARCHAR(9), n INT, UNIQUE KEY of_u (u))")
    connection.execute("INSERT INTO q VALUES (1, 'canary', 1)")
    connection.execute(
        "CREATE TABLE parted (k VARCHAR(9) PRIMARY KEY) PARTITION BY LIST COLUMNS (k) (PARTITION p VALUES IN ('a'))"
    )
    connection.execute("CREATE TABLE numbered (k INT PRIMARY KEY) PARTITION BY LIST (k) (PARTITION p VALUES IN (1))")
    for statement, told in (
        ("INSERT INTO parted VALUES ('canary')", "error 1526 "),
        ("INSERT INTO numbered VALUES (8154711)", "error 1526 "),
        ("SELECT DATE 'canary'", "error 1525 "),
        ("SELECT CAST(1 AS SIGNED) - 8154711 - POW(10, 400)", "error 1690 "),
        ("INSERT INTO q VALUES (2, 'canary', 1)", "error 1062 (duplicate entry) for key '"),
        ("INSERT INTO q VALUES (3, 'x', 'canary')", "error 1366 (truncated wrong value for field) for column "),
        ("UPDATE q SET n = 'canary' + 1", "error 1292 (truncated wrong value)"),
        ("SELECT 'canary' FROM", "error 1064 (parse error)"),
        ("INSERT INTO q VALUES (3, 'longer than it may be', 1)", "Data too long for column 'u' at row 1 (error 1406)"),
    ):
        with pytest.raises((pymysql.MySQLError, StopError)) as caught:
            connection.execute(statement)
        said = errors.text(caught.value)
        assert said.startswith(told), said
        assert "canary" not in said, said
        assert "8154711" not in said, said


def test_more_warnings_than_a_client_usually_sees_are_all_judged(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'a')")
    rows = ", ".join(["(1, 'a')"] * 2000)
    with pytest.raises(StopError, match="1062"):
        connection.execute(f"INSERT IGNORE INTO t VALUES {rows}")


def test_deprecated_definitions_are_no_reason_to_stop(connection: Connection) -> None:
    connection.execute(
        "CREATE TABLE old (a INT(5) ZEROFILL, b FLOAT(7,3),"
        " c VARCHAR(5) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci,"
        " d VARCHAR(5) CHARACTER SET ucs2, e DOUBLE(10,2) UNSIGNED)"
    )
    connection.execute("DROP TABLE old")


def test_a_transaction_that_fails_leaves_nothing_and_the_session_is_usable(connection: Connection) -> None:
    with pytest.raises(pymysql.ProgrammingError):
        in_transaction(connection, "INSERT INTO t VALUES (1, 'a')", "INSERT INTO nowhere VALUES (1)")
    in_transaction(connection, "INSERT INTO t VALUES (2, 'b')")
    assert connection.query("SELECT id FROM t") == [(2,)]


@pytest.mark.parametrize("last", ["INSERT INTO t VALUES (2, 'b')", None], ids=["statement", "commit"])
def test_a_session_killed_inside_a_transaction_surfaces(
    box: Sandbox, connection: Connection, database: str, last: str | None
) -> None:
    row = connection.one("SELECT CONNECTION_ID()")
    assert row is not None
    kill = partial(box.source.execute, f"KILL {row[0]}")
    with pytest.raises(pymysql.MySQLError) as caught:
        in_transaction(connection, "INSERT INTO t VALUES (1, 'a')", kill, *([last] if last else []))
    assert passes(caught.value)
    assert box.source.query(f"SELECT COUNT(*) FROM {database}.t") == ((0,),)


def test_rows_found_are_counted_also_where_nothing_changed(connection: Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'a')")
    assert connection.execute("UPDATE t SET v = 'a'") == 1


def test_statements_are_logged_without_their_values(connection: Connection) -> None:
    log_statements(True)
    try:
        with structlog.testing.capture_logs() as logs:
            connection.execute("INSERT INTO t VALUES (%s, %s)", (5, "canary value"))
            connection.query("SELECT v\n  FROM t WHERE v = %s", ("canary value",))
            connection.write("INSERT INTO t VALUES", "(6, 'canary %s value')", " ON DUPLICATE KEY UPDATE v = '%%'")
    finally:
        log_statements(False)
    assert [entry["statement"] for entry in logs] == [
        "INSERT INTO t VALUES (%s, %s)",
        "SELECT v FROM t WHERE v = %s",
        "INSERT INTO t VALUES … ON DUPLICATE KEY UPDATE v = '%%'",
    ]
    assert connection.query("SELECT v FROM t WHERE id = 6") == [("canary %s value",)]
    assert "canary" not in str(logs)
    with structlog.testing.capture_logs() as logs:
        connection.query("SELECT 1")
    assert logs == []


def test_percent_signs_in_statements_are_doubled_always(connection: Connection) -> None:
    assert connection.query("SELECT 'a%%b'") == [("a%b",)]
    assert connection.query("SELECT 'a%%b', %s", ("%s%%",)) == [("a%b", "%s%%")]


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("plain", "`plain`"), ("a`b", "`a``b`"), ("50%", "`50%%`"), ("`", "````"), ("", "``"), ("é😀", "`é😀`")],
)
def test_identifiers_are_quoted(name: str, quoted: str) -> None:
    assert quote(name) == quoted
    assert table(name, "t") == f"{quoted}.`t`"


# -- refusals


def closed_port() -> int:
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def refusal(server: Server, database: str | None = None) -> MigrateError:
    with pytest.raises(ServerError) as caught:
        connect(server, "source 'main'", database=database)
    assert server.password.get_secret_value() not in str(caught.value)
    return caught.value


def test_a_closed_port_is_told(box: Sandbox) -> None:
    port = closed_port()
    told = refusal(server_of(box.source, port=port))
    assert told.message.startswith(f"source 'main' at 127.0.0.1:{port}: the server does not answer: ")
    assert told.hint == "check that it is running, and that host and port are right"


def test_a_host_name_that_does_not_resolve_is_told(box: Sandbox) -> None:
    told = refusal(server_of(box.source, host="no-such-host.invalid"))
    assert "source 'main' at no-such-host.invalid:" in told.message
    assert "the server does not answer" in told.message


def test_a_wrong_password_is_told(box: Sandbox) -> None:
    told = refusal(server_of(box.source, password="canary-pw"))
    assert "wrong user or password" in told.message
    assert told.hint == "check user and password in the config"


def test_a_missing_database_is_told(box: Sandbox) -> None:
    told = refusal(server_of(box.source), "no_such_database")
    assert "Unknown database 'no_such_database'" in told.message
    assert told.hint == "create the database, or fix its name in the config"


def test_a_server_that_accepts_and_says_nothing_is_told(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        told = refusal(server_of(box.source, port=port, connect_timeout=1.0))
    assert "the server does not answer" in told.message


def test_tls_that_the_server_cannot_prove_is_refused_not_dropped(box: Sandbox) -> None:
    told = refusal(server_of(box.source, tls={"mode": "verify"}))
    assert told.message.startswith(f"source 'main' at 127.0.0.1:{box.source.port}: ")


def test_driver_options_never_allow_local_files_and_say_what_tls_does(box: Sandbox) -> None:
    options = driver_options(server_of(box.source))
    assert options["local_infile"] is False
    assert options["ssl_disabled"] is True
    options = driver_options(server_of(box.source, tls={"mode": "verify"}))
    assert options["ssl_disabled"] is False
    assert (options["ssl"].check_hostname, options["ssl"].verify_mode.name) == (True, "CERT_REQUIRED")


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (pymysql.OperationalError(1205, "Lock wait timeout exceeded"), True),
        (pymysql.OperationalError(1213, "Deadlock found"), True),
        (pymysql.OperationalError(1290, "read-only"), True),
        (pymysql.OperationalError(2006, "gone away"), True),
        (pymysql.OperationalError(2013, "Lost connection"), True),
        (pymysql.InterfaceError(0, ""), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (pymysql.IntegrityError(1062, "Duplicate entry"), False),
        (pymysql.DataError(1406, "Data too long"), False),
        (pymysql.ProgrammingError(1146, "no such table"), False),
        (pymysql.OperationalError(1045, "Access denied"), False),
        (ValueError(), False),
    ],
)
def test_which_errors_can_pass_by_themselves(error: Exception, passing: bool) -> None:
    assert passes(error) is passing


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (1045, "wrong user or password", "check user and password"),
        (1698, "wrong user or password", "check user and password"),
        (1142, "a grant is missing", "docs/grants.md"),
        (1227, "a grant is missing", "docs/grants.md"),
        (1049, "words of the server", "create the database"),
        (2003, "the server does not answer", "check that it is running"),
        (1366, "error 1366 (truncated wrong value for field)", "change at the server, in the table or in the config"),
        (1146, "words of the server", "change at the server, in the table or in the config what the server names"),
        (1290, "words of the server", "check that the server answers, and try again"),
    ],
)
def test_errors_are_explained(code: int, message: str, hint: str) -> None:
    """Lost: the way out, where a server refused a statement: the line ended with what the server said."""
    told = explain(pymysql.OperationalError(code, "words of the server"), "target 't'")
    assert told.message.startswith("target 't': ")
    assert message in told.message
    assert code == 1366 or f"words of the server (error {code})" in told.message
    assert told.hint.startswith(hint)


def test_an_error_inside_a_block_is_explained_and_others_pass_through() -> None:
    with pytest.raises(ServerError, match=r"place x: error 1366 \("), explained("place x"):
        raise pymysql.OperationalError(1366, "words")
    with pytest.raises(KeyError), explained("place x"):
        raise KeyError("x")
    assert errors.number(KeyError("x")) == 0
