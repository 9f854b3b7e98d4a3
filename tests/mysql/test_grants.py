"""Of several grants on a database the server goes by one: what an account is said to lack is what the server refuses.

The oracle is the server: each privilege is tried by a statement that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pymysql
import pytest

from migrate.mysql import grants
from migrate.mysql.connection import connect
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import globally, server_of, unique

PASSWORD = "a-password-of-this-test"
DENIED = frozenset({1044, 1142})
TRIED = {
    "SELECT": "SELECT COUNT(1) FROM t",
    "INSERT": "INSERT INTO t VALUES (1)",
    "UPDATE": "UPDATE t SET id = 2",
    "DELETE": "DELETE FROM t",
    "CREATE": "CREATE TABLE IF NOT EXISTS t (id INT)",
}
Row = tuple[str, str, str]  # holder, privileges, name

CASES: dict[str, list[Row]] = {
    "a name with a wildcard, and one that is exact": [("", "SELECT, INSERT, UPDATE", "{_}"), ("", "CREATE", "{=}")],
    "the exact one first": [("", "CREATE", "{=}"), ("", "SELECT, INSERT, UPDATE", "{_}")],
    "an earlier and a later wildcard": [("", "SELECT", "%"), ("", "INSERT", "{_}"), ("", "UPDATE", "{=%}")],
    "the role's is more specific": [("", "SELECT", "{_}"), ("r", "INSERT", "{=}")],
    "the role's is less specific": [("", "SELECT", "{=}"), ("r", "INSERT", "{_}")],
    "the role's comes first": [("", "SELECT", "{=}"), ("r", "INSERT, UPDATE", "%")],
    "the role's name is the same": [("", "SELECT", "{_}"), ("r", "INSERT", "{_}")],
    "a role has two": [("r", "SELECT", "{_}"), ("r", "INSERT", "{=}")],
    "a role inherits a more specific one": [("r", "INSERT", "{_}"), ("s", "SELECT", "{=}")],
    "a role inherits one of the same name": [("r", "INSERT", "{_}"), ("s", "SELECT", "{_}"), ("", "CREATE", "{=}")],
    "all of it by the one that does not count": [("", "ALL", "%"), ("", "SELECT", "{=}")],
    "everything is there": [("", "SELECT, INSERT, UPDATE, DELETE, CREATE", "{_}")],
}


class Account:
    """An account with a role that inherits another; the database it asks for has `_` in its name."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server, self.database = server, unique("g_r")
        self.user = f"{self.database}_u"
        self.roles = {one: f"{self.database}_{one}" for one in "rs"}
        server.execute(
            f"CREATE DATABASE {self.database}",
            f"CREATE TABLE {self.database}.t (id INT)",
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{PASSWORD}'",
        )

    def drop(self) -> None:
        self.server.execute(f"DROP DATABASE {self.database}", f"DROP USER '{self.user}'@'%'")
        for role in self.roles.values():
            self.server.execute(f"DROP ROLE IF EXISTS {role}")

    def named(self, name: str) -> str:
        exact = self.database.replace("_", r"\_")
        return {"{_}": self.database, "{=}": exact, "{=%}": f"{exact[:-1]}%"}.get(name, name)

    def give(self, rows: Sequence[Row]) -> None:
        to = f"'{self.user}'@'%'"
        used = [one for one in "rs" if any(holder == one for holder, _, _ in rows)]
        self.server.execute(*(f"CREATE ROLE {self.roles[one]}" for one in used))
        for holder, what, name in rows:
            holder = self.roles[holder] if holder else to
            self.server.execute(f"GRANT {what} ON `{self.named(name)}`.* TO {holder}")
        if "s" in used:
            self.server.execute(f"GRANT {self.roles['s']} TO {self.roles['r']}")
        if "r" in used:
            end = f" TO {to}" if self.server.flavour == "mysql" else f" FOR {to}"
            self.server.execute(f"GRANT {self.roles['r']} TO {to}", f"SET DEFAULT ROLE {self.roles['r']}{end}")

    def held(self) -> grants.Grants:
        """As a session of it is told, with its default role."""
        reached = server_of(self.server, user=self.user, password=PASSWORD)
        with closing(connect(reached, "target 'x'")) as connection:
            return grants.read(connection)

    def refused(self) -> list[str]:
        """What the server refuses a session of it."""
        found = []
        with closing(
            pymysql.connect(host=self.server.host, port=self.server.port, user=self.user, password=PASSWORD)
        ) as one:
            for privilege, statement in TRIED.items():
                try:
                    one.cursor().execute(statement.replace(" t", f" {self.database}.t"))
                except pymysql.OperationalError as error:
                    if error.args[0] not in DENIED:
                        raise
                    found.append(privilege)
        return found


@pytest.fixture
def account(box: Sandbox) -> Iterator[Account]:
    made = Account(box.targets[0])
    yield made
    made.drop()


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_of_several_grants_the_one_that_the_server_goes_by_counts_and_is_added_to(
    account: Account, rows: list[Row]
) -> None:
    account.give(rows)
    missing = account.held().lacking(account.database, TRIED)
    assert missing == account.refused()
    if missing:
        account.server.execute(account.held().mend(account.database, missing))
    assert (account.refused(), account.held().lacking(account.database, TRIED)) == ([], [])


def test_where_either_of_two_grants_may_count_only_what_both_give_does(account: Account) -> None:
    last, end = account.database[-2].replace("_", r"\_"), account.database[-1]
    account.give([("", "SELECT, INSERT", f"g%{last}_"), ("", "SELECT, UPDATE", f"g%_{end}")])
    missing = account.held().lacking(account.database, TRIED)
    assert missing == ["INSERT", "UPDATE", "DELETE", "CREATE"]
    assert set(account.refused()) < set(missing)
    account.server.execute(*account.held().mend(account.database, missing).split("; "))
    assert (account.refused(), account.held().lacking(account.database, TRIED)) == ([], [])


def test_a_grant_to_everybody_counts_for_itself(mariadb_box: Sandbox) -> None:
    account = Account(mariadb_box.targets[0])
    account.give([("", "SELECT", "{=}")])
    public = f"INSERT ON `{account.named('{_}')}`.*"
    account.server.execute(f"GRANT {public} TO PUBLIC")
    assert account.held().lacking(account.database, TRIED) == account.refused() == ["UPDATE", "DELETE", "CREATE"]
    account.server.execute(f"REVOKE {public} FROM PUBLIC")
    account.drop()


def test_without_wildcards_a_backslash_is_a_sign_as_any_other(mysql_box: Sandbox) -> None:
    account = Account(mysql_box.targets[0])
    with globally(account.server, "partial_revokes", 1):
        account.give([("", "SELECT", "{=}"), ("", "INSERT", "%")])
        assert account.held().lacking(account.database, TRIED) == account.refused() == list(TRIED)
        account.server.execute(account.held().mend(account.database, [*TRIED]))
        assert account.held().lacking(account.database, TRIED) == account.refused() == []
    account.drop()
