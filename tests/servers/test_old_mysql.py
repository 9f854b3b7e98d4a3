"""What MySQL before 8.0 has not: by a real 5.6, and where only 5.7 has it by what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql.err import ProgrammingError

from migrate.model.errors import StopError
from migrate.model.table import Column, Kind
from migrate.mysql import unprinted
from migrate.preflight.result import Verdict
from migrate.preflight.schema import tables
from migrate.preflight.server import grants
from migrate.publish.configured_start import StartFinder
from migrate.publish.log.gtid import parse
from migrate.settings import Source
from sandbox.database import DatabaseServer
from sandbox.releases import RELEASES
from tests.helpers import address, plain_table, session
from tests.servers.pair import server

of_5_6 = pytest.mark.skipif(not RELEASES["mysql-5.6"].installed, reason="make servers SERVERS=mysql-5.6")


@pytest.fixture(scope="module")
def old(run_root: Path) -> Iterator[DatabaseServer]:
    made = server("mysql-5.6", run_root / "old-mysql", 71)
    made.start()
    made.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, e ENUM('a','?') NOT NULL)",
        "GRANT SELECT, LOCK TABLES, TRIGGER ON shop.* TO 'few'@'%' IDENTIFIED BY 'Few-secret-1'",
    )
    yield made
    made.kill()


@of_5_6
def test_what_is_missing_to_stop_writes_is_named_in_the_servers_own_words(old: DatabaseServer) -> None:
    needs = grants.of_cutover("mysql", {"shop"}, "read_only")

    account = DatabaseServer(old.flavour, old.root, of="mysql-5.6", port=old.port)
    account.user, account.password = "few", "Few-secret-1"

    def missing(*more: str) -> list[tuple[str, str]]:
        old.execute(*more)
        with session(account) as connection:
            found = [one for one in grants.check(connection, needs, "") if one.verdict is Verdict.PROBLEM]
        return [(one.message.partition(": ")[2], one.mend) for one in found]

    assert missing() == [("grant PROCESS, SUPER is missing", "GRANT PROCESS, SUPER ON *.* TO 'few'@'%'")]
    assert missing("GRANT PROCESS, SUPER ON *.* TO 'few'@'%'") == []


@of_5_6
def test_labels_that_are_printed_as_question_marks_are_refused(old: DatabaseServer) -> None:
    with session(old) as connection:
        ((_, printed),) = connection.query("SHOW CREATE TABLE shop.t")
        with pytest.raises(StopError, match=r"column `e` of `shop`\.`t` as a question mark"):
            unprinted.restored(connection, "shop", "t", printed)
        assert unprinted.restored(connection, "shop", "t", printed.replace("'?'", "'b'")).count("'b'") == 1


@of_5_6
def test_a_gtid_set_is_held_against_all_that_the_server_executed(old: DatabaseServer) -> None:
    """@@gtid_executed of a session is empty there."""
    with session(old) as connection:
        ((executed,),) = connection.query("SELECT @@GLOBAL.gtid_executed")
        source = Source(name="s", **address(old))
        finder = StartFinder(source, 99, connection)
        finder._refuse_unknown(parse(executed, "mysql"))
        with pytest.raises(StopError, match="does not have all of"):
            finder._refuse_unknown(parse(executed.split(":")[0] + ":1-999", "mysql"))


@of_5_6
def test_a_session_states_what_the_server_has_and_no_more(old: DatabaseServer) -> None:
    with session(old) as connection:
        assert set(connection.unset) == {"query_cache_type", "explicit_defaults_for_timestamp"}
        ((mode, isolation, charset),) = connection.query("SELECT @@sql_mode, @@tx_isolation, @@character_set_client")
        assert ("STRICT_ALL_TABLES" in mode, isolation, charset) == (True, "READ-COMMITTED", "utf8mb4")
        with pytest.raises(ProgrammingError):
            connection.query("SELECT 1 FROM performance_schema.metadata_locks")


def test_documents_of_a_server_without_json_table_are_refused_by_column() -> None:
    table = plain_table()
    table = replace(table, columns=(*table.columns, Column("doc", "json", Kind.JSON)))

    def refused(flavour: str, *version: int) -> list[str]:
        connection: Any = SimpleNamespace(flavour=flavour, version=version)
        return tables._unread_documents(connection, table)

    assert refused("mysql", 5, 7, 44) == ["doc"]
    assert refused("mysql", 8, 0, 3) == ["doc"]
    assert refused("mysql", 8, 0, 4) == []
    assert refused("mariadb", 10, 5, 23) == [], "where it is text"
