"""The documented grants pass; each that is taken away is named with the statement that gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from migrate.mysql.connection import Connection, connect
from migrate.preflight.result import Result, Verdict
from migrate.preflight.run import run
from migrate.preflight.server import grants
from migrate.settings import parse
from sandbox.broker import KafkaBroker
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


def at_source(connection: Connection, *databases: str) -> list[Result]:
    return grants.check(connection, grants.of_source(connection.flavour, databases), "it may")


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
    (found,) = target.lacks(database, "CREATE", "INSERT")  # which no single grant gives
    assert (found.verdict, found.message.endswith(f"lacks CREATE, INSERT on database {database}")) == (
        Verdict.PROBLEM,
        True,
    )
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
        (found,) = at_source(connection, account.name)
        assert found.verdict is Verdict.PASS
        (found,) = at_source(connection, account.name, "elsewhere")
    assert (found.verdict, "lacks LOCK TABLES on database elsewhere" in found.message) == (Verdict.PROBLEM, True)
    mysql_box.source.execute(f"REVOKE LOCK TABLES ON `{account.name}`.* FROM '{account.user}'@'%'")
    with closing(account.session()) as connection:
        (found,) = at_source(connection, account.name)
    assert found.verdict is Verdict.PROBLEM, "the grants on its tables cannot give it"
    mysql_box.source.execute(f"DROP USER '{account.user}'@'%'", f"DROP DATABASE {name}")


def test_the_state_account_has_what_its_two_databases_need(box: Sandbox) -> None:
    account = Account(box.targets[0], "State", unique("g"))
    assert account.lacks(f"{account.name}_state", "CREATE", "ALTER", *grants.ROWS) == []
    assert account.lacks(f"{account.name}_state_shadow", *grants.SHADOW) == []
    (found,) = account.lacks(f"{account.name}_state", "DROP")
    assert found.verdict is Verdict.PROBLEM
    box.targets[0].execute(f"DROP USER '{account.user}'@'%'")


def lacking(account: Account, needs: grants.Needs) -> list[Result]:
    with closing(account.session()) as connection:
        return [one for one in grants.check(connection, needs, "it may") if one.verdict is not Verdict.PASS]


def test_what_a_cutover_needs_is_named_all_at_once_and_given_by_what_is_advised(target: Account) -> None:
    flavour, database = target.server.flavour, f"{target.name}_0"
    pattern = database.replace("_", "\\_")

    def given(section: str) -> None:
        ours = [line for line in statements(section, flavour, target.name) if f"'{target.user}'@" in line]
        target.server.execute(*ours)

    needs = grants.of_source(flavour, [database]) | grants.of_cutover(flavour, [database], "read_only")
    everywhere, locks = lacking(target, needs)
    assert everywhere.mend == f"GRANT {', '.join(needs.everywhere)} ON *.* TO '{target.user}'@'%'"
    assert f"lacks LOCK TABLES, TRIGGER on database {database}" in locks.message
    given("Cutover at the targets")
    assert lacking(target, needs) == []
    for privilege in needs.everywhere:
        target.server.execute(f"REVOKE {privilege} ON *.* FROM '{target.user}'@'%'")
        (found,) = lacking(target, needs)
        assert found.message.endswith(f"grant {privilege} is missing")
        target.server.execute(found.mend)
        assert lacking(target, needs) == []

    needs = grants.of_cutover(flavour, [database], "revoke")
    option, catalog = lacking(target, needs)
    assert option.message.endswith(f"lacks GRANT OPTION on database {database}")
    assert catalog.mend == f"GRANT SELECT ON `mysql`.* TO '{target.user}'@'%'"
    target.server.execute(option.mend, catalog.mend)
    assert lacking(target, needs) == []
    target.server.execute(f"REVOKE GRANT OPTION ON `{pattern}`.* FROM '{target.user}'@'%'")
    assert [one.mend for one in lacking(target, needs)] == [option.mend]
    given("Cutover by REVOKE")
    assert lacking(target, needs) == []


def test_who_is_not_told_of_prepared_transactions_gets_a_note(target: Account) -> None:
    """Lost: rows of an XA transaction that outlived a restart, and was committed after its chunk was copied."""

    def told() -> list[Result]:
        with closing(target.session()) as connection:
            return grants.check_prepared(connection)

    if target.server.flavour == "mariadb":
        assert told() == []
        return
    (found,) = told()
    assert (found.verdict, "cannot see prepared XA transactions" in found.message) == (Verdict.NOTE, True)
    target.server.execute(found.mend.partition(";")[0])
    assert told() == []


def test_what_no_part_of_the_service_needs_is_a_note(target: Account) -> None:
    def told() -> list[str]:
        with closing(target.session()) as connection:
            found = grants.check_excess(connection)
        assert {one.verdict for one in found} <= {Verdict.NOTE}
        return [one.message.partition(" needs: ")[2] for one in found]

    assert told() == []
    target.server.execute(f"GRANT FILE ON *.* TO '{target.user}'@'%'")
    assert told() == ["FILE on *.*"]
    target.server.execute(f"GRANT ALL ON *.* TO '{target.user}'@'%'")
    every = "ALL PRIVILEGES" if target.server.flavour == "mariadb" else "SUPER, FILE"
    assert told() == [f"{every} on *.*"]


def test_all_privileges_are_no_right_to_give_them(target: Account) -> None:
    target.server.execute(f"GRANT ALL ON *.* TO '{target.user}'@'%'")
    needs = grants.of_cutover(target.server.flavour, ["x"], "revoke")
    assert [one.message.rpartition("lacks ")[2] for one in lacking(target, needs)] == ["GRANT OPTION on database x"]
    assert lacking(target, grants.of_cutover(target.server.flavour, ["x"], "read_only")) == []


def of_one_table(target: Account, kafka: KafkaBroker, **table: object) -> dict[str, Any]:
    """A config whose source and target are one server; the account is the target's."""
    server, name = target.server, target.name
    return raw_settings(
        name=name,
        state={**address(server), "database": f"{name}_state"},
        sources=[{"name": "s", **address(server)}],
        targets=[{"name": "x", **address(server), "user": target.user, "password": PASSWORD}],
        databases={"ds": {"target": "x", "database": f"{name}_0"}},
        kafka={"bootstrap": kafka.bootstrap},
        tables=[{"name": f"{name}_0.t", "sharding": {"nodes": "ds.t"}, **table}],
    )


