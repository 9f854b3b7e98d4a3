"""REVOKE that waits for a backup, and who may write besides the accounts from which it is taken."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql
import pytest

from migrate.cutover import privileges
from migrate.cutover.account_grants import grants
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError, ServerError
from migrate.mysql.grants import GRANT
from migrate.settings import Source
from sandbox.stack import Sandbox
from tests.cutover.test_write_block import Case
from tests.cutover.test_write_block import case as case
from tests.failover.support import SLOW, wait
from tests.helpers import address, unique

WAITS = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'REVOKE %'"
LOCKS = {"FLUSH TABLES WITH READ LOCK": "UNLOCK TABLES", "LOCK INSTANCE FOR BACKUP": "UNLOCK INSTANCE"}


@contextmanager
def application(case: Case, wait_seconds: float) -> Iterator[str]:
    """An account that may write at both servers, and is named in `cutover.accounts`."""
    user = f"{case.name[-20:]}_app"
    case.raw["cutover"] = {
        "stop": "revoke",
        "accounts": [f"{user}@%"],
        "wait_seconds": wait_seconds,
        "freeze_seconds": 60,
    }
    for server in case.servers.values():
        server.execute(f"CREATE USER '{user}'@'%'", f"GRANT INSERT, UPDATE ON {case.database}.* TO '{user}'@'%'")
    try:
        yield user
    finally:
        for server in case.servers.values():
            server.execute(f"DROP USER IF EXISTS '{user}'@'%'")


@contextmanager
def backup(case: Case, lock: str) -> Iterator[None]:
    """A backup at the first server, which no account is changed beside."""
    if lock.startswith("LOCK INSTANCE") and case.box.flavour == "mariadb":
        pytest.skip("MySQL only")
    with closing(case.box.source.connect()) as holder, holder.cursor() as cursor:
        cursor.execute(lock)
        yield
        cursor.execute(LOCKS[lock])


def may_write(case: Case, user: str) -> list[bool]:
    return ["INSERT, UPDATE" in str(one.query(f"SHOW GRANTS FOR '{user}'@'%'")) for one in case.servers.values()]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_revoke_that_still_waits_for_a_backup_takes_nothing_once_writes_are_given_back(case: Case, lock: str) -> None:
    ended: list[ServerError] = []

    def stop() -> None:
        try:
            case.stop()
        except ServerError as error:
            ended.append(error)

    thread = threading.Thread(target=stop, daemon=True)
    with application(case, wait_seconds=50) as user:
        with backup(case, lock):
            thread.start()
            wait(lambda: case.box.source.query(WAITS)[0][0], "the REVOKE to wait")
            case.give_back()  # as by the guardian of a process that was killed there
            assert case.noted() == []
        thread.join(SLOW)
        assert len(ended) == 1
        wait(lambda: not case.box.source.query(WAITS)[0][0], "no REVOKE")
        assert may_write(case, user) == [True, True]


def test_a_revoke_waits_for_a_backup_no_longer_than_transactions_are_waited_for(case: Case) -> None:
    with application(case, wait_seconds=1) as user:
        with backup(case, "FLUSH TABLES WITH READ LOCK"):
            began = time.monotonic()
            with pytest.raises(ServerError, match=r"Lock wait timeout|does not answer") as refused:
                case.stop()
            assert time.monotonic() - began < 50, "it waited as long as a freeze may take"
            assert "during a backup" in refused.value.hint
            case.give_back()
        assert (case.noted(), may_write(case, user)) == ([], [True, True])


def test_a_role_by_which_an_account_writes_too_is_named_before_the_freeze(case: Case) -> None:
    mysql = case.box.flavour == "mysql"
    role, above = f"{case.name[-20:]}_role", f"{case.name[-20:]}_above"
    written = {name: f"'{name}'@'%'" if mysql else f"`{name}`" for name in (role, above)}
    server = case.servers["b"]
    with application(case, wait_seconds=1) as user:
        try:
            server.execute(
                f"CREATE ROLE {role}",
                f"CREATE ROLE {above}",
                f"GRANT {role} TO '{user}'@'%'",
                f"GRANT SELECT ON {case.database}.* TO {role}",
            )
            case.blocks().probe()
            server.execute(f"GRANT {above} TO {role}", f"GRANT DELETE ON {case.database}.t TO {above}")
            with pytest.raises(PreflightError) as refused:
                case.blocks().probe()
            assert f"'b': {written[role]} may write by its role {written[above]} too" in refused.value.message
            assert "cutover.stop: read_only" in refused.value.hint
            if mysql:
                assert f"name {above}@% in cutover.accounts" in refused.value.hint
                case.servers["a"].execute(f"CREATE ROLE {above}")
                case.raw["cutover"]["accounts"].append(f"{above}@%")
                case.blocks().probe()
        finally:
            for one in (server, case.servers["a"]) if mysql else (server,):
                one.execute(*(f"DROP ROLE {'IF EXISTS' * mysql} {name}" for name in (role, above)))


def test_who_may_write_all_the_same_once_the_block_stands_is_named_and_writes_are_given_back(case: Case) -> None:
    """Lost: what an application wrote in the freeze by a right that it got after the check."""
    with application(case, wait_seconds=1) as user:
        case.blocks().probe()
        case.box.source.execute(f"CREATE ROLE '{user}_late'", f"GRANT UPDATE ON {case.database}.* TO '{user}_late'")
        case.box.source.execute(f"GRANT '{user}_late' TO '{user}'@'%'")
        try:
            with pytest.raises(PreflightError) as caught:
                case.stop()
            assert "may write by its role" in caught.value.message
            case.give_back()
            assert may_write(case, user) == [True, True]
        finally:
            case.box.source.execute(f"DROP ROLE '{user}_late'")


def test_a_right_that_was_not_read_from_the_grants_is_found_in_the_tables_of_privileges(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: what an application wrote through the freeze by a grant that was read wrongly."""
    with application(case, wait_seconds=1) as user:
        case.box.source.execute(f"GRANT DELETE ON {case.database}.`t` TO '{user}'@'%'")
        readable = GRANT.pattern.replace("(?P<table>", "(?!`t`)(?P<table>")
        monkeypatch.setattr("migrate.cutover.account_grants.GRANT", re.compile(readable, GRANT.flags))
        with pytest.raises(PreflightError) as caught:
            case.stop()
        assert f"'{user}'@'%' on {case.database}.t" in caught.value.message
        case.give_back()
        assert may_write(case, user) == [True, True]


