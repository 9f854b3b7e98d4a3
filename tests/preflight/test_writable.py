"""Settings of a server that would stop the service's writes: each planted, seen to stop them, and mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pymysql
import pytest

from migrate.mysql.connection import Connection, connect
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.preflight.check import At
from migrate.preflight.known import KnownFacts
from migrate.preflight.registry import CHECKS
from migrate.preflight.result import Result, Verdict
from migrate.preflight.run import Report, run
from migrate.preflight.runner import run_checks
from migrate.preflight.server import clocks, writable
from migrate.settings import Settings, parse
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, globally, raw_settings, scratch, server_of, unique

PASSWORD = "a-password-of-this-test"


class Account:
    """One that may do everything in the state's databases, and nothing by SUPER."""

    def __init__(self, server: DatabaseServer, database: str) -> None:
        self.server, self.database, self.user = server, database, unique("w")
        names = [database, f"{database}_shadow"]
        server.execute(
            f"CREATE USER {self.user}@'%' IDENTIFIED BY '{PASSWORD}'",
            *(f"GRANT ALL ON `{name}`.* TO {self.user}@'%'" for name in names),
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY) ENGINE=InnoDB",
        )

    def session(self) -> Connection:
        return connect(server_of(self.server, user=self.user, password=PASSWORD), "target 't'")

    def stopped(self) -> bool:
        """Whether a write of the service is refused: the oracle."""
        with closing(self.session()) as connection:
            try:
                with connection.transaction():
                    connection.execute(f"INSERT INTO {self.database}.t VALUES (1)")
                    connection.execute(f"DELETE FROM {self.database}.t")
            except pymysql.MySQLError:
                return True
        return False

    def found(self) -> list[Result]:
        with closing(self.session()) as connection:
            return writable.check(connection)

    @property
    def settings(self) -> Settings:
        """It is the state's and the target's account."""
        reached = {**address(self.server), "user": self.user, "password": PASSWORD}
        raw = raw_settings(
            state={**reached, "database": self.database},
            sources=[{"name": "s", **address(self.server)}],
            targets=[{"name": "t", **reached}],
            databases={"ds": {"target": "t", "database": f"{self.database}_shadow"}},
            tables=[{"name": f"{self.database}.t", "sharding": {"nodes": "ds.t"}}],
        )
        return parse(raw, {})

    def report(self) -> Report:
        """Of what init asks for."""
        return run(self.settings)

    def at_state(self) -> list[Result]:
        known = KnownFacts(self.settings)
        run_checks(known, [one for one in CHECKS if one.at is At.STATE])
        return known.results


@pytest.fixture
def account(box: Sandbox) -> Iterator[Account]:
    server = box.targets[1]
    with scratch(server, "writable") as database:
        made = Account(server, database)
        yield made
        server.execute(f"DROP USER {made.user}@'%'")


PLANTED: dict[str, tuple[str | int, str]] = {
    "binlog_format": ("STATEMENT", "binlog_format is STATEMENT"),
    "read_only": (1, "read_only is ON, and the account lacks"),
    "super_read_only": (1, "super_read_only is ON"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_setting_that_stops_writes_is_a_problem_that_the_statement_mends(account: Account, name: str) -> None:
    if not account.server.query(f"SHOW GLOBAL VARIABLES LIKE '{name}'"):
        pytest.skip(f"{account.server.flavour} has no {name}")
    value, told = PLANTED[name]
    assert ([one.verdict for one in account.found()], account.stopped()) == ([Verdict.PASS], False)
    with ExitStack() as put_back:
        if name == "super_read_only":
            put_back.enter_context(globally(account.server, "read_only", 0))
        put_back.enter_context(globally(account.server, name, value))
        assert account.stopped()
        (found,) = account.found()
        assert (found.verdict, told in found.message) == (Verdict.PROBLEM, True), found
        at_state = [one for one in account.at_state() if one.check == "writable"]
        assert [(one.verdict, one.mend) for one in at_state] == [(found.verdict, found.mend)]
        assert found in account.report().problems, "init refuses"
        account.server.execute(found.mend.partition(";")[0])
        assert ([one.verdict for one in account.found()], account.stopped()) == ([Verdict.PASS], False)


def test_a_database_that_is_read_only_is_a_problem_that_the_statement_mends(account: Account) -> None:
    """Lost: time: preflight passed, and init stopped once the state database and the topics were made."""
    if account.server.flavour == "mariadb":
        pytest.skip("MariaDB has no such databases")
    account.server.execute(f"ALTER DATABASE {account.database} READ ONLY = 1")
    assert account.stopped()
    (found,) = [one for one in account.at_state() if one.check == "writable" and one.verdict is Verdict.PROBLEM]
    assert f"database {account.database} is read-only" in found.message
    account.server.execute(found.mend)
    assert not account.stopped()
    assert not [one for one in account.at_state() if one.check == "writable" and one.verdict is Verdict.PROBLEM]


def test_a_server_whose_new_sessions_only_read_is_written_to_as_ours_state_that_they_write(account: Account) -> None:
    name = "tx_read_only" if account.server.flavour == "mariadb" else "transaction_read_only"
    with globally(account.server, name, 1):
        assert ([one.verdict for one in account.found()], account.stopped()) == ([Verdict.PASS], False)


def test_an_account_that_may_write_where_a_cutover_closed_is_no_problem(account: Account) -> None:
    right = WRITES_WHEN_READ_ONLY[account.server.flavour]
    account.server.execute(f"GRANT {right} ON *.* TO {account.user}@'%'")
    with globally(account.server, "read_only", 1):
        at_target = [one for one in account.report().results if one.check == "writable"]
        assert [(one.subject, one.verdict) for one in at_target] == [("target 't'", Verdict.PASS)]
        assert ([one.verdict for one in account.found()], account.stopped()) == ([Verdict.PASS], False)


@pytest.mark.parametrize(("seconds", "verdict"), [(0, Verdict.PASS), (-20, Verdict.NOTE), (7200, Verdict.PROBLEM)])
def test_the_clock_that_lag_is_told_by_is_looked_at(account: Account, seconds: int, verdict: Verdict) -> None:
    with closing(connect(account.settings.state, "state server")) as connection:
        connection.execute("SET timestamp = UNIX_TIMESTAMP(NOW(6)) + %s", [seconds])
        (found,) = clocks.check(connection)
    assert (found.subject, found.verdict) == ("state server", verdict), found.message
    assert [one.verdict for one in account.at_state() if one.check == "clock"] == [Verdict.PASS]
