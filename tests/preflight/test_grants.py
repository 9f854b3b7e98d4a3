"""The documented grants pass; each that is taken away is named with the statement that gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.mysql.connection import Connection, connect
from migrate.preflight import grants
from migrate.preflight.result import Result, Verdict
from migrate.settings import parse
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.flow.test_grants import PASSWORD, statements
from tests.helpers import address, raw_settings, unique


class Account:
    """An account at one server, as a section of docs/grants.md has it."""

    def __init__(self, server: DatabaseServer, section: str, name: str) -> None:
        self.server, self.name = server, name
        self.user = f"{name}_{section.lower().rstrip('s')}"
        server.execute(*statements(section, server.flavour, name))

    def session(self) -> Connection:
        reached = {"name": "x", **address(self.server), "user": self.user, "password": PASSWORD}
        return connect(parse(raw_settings(sources=[reached]), {}).sources[0], "target 'x'")

    def lacks(self, database: str, *wanted: str) -> list[Result]:
        with closing(self.session()) as connection:
            return [
                one for one in grants.check_databases(connection, {database: wanted}) if one.verdict is not Verdict.PASS
            ]


@pytest.fixture
def target(box: Sandbox) -> Iterator[Account]:
    account = Account(box.targets[0], "Targets", unique("g"))
    yield account
    box.targets[0].execute(f"DROP USER '{account.user}'@'%'")


def test_each_grant_at_a_target_that_is_missing_is_named_and_given_back_by_what_is_advised(target: Account) -> None:
    database = f"{target.name}_0"
    wanted = ("CREATE", *grants.ROWS)
    assert target.lacks(database, *wanted) == []
    pattern = database.replace("_", "\\_")
    for privilege in wanted:
        target.server.execute(f"REVOKE {privilege} ON `{pattern}`.* FROM '{target.user}'@'%'")
        (found,) = target.lacks(database, *wanted)
        assert found.verdict is Verdict.PROBLEM
        assert found.message.endswith(f"'{target.user}'@'%' lacks {privilege} on database {database}")
        target.server.execute(found.mend)
        assert target.lacks(database, *wanted) == []
    (other,) = target.lacks(f"{target.name}x0", "SELECT")  # the documented name has no wildcard
    assert other.verdict is Verdict.PROBLEM


def test_grants_on_single_tables_are_told_and_not_judged(target: Account) -> None:
    database = f"{target.name}_2"
    target.server.execute(
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY)",
        f"GRANT INSERT ON {database}.t TO '{target.user}'@'%'",
    )
    (found,) = target.lacks(database, "INSERT")
    assert (found.verdict, "not looked at" in found.message) == (Verdict.NOTE, True)
    target.server.execute(f"DROP DATABASE {database}")


def test_what_an_active_role_may_do_counts(target: Account) -> None:
    database, role = f"{target.name}_3", f"{target.name}_role"
    default = "" if target.server.flavour == "mysql" else f" FOR '{target.user}'@'%'"
    to = f" TO '{target.user}'@'%'" if target.server.flavour == "mysql" else ""
    target.server.execute(
        f"CREATE ROLE {role}", f"GRANT ALL ON `{database}`.* TO {role}", f"GRANT {role} TO '{target.user}'@'%'"
    )
    assert [one.verdict for one in target.lacks(database, "SELECT")] == [Verdict.PROBLEM], "it is not active"
    target.server.execute(f"SET DEFAULT ROLE {role}{default}{to}")
    assert target.lacks(database, *grants.ROWS) == []
    target.server.execute(f"DROP ROLE {role}")


def test_locking_tables_at_a_mysql_source_is_asked_for(mysql_box: Sandbox) -> None:
    name = unique("g")
    tables = [f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in ("orders", "customers")]
    mysql_box.source.execute(f"CREATE DATABASE {name}", *tables)
    account = Account(mysql_box.source, "Source", name)
    with closing(account.session()) as connection:
        (found,) = grants.check(connection, [account.name])
        assert found.verdict is Verdict.PASS
        (found,) = grants.check(connection, [account.name, "elsewhere"])
    assert (found.verdict, "lacks LOCK TABLES on database elsewhere" in found.message) == (Verdict.PROBLEM, True)
    mysql_box.source.execute(f"DROP USER '{account.user}'@'%'", f"DROP DATABASE {name}")


def test_the_state_account_has_what_its_two_databases_need(box: Sandbox) -> None:
    account = Account(box.targets[0], "State", unique("g"))
    assert account.lacks(f"{account.name}_state", "CREATE", "ALTER", *grants.ROWS) == []
    assert account.lacks(f"{account.name}_state_shadow", *grants.SHADOW) == []
    (found,) = account.lacks(f"{account.name}_state", "DROP")
    assert found.verdict is Verdict.PROBLEM
    box.targets[0].execute(f"DROP USER '{account.user}'@'%'")
