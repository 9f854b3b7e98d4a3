"""Accounts as providers of managed servers give them: no SUPER, no read_only, KILL by a procedure or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pymysql
import pytest

from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError, ServerError
from migrate.mysql.connection import Connection, connect
from migrate.mysql.readable import visible_position
from migrate.preflight.result import Verdict
from migrate.preflight.server import grants
from tests.cutover.test_account_grants import application, may_write
from tests.cutover.test_write_block import Case
from tests.cutover.test_write_block import case as case
from tests.helpers import unique
from tests.waiting import TRANSACTIONS_SHOWN, until

_ADMINISTRATORS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, RELOAD, PROCESS, REFERENCES, INDEX, ALTER, LOCK TABLES, EXECUTE,"
    " TRIGGER, CREATE TEMPORARY TABLES, REPLICATION SLAVE, REPLICATION CLIENT, CREATE VIEW, SHOW VIEW, CREATE ROUTINE,"
    " ALTER ROUTINE, CREATE USER, EVENT"
)
"""Alike of Amazon RDS ("Master user account privileges"), Azure ("Create users"), PolarDB ("Account permissions")."""
PASSWORD = "Of-The-Test-4711"
PROVIDERS = {"rds": "rds_kill", "azure": "az_kill", "polardb": ""}
CLOSES = {"mariadb": "READ ONLY ADMIN", "mysql": "SYSTEM_VARIABLES_ADMIN"}
ENDS = {"mariadb": "CONNECTION ADMIN", "mysql": "CONNECTION_ADMIN"}


class Managed(NamedTuple):
    """The config's account at both servers is the provider's administrator."""

    case: Case
    user: str
    procedure: str

    def server(self) -> LeftServer:
        return LeftServer(self.case.settings().sources[0], "source")

    def session(self) -> Connection:
        return connect(self.case.settings().sources[0], "source 'a'")


@pytest.fixture(params=PROVIDERS)
def managed(request: pytest.FixtureRequest, case: Case) -> Iterator[Managed]:
    """The config's account at both servers is the provider's administrator."""
    procedure, user = PROVIDERS[request.param], unique("admin")[-30:]
    for server in case.servers.values():
        server.execute(
            f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT {_ADMINISTRATORS} ON *.* TO {user}@'%' WITH GRANT OPTION",
        )
        if procedure:
            server.execute(f"CREATE PROCEDURE mysql.{procedure} (IN session BIGINT) SQL SECURITY DEFINER KILL session")
    case.account = {"user": user, "password": PASSWORD}
    try:
        yield Managed(case, user, procedure)
    finally:
        for server in case.servers.values():
            server.execute(
                f"DROP USER IF EXISTS {user}@'%', {user}_2@'%'",
                f"DROP PROCEDURE IF EXISTS mysql.{procedure or 'rds_kill'}",
            )


def test_sessions_are_ended_by_the_procedure_that_there_is(managed: Managed) -> None:
    """Lost: a cutover that cannot end a transaction which holds its tables."""
    at = managed.case.servers["a"]
    user = f"{managed.user}_2"  # an application's: MySQL protects accounts with SYSTEM_USER
    at.execute(
        f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'", f"GRANT ALL ON {managed.case.database}.* TO {user}@'%'"
    )
    session = pymysql.connect(host=at.host, port=at.port, user=user, password=PASSWORD)
    with closing(session) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {managed.case.database}.t VALUES (1)")
        with closing(managed.server()) as server:
            (found,) = until(server.writers, "the transaction to be seen", between=TRANSACTIONS_SHOWN)
            if not managed.procedure:
                with pytest.raises(ServerError):
                    server.end([found])
                cursor.execute("ROLLBACK")
                return
            server.end([found])
            until(lambda: not server.writers(), "the transaction to end", between=TRANSACTIONS_SHOWN)
            server.end([found])  # it is gone: that does not matter
            with pytest.raises(pymysql.MySQLError):
                cursor.execute("COMMIT")


def test_read_only_is_refused_with_the_ways_that_are_open(managed: Managed) -> None:
    case = managed.case
    with pytest.raises(PreflightError, match=f"{CLOSES[case.box.flavour]} is missing") as refused:
        case.blocks().probe()
    assert refused.value.hint.endswith("; " + grants.OTHER_STOPS)
    assert grants.OTHER_STOPS.endswith("cutover.stop: revoke, application or hook")


def test_preflight_says_what_is_open_and_how_sessions_are_ended(managed: Managed) -> None:
    """Every way that is named open passes."""
    ends = ENDS[managed.case.box.flavour]
    with closing(managed.session()) as session:
        closes, ending = grants.check_ways(session, "read_only")
        assert (closes.verdict, closes.mend) == (Verdict.NOTE, grants.OTHER_STOPS)
        says = f"by mysql.{managed.procedure}, as the account lacks {ends}" if managed.procedure else f"without {ends}"
        assert (ending.verdict, says in ending.message) == (Verdict.NOTE, True)
        assert grants.check_ways(session, "revoke") == [ending]
        open_ = {
            stop: [
                one.message
                for one in grants.check(session, grants.cutover_at(session, [managed.case.database], stop), "open")
                if one.verdict is not Verdict.PASS
            ]
            for stop in ("revoke", "application", "hook")
        }
    assert (open_["application"], open_["hook"]) == ([], [])
    assert len(open_["revoke"]) == (0 if managed.procedure else 1)


def test_writes_are_revoked_and_given_back(managed: Managed) -> None:
    if not managed.procedure:
        pytest.skip("its sessions could not be ended")
    case = managed.case
    with application(case, wait_seconds=1) as user, closing(case.servers["a"].connect()):
        case.blocks().probe()
        case.stop()
        assert may_write(case, user) == [False, False]
        case.give_back()
        assert may_write(case, user) == [True, True]


def test_the_first_position_is_taken_without_a_global_lock(managed: Managed) -> None:
    """While another session writes, and the account could not lock the server."""
    case = managed.case
    flushes = "SHOW GLOBAL STATUS LIKE 'Com_flush'"
    server = case.servers["a"]
    before = server.query(flushes)
    server.execute("CREATE TABLE other (id INT PRIMARY KEY)", database=case.database)
    with closing(server.connect()) as other, other.cursor() as cursor, closing(managed.session()) as session:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {case.database}.other VALUES (1)")
        assert visible_position(session, [(case.database, "t")], threading.Event()).pos > 0
    assert server.query(flushes) == before