def test_a_reverse_stream_that_is_not_begun_needs_create_for_the_services_own_tables(
    target: Account, kafka: KafkaBroker
) -> None:
    server, name = target.server, target.name
    server.execute(f"CREATE DATABASE {name}_0", f"CREATE TABLE {name}_0.t (id INT PRIMARY KEY)")
    raw = of_one_table(target, kafka)
    pattern = f"{name}_0".replace("_", "\\_")
    server.execute(f"REVOKE CREATE ON `{pattern}`.* FROM '{target.user}'@'%'")
    results = run(parse(raw, {}), services=True, reverse=True).results
    (found,) = [one for one in results if one.check == "grants" and one.subject == f"target 'x', {name}_0"]
    assert found.message.endswith(f"lacks CREATE, LOCK TABLES, TRIGGER on database {name}_0")
    server.execute(f"DROP DATABASE {name}_0")


def test_what_brings_statements_to_the_targets_is_asked_for_where_a_policy_does(
    target: Account, kafka: KafkaBroker
) -> None:
    """Lost: hours of lag: a publisher stopped in front of the first statement, as its account may not alter tables."""
    server, name = target.server, target.name
    server.execute(f"CREATE DATABASE {name}_0", f"CREATE TABLE {name}_0.t (id INT PRIMARY KEY)")

    def lacks(ddl: object) -> set[str]:
        results = run(parse(of_one_table(target, kafka, ddl=ddl), {}), services=True).results
        found = [one for one in results if one.check == "grants" and one.verdict is Verdict.PROBLEM]
        return {one.message.rpartition("lacks ")[2] for one in found if one.subject.startswith("target 'x'")}

    assert lacks("ignore") == set()
    here, trial = f"on database {name}_0", f"on database _migrate_trial_{name}"
    assert {one for one in lacks("apply") if here in one} == {f"ALTER, INDEX, DROP, TRIGGER {here}"}
    assert {one for one in lacks("apply") if trial in one} == {f"CREATE, ALTER, INDEX, DROP, SELECT, INSERT {trial}"}
    emptied = lacks({"truncate": "apply"})
    assert f"DROP, TRIGGER {here}" in emptied
    assert [one for one in emptied if "grant PROCESS is missing" in one]
    server.execute(*statements("DDL over shards", server.flavour, name), f"GRANT PROCESS ON *.* TO '{target.user}'@'%'")
    assert lacks({"columns": "apply", "truncate": "apply"}) == set()
    server.execute(f"DROP DATABASE {name}_0")
