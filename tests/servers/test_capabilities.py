"""What the manuals say of versions, asked of every server that is there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from migrate.chunks.sessions import _kind
from migrate.mysql import capabilities
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import version_of
from sandbox.releases import RELEASES, USUAL
from tests.helpers import session
from tests.servers.pair import flavour_of, installed, server

SERVERS = [name for name in (*USUAL, *RELEASES) if installed(name)]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_can_what_the_manual_says_of_its_version(name: str, run_root: Path) -> None:
    made = server(name, run_root / f"can-{name}", 61)
    made.start()
    try:
        with closing(made.connect()) as raw, raw.cursor() as cursor, session(made) as connection:
            expected, found = {}, {}
            for one in Capability:
                if one.value.probe:
                    expected[one.name] = can(connection, one)
                    try:
                        cursor.execute(one.value.probe)
                        cursor.fetchall()
                        found[one.name] = True
                    except pymysql.MySQLError:
                        found[one.name] = False
            assert found == expected
            for statement in (capabilities.log_status(connection), capabilities.replica_status(connection)):
                cursor.execute(statement)
            cursor.execute(f"SELECT @@{capabilities.logs_replicated(connection)}")
            cursor.execute(f"SELECT COUNT(*) FROM information_schema.{capabilities.innodb_foreign(connection)}")
            cursor.execute(f"SELECT User FROM mysql.user LIMIT 1 {capabilities.read_lock(connection)}")
    finally:
        made.kill()
    assert len(expected) >= 10


@pytest.mark.parametrize(
    ("version", "log", "replica", "variable"),
    [
        ("5.7.44-log", "SHOW MASTER STATUS", "SHOW SLAVE STATUS", "log_slave_updates"),
        ("8.0.21", "SHOW MASTER STATUS", "SHOW SLAVE STATUS", "log_slave_updates"),
        ("8.0.36", "SHOW MASTER STATUS", "SHOW REPLICA STATUS", "log_replica_updates"),
        ("8.4.2", "SHOW BINARY LOG STATUS", "SHOW REPLICA STATUS", "log_replica_updates"),
        ("5.5.5-10.6.18-MariaDB", "SHOW MASTER STATUS", "SHOW ALL SLAVES STATUS", "log_slave_updates"),
    ],
)
def test_statements_of_the_versions_that_cannot_be_had_are_those_of_the_manual(
    version: str, log: str, replica: str, variable: str
) -> None:
    flavour = "mariadb" if "MariaDB" in version else "mysql"
    asked: Any = SimpleNamespace(flavour=flavour, version=version_of(version))
    assert capabilities.log_status(asked) == log
    assert capabilities.replica_status(asked) == replica
    assert capabilities.logs_replicated(asked) == variable


def test_every_capability_names_a_page_of_a_manual() -> None:
    for one in Capability:
        assert one.value.page.startswith(("https://dev.mysql.com/doc/", "https://mariadb.com/kb/en/")), one.name
        assert one.value.mysql or one.value.mariadb
    assert all(flavour_of(name) in USUAL for name in SERVERS)


@pytest.mark.parametrize(
    ("flavour", "version", "kind"),
    [
        ("mysql", (5, 6, 24), "mysql 5"),
        ("mysql", (9, 7, 4), "mysql"),
        ("mariadb", (10, 5, 23), "mariadb 10.5.23"),
        ("mariadb", (10, 11, 6), "mariadb 10.11.6"),
    ],
)
def test_servers_that_keep_other_numbers_are_compared_as_other_flavours(
    flavour: str, version: tuple[int, ...], kind: str
) -> None:
    asked: Any = SimpleNamespace(flavour=flavour, version=version, before_mysql_8=version[0] == 5)
    assert _kind(asked) == kind
