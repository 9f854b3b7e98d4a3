"""What a session depends on is stated: whatever a server's globals are, sessions of the service are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from pydantic import SecretStr

from migrate.mysql.connection import Connection
from migrate.mysql.session import settings_of
from migrate.mysql.session_settings import LEFT, MARIADB, MYSQL, STATED
from migrate.preflight.result import Verdict
from migrate.preflight.server import session as preflight
from migrate.settings import Server, State
from migrate.state import database
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, globally, scratch, session
from tests.turned import LEFT_TURNED, WITHOUT_GLOBAL, left_at, turned, turned_at, unjudged

_TIME = "timestamp"
"""Where it is not set, the moment that it is."""


def values_of(connection: Connection) -> dict[str, str]:
    rows = connection.query("SHOW SESSION VARIABLES")
    found = {str(name).lower(): str(value) for name, value in rows}
    return {name: found[name] for name in settings_of(connection.greeting) if name in found and name != _TIME}


def globals_of(connection: Connection) -> dict[str, str]:
    moving = ("timestamp", "gtid_binlog", "gtid_current", "gtid_slave", "gtid_executed", "innodb_buffer_pool")
    rows = connection.query("SHOW GLOBAL VARIABLES")
    return {str(name).lower(): str(value) for name, value in rows if not str(name).startswith(moving)}


def test_every_variable_of_a_session_is_stated_or_left_for_a_reason(box: Sandbox) -> None:
    assert not {one.name for one in STATED} & LEFT.keys()
    assert unjudged(box.source) == []


def test_the_turned_values_are_those_of_all_that_is_stated(box: Sandbox) -> None:
    with session(box.source) as connection:
        assert set(values_of(connection)) - WITHOUT_GLOBAL == set(turned_at(box.source))


def test_what_is_left_is_turned_as_well(box: Sandbox) -> None:
    """For the flow on such servers (tests/flow/test_turned_globals.py): that the reasons in LEFT hold."""
    names = left_at(box.source)
    assert sorted(names - LEFT_TURNED.keys()) == []
    with session(box.source) as connection:
        before = globals_of(connection)
        with turned(box.source, left=True):
            now = globals_of(connection)
        assert sorted(name for name in names if now[name] == before[name]) == []
        assert globals_of(connection) == before


def test_sessions_are_the_same_whatever_the_globals_are(box: Sandbox) -> None:
    with session(box.source) as connection:
        before = values_of(connection)
    with turned(box.source):
        other = box.source.connect()
        with closing(other), other.cursor() as cursor:
            cursor.execute("SET sql_select_limit = DEFAULT, max_join_size = DEFAULT")
        with session(box.source) as connection:  # what the server has is known
            assert values_of(connection) == before
            assert connection.unset == {}
        with session(box.source, port=relearned(box.source)) as connection:
            assert values_of(connection) == before


def relearned(server: DatabaseServer) -> int:
    """The server's port, when nothing is known of the server any more."""
    from migrate.mysql.session import _known

    _known.clear()
    return server.port


@pytest.fixture
def plain(box: Sandbox) -> Iterator[dict[str, str]]:
    """An account that may not set every variable, with a password of its own."""
    account = "'plain'@'127.0.0.1'"
    box.source.execute(f"DROP USER IF EXISTS {account}", f"CREATE USER {account} IDENTIFIED BY 'of-plain'")
    yield {"user": "plain", "password": "of-plain"}
    box.source.execute(f"DROP USER {account}")


def of(server: DatabaseServer, plain: dict[str, str]) -> Server:
    found = address(server, **plain)
    return Server(**{**found, "password": SecretStr(found["password"])})


