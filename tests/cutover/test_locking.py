"""The lock on the tables of a side that is left: who keeps it, who is in its way, and for how long it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from migrate.cutover.left_server import LeftServer, OtherSession
from migrate.model.errors import ServerError
from migrate.settings import Source
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.cutover.test_write_block import number_of
from tests.helpers import address, scratch


@pytest.fixture
def database(box: Sandbox) -> Iterator[str]:
    """With a table `t`."""
    with scratch(box.source, "locking") as name:
        box.source.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        yield name


@contextmanager
def reached(at: DatabaseServer, **account: str) -> Iterator[LeftServer]:
    with closing(LeftServer(Source.model_validate({"name": "main", **address(at), **account}), "source")) as made:
        yield made


@contextmanager
def held(at: DatabaseServer, database: str, *statements: str) -> Iterator[tuple[Any, int]]:
    """An application's session that holds the table, and its number."""
    with closing(at.connect(database)) as holder, holder.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        yield holder, number_of(holder)


def nobody(sessions: list[OtherSession]) -> None:
    assert sessions == []


def test_locks_of_a_machine_that_says_nothing_more_are_ended_by_the_server(box: Sandbox, database: str) -> None:
    with reached(box.source) as server:
        server.lock([(database, "t")], 1, 3, nobody)
        with closing(box.source.connect(database)) as writer, writer.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 1")
            with pytest.raises(pymysql.MySQLError, match="Lock wait timeout"):
                cursor.execute("INSERT INTO t VALUES (1)")
            cursor.execute("SET SESSION lock_wait_timeout = 60")
            cursor.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(ServerError):
            server.still_locked()


@pytest.mark.parametrize("statements", [("LOCK TABLES t WRITE",), ("BEGIN", "DELETE FROM t WHERE id = 9")])
def test_who_holds_a_table_and_is_in_no_list_of_transactions_is_ended_where_the_server_shows_it(
    shows_locks: DatabaseServer, statements: tuple[str, ...]
) -> None:
    ended: list[OtherSession] = []
    with scratch(shows_locks, "locking") as database, reached(shows_locks) as server:
        shows_locks.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"CREATE TABLE {database}.u (id INT)")
        with (
            held(shows_locks, database, *statements) as (holder, number),
            held(shows_locks, database, "LOCK TABLES u WRITE") as (other, _),
        ):
            server.lock([(database, "t")], 1, 5, ended.extend)
            assert [session.id for session in ended] == [number]
            with pytest.raises(pymysql.MySQLError):
                holder.cursor().execute("INSERT INTO t VALUES (1)")
            other.cursor().execute("INSERT INTO u VALUES (1)")


def test_who_may_have_a_table_locked_is_named_where_the_server_does_not_show_it(box: Sandbox, database: str) -> None:
    user, mysql = f"{database[-20:]}_svc", box.flavour == "mysql"
    admin, monitor = ("CONNECTION_ADMIN", "REPLICATION CLIENT") if mysql else ("CONNECTION ADMIN", "BINLOG MONITOR")
    box.source.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'Svc-secret-1'",
        f"GRANT PROCESS, {monitor}, {admin} ON *.* TO '{user}'@'%'",
        f"GRANT SELECT, LOCK TABLES ON {database}.* TO '{user}'@'%'",
    )
    try:
        for account in ({}, {"user": user, "password": "Svc-secret-1"}):
            with (
                held(box.source, database, "LOCK TABLES t WRITE") as (holder, number),
                reached(box.source, **account) as server,
            ):
                with pytest.raises(
                    ServerError, match=rf"those that use the databases: .*\(session {number}, "
                ) as refused:
                    server.lock([(database, "t")], 1, 5, nobody)
                holder.cursor().execute("REPLACE INTO t VALUES (1)")  # it was not ended
            mends = "performance_schema.metadata_locks" if mysql else "INSTALL SONAME 'metadata_lock_info'"
            assert mends in refused.value.hint
    finally:
        box.source.execute(f"DROP USER '{user}'@'%'")


@pytest.fixture
def shows_locks(box: Sandbox, run_root: Path) -> Iterator[DatabaseServer]:
    if box.flavour == "mariadb":
        pytest.skip("MySQL only: Debian's MariaDB comes without the plugin that shows it")
    own = DatabaseServer("mysql", run_root / "shows-locks", server_id=33, options={"performance_schema": "ON"})
    own.start()
    try:
        yield own
    finally:
        own.stop()