def test_a_role_that_every_account_has_is_named_before_the_freeze(case: Case) -> None:
    mysql, server, role = case.box.flavour == "mysql", case.servers["b"], f"{case.name[-20:]}_all"
    written = f"'{role}'@'10.%'" if mysql else f"`{role}`"
    of_all = written if mysql else "`PUBLIC`"
    anybody = f"{case.name[-20:]}_any"
    with application(case, wait_seconds=1):
        server.execute(f"CREATE ROLE {written}")
        try:
            server.execute(
                f'SET GLOBAL mandatory_roles = "no_role,{written}"' if mysql else f"GRANT {written} TO PUBLIC",
                f"GRANT SELECT ON {case.database}.* TO {of_all}",
            )
            if mysql:
                server.execute("CREATE ROLE no_role")
                case.raw["cutover"]["accounts"].append(f"{role}@10.%")
                case.servers["a"].execute(f"CREATE ROLE {written}")
            case.blocks().probe()
            server.execute(f"GRANT UPDATE ON {case.database}.t TO {written}")
            with pytest.raises(PreflightError) as refused:
                case.blocks().probe()
            assert f"'b': every account may write by the role {of_all}" in refused.value.message
            assert f"take that from {of_all}, and grant the accounts what they write themselves" in refused.value.hint
            server.execute(f"CREATE USER '{anybody}'@'%'")  # it may, in truth
            at: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "user": anybody, "database": case.database}
            with closing(pymysql.connect(**at)) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET ROLE {written}" if mysql else "DO 0")
                cursor.execute("UPDATE t SET id = 1")
        finally:
            server.execute(f"DROP USER IF EXISTS '{anybody}'@'%'")
            if mysql:
                server.execute("SET GLOBAL mandatory_roles = ''", "DROP ROLE IF EXISTS no_role")
                case.servers["a"].execute(f"DROP ROLE IF EXISTS {written}")
            else:
                server.execute(f"REVOKE SELECT ON {case.database}.* FROM PUBLIC")
            server.execute(f"DROP ROLE {written}")


def test_an_account_of_the_same_name_at_another_host_is_named_before_the_freeze(case: Case) -> None:
    with application(case, wait_seconds=1) as user:
        server, other = case.servers["b"], f"'{user}'@'10.%'"
        server.execute(f"CREATE USER {other}", f"GRANT SELECT ON {case.database}.* TO {other}")
        try:
            case.blocks().probe()
            server.execute(f"GRANT INSERT ON {case.database}.* TO {other}")
            with pytest.raises(PreflightError, match=f"'b': {other} may write too") as refused:
                case.blocks().probe()
            assert f"name {user}@10.% there" in refused.value.hint
            case.servers["a"].execute(f"CREATE USER {other}")
            case.raw["cutover"]["accounts"].append(f"{user}@10.%")
            case.blocks().probe()
        finally:
            for one in case.servers.values():
                one.execute(f"DROP USER IF EXISTS {other}")