def test_what_an_account_may_not_set_is_judged_before_the_start(box: Sandbox, plain: dict[str, str]) -> None:
    from migrate.mysql.connection import connect

    name, wanted = {
        MYSQL: ("sql_generate_invisible_primary_key", Verdict.NOTE),
        MARIADB: ("enforce_storage_engine", Verdict.PROBLEM),
    }[str(box.flavour)]
    with closing(connect(of(box.source, plain), "target 't'")) as connection:
        assert connection.unset[name] == 1227
        assert [one.verdict for one in preflight.check(connection, makes=True)] == [Verdict.PASS]
    with globally(box.source, name, 1 if wanted is Verdict.NOTE else "MyISAM"):
        with closing(connect(of(box.source, plain), "target 't'")) as connection:
            (found,) = preflight.check(connection, makes=True)
            assert (found.verdict, name in found.message, "1227" in found.message) == (wanted, True, True)
            assert found.mend.startswith(f"SET GLOBAL {name} = ")
            assert [one.verdict for one in preflight.check(connection, makes=False)] == [Verdict.PASS]
        with session(box.source) as connection:
            assert [one.verdict for one in preflight.check(connection, makes=True)] == [Verdict.PASS]


def test_time_goes_on_where_a_server_lets_sessions_begin_at_another_moment(box: Sandbox, plain: dict[str, str]) -> None:
    """Every NOW of the state was frozen: no lease ran out, and nothing grew old."""
    from migrate.mysql.connection import connect

    with globally(box.source, "init_connect", "SET timestamp = 1000000000"):
        user, password = plain["user"], plain["password"]
        raw = pymysql.connect(host=box.source.host, port=box.source.port, user=user, password=password)
        with closing(raw), raw.cursor() as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP()")
            assert cursor.fetchall() == ((1000000000,),)
        with closing(connect(of(box.source, plain), "state server")) as connection:
            ((first,),) = connection.query("SELECT NOW(6)")
            ((second,),) = connection.query("SELECT NOW(6)")
            ((begun,),) = box.source.query("SELECT NOW(6) - INTERVAL 1 DAY")
    assert begun < first < second


def test_a_server_whose_time_nobody_may_set_is_taken(run_root: Path) -> None:
    """MariaDB's --secure-timestamp=YES refuses `SET timestamp` with 1290, by which a server counts as read-only for a
    while; as DEFAULT it is let through. Costs 2 s."""
    from migrate.mysql.connection import connect

    server = DatabaseServer(MARIADB, run_root / "secure-timestamp", server_id=34, options={"secure_timestamp": "YES"})
    server.start()
    try:
        with pytest.raises(pymysql.MySQLError, match=r"1290.*secure-timestamp"):
            server.execute("SET SESSION timestamp = 1000000000")
        grants = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES"
        server.execute(
            "CREATE USER 'plain'@'%' IDENTIFIED BY 'of-plain'",
            "CREATE DATABASE d",
            f"GRANT {grants} ON d.* TO 'plain'@'%'",
            "CREATE TABLE d.t (at TIMESTAMP(6) NOT NULL)",
        )
        at = "2020-02-29 01:02:03.456789"
        for account in ({}, {"user": "plain", "password": "of-plain"}):
            with closing(connect(of(server, account), "target 't'", database="d")) as connection:
                assert "timestamp" not in connection.unset
                assert [one.verdict for one in preflight.check(connection, makes=True)] == [Verdict.PASS]
                connection.execute("INSERT INTO t VALUES (%s)", [at])
                assert [str(row[0]) for row in connection.query("SELECT at FROM t")] == [at]
                connection.execute("DELETE FROM t WHERE at = %s", [at])
                ((begun,),) = connection.query("SELECT NOW(6)")
                ((later,),) = connection.query("SELECT NOW(6)")
                assert begun < later
    finally:
        server.kill()


def test_state_sessions_state_the_same_but_for_transactions(box: Sandbox) -> None:
    with session(box.source) as connection:
        expected = values_of(connection)
    with scratch(box.source, "state") as name, turned(box.source):
        engine = database.engine(State(**address(box.source), database=name))
        with engine.connect() as connected:
            rows = connected.exec_driver_sql("SHOW SESSION VARIABLES")
            found = {str(row[0]).lower(): str(row[1]) for row in rows}
        engine.dispose()
        differing = {one for one in expected if found[one] != expected[one]}
    assert differing == {"autocommit", "wait_timeout"}