def test_writes_to_databases_with_any_name_are_taken_and_given_back(box: Sandbox) -> None:
    """Lost: what applications wrote through the freeze, as of a name with a blank or a backtick no grant was seen."""
    server, user = box.source, unique("any")[:30]
    names = [f"{user} {end}" for end in ("my shop", "a`b", "dot.dot", "x ON `y`.* TO z", "per%cent", "ünder_line")]
    quoted = [f"`{name.replace('`', '``')}`" for name in names]
    server.execute(f"CREATE USER '{user}'@'%'", *(f"CREATE DATABASE {name}" for name in quoted))
    try:
        for name in quoted:
            server.execute(f"CREATE TABLE {name}.`t``t` (id INT PRIMARY KEY, v INT)")
        server.execute(*(f"GRANT SELECT, INSERT ON {name}.* TO '{user}'@'%'" for name in quoted))
        server.execute(f"GRANT UPDATE (v), DELETE ON {quoted[1]}.`t``t` TO '{user}'@'%'")
        before = server.query(f"SHOW GRANTS FOR '{user}'@'%'")
        with closing(LeftServer(Source.model_validate({"name": "main", **address(server)}), "source")) as ours:
            taken, back = grants(ours, [f"{user}@%"], names)
            assert len(taken) == len(back) == len(names) + 1
            assert len(privileges.may_write(ours, [(user, "%")], names)) == len(names) + 1
            server.execute(*taken)
            assert privileges.may_write(ours, [(user, "%")], names) == []
            left = " ".join(str(line) for (line,) in server.query(f"SHOW GRANTS FOR '{user}'@'%'"))
            assert not any(word in left for word in ("INSERT", "UPDATE", "DELETE")), left
            server.execute(*back)
        assert sorted(server.query(f"SHOW GRANTS FOR '{user}'@'%'")) == sorted(before)
    finally:
        server.execute(f"DROP USER '{user}'@'%'", *(f"DROP DATABASE {name}" for name in quoted))


def test_what_writes_with_the_rights_of_another_account_is_named(case: Case) -> None:
    """Lost: what an application wrote at the side that was left by a routine of another account, which `revoke` does
    not reach."""
    elsewhere = f"{case.database}_other"
    first = case.servers["a"]
    with application(case, 1.0) as user:
        other = f"{user}2"
        for server in case.servers.values():
            server.execute(f"CREATE DATABASE {elsewhere}")
        first.execute(f"CREATE USER '{other}'@'%'", f"GRANT SELECT, INSERT ON {case.database}.* TO '{other}'@'%'")
        body = f"INSERT INTO {case.database}.t VALUES (7)"
        try:
            for definer, name in ((other, "writes"), (user, "is_stopped")):
                first.execute(
                    f"CREATE DEFINER = '{definer}'@'%' PROCEDURE {name}() {body}",
                    f"CREATE DEFINER = '{definer}'@'%' VIEW v_{name} AS SELECT id FROM {case.database}.t",
                    f"CREATE DEFINER = '{definer}'@'%' EVENT e_{name} ON SCHEDULE EVERY 1 DAY DO {body}",
                    database=elsewhere,
                )
            first.execute(
                f"CREATE DEFINER = '{other}'@'%' PROCEDURE invokes() SQL SECURITY INVOKER {body}", database=elsewhere
            )
            case.blocks().probe()
            (said,) = [line for line in case.said if "with the rights of" in line]
            assert said.startswith("source 'a': revoke does not stop ")
            named = re.findall(rf"(\w+) {elsewhere}\.(\w+) \('{other}'@'%'\)", said)
            assert sorted(named) == [("event", "e_writes"), ("routine", "writes"), ("view", "v_writes")], said
            assert "is_stopped" not in said
            first.execute(f"REVOKE INSERT ON {case.database}.* FROM '{other}'@'%'")
            case.said.clear()
            case.blocks().probe()
            assert not [line for line in case.said if "with the rights of" in line], case.said
        finally:
            for server in case.servers.values():
                server.execute(f"DROP DATABASE {elsewhere}")
            first.execute(f"DROP USER '{other}'@'%'")


def test_a_grant_by_a_pattern_that_is_on_other_databases_too_is_refused(case: Case) -> None:
    """Lost: to applications, every other database of the pattern, and the side that they were to enter, where that is
    on the same server."""
    with application(case, wait_seconds=1) as user:
        other = f"{case.database}_users"
        pattern = case.database.replace("_", "\\_") + "%"
        first = case.servers["a"]
        first.execute(f"GRANT INSERT ON `{pattern}`.* TO '{user}'@'%'")
        case.blocks().probe()
        first.execute(f"CREATE DATABASE {other}")
        try:
            with pytest.raises(
                PreflightError, match=f"which is on database {other} too: it cannot be taken"
            ) as refused:
                case.blocks().probe()
            assert "give it grants by database" in refused.value.hint
            with pytest.raises(PreflightError, match=f"which is on database {other} too"):
                case.stop()
            assert case.noted() == []
        finally:
            first.execute(f"DROP DATABASE {other}")
