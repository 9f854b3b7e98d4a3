"""A check that fails, or a server that goes away amid them, takes no other check's outcome along."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from migrate.commands.init import initialise
from migrate.preflight import run as preflight
from migrate.preflight.result import Result, Verdict
from sandbox.database import DatabaseServer
from tests.helpers import unique
from tests.preflight.support import BY_USER, Case

_PASSWORD = "only-for-preflight-tests"
_OF_A_SERVER = {"version", "clock", "grants"}
_OF_A_TARGET = {*_OF_A_SERVER, "packet", "sql_mode", "time zone", "charset", "space"}


@contextmanager
def account(server: DatabaseServer, *grants: str) -> Iterator[str]:
    """A user with these grants ("SELECT ON d.*")."""
    user = unique("apart")[:30]
    server.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{_PASSWORD}'", *(f"GRANT {one} TO '{user}'@'%'" for one in grants)
    )
    try:
        yield user
    finally:
        server.execute(f"DROP USER '{user}'@'%'")


def use(raw: dict[str, Any], user: str) -> None:
    raw.update(user=user, password=_PASSWORD)


def of(results: list[Result], where: str) -> list[Result]:
    return [one for one in results if one.subject == where or one.message.startswith(where)]


def with_another(case: Case) -> None:
    """A second source table, which comes behind the first one."""
    case.at_source("CREATE TABLE u LIKE t", "INSERT INTO u SELECT * FROM t")
    case.raw["tables"].append({"name": f"{case.database}.u", "sharding": {**BY_USER, "nodes": "ds_${0..1}.u_${0..1}"}})


def unseen(results: list[Result]) -> list[tuple[str, str]]:
    return [(one.check, one.subject) for one in results if one.verdict is Verdict.UNKNOWN]


def test_a_target_table_that_cannot_be_read_hides_nothing_else_of_its_server(case: Case) -> None:
    case.raw["name"] = unique("first")
    initialise(case.settings)
    case.raw["name"] = unique("second")  # for it the tables must be empty, which only SELECT shows
    pattern = case.database.replace("_", "\\_")
    with account(case.box.targets[0], f"CREATE, INSERT, UPDATE, DELETE ON `{pattern}`.*") as user:
        use(case.raw["targets"][0], user)
        results = case.report(services=True).results
    places = [f"t0/{case.database}.t_0", f"t0/{case.database}.t_1"]
    # Whose the tables are is not shown either: that a TRUNCATE would empty another migration's.
    assert unseen(results) == [("truncate", case.database), *(("target table", place) for place in places)]
    told = next(one for one in results if one.subject == places[0] and one.verdict is Verdict.UNKNOWN)
    assert told.message.startswith(f"target 't0', check 'target table' of {places[0]}: a grant is missing: SELECT")
    (lacking,) = [one for one in results if one.check == "grants" and one.verdict is Verdict.PROBLEM]
    assert lacking.message.endswith(f"'{user}'@'%' lacks SELECT on database {case.database}")
    for target in ("target 't0'", "target 't1'"):
        assert _OF_A_TARGET - {"grants"} <= {one.check for one in of(results, target)}, target


def test_a_source_table_that_cannot_be_read_hides_nothing_else_of_its_server(case: Case) -> None:
    with_another(case)
    server = case.box.source
    replicates = "BINLOG MONITOR" if server.flavour == "mariadb" else "REPLICATION CLIENT"
    rights = (f"REPLICATION SLAVE, {replicates} ON *.*", f"INSERT ON {case.database}.t", f"SELECT ON {case.database}.u")
    with account(server, *rights) as user:
        use(case.raw["sources"][0], user)
        results = case.report(services=True).results
        assert unseen(results) == [(check, f"{case.database}.t") for check in ("sharding", "trial")]
    assert {"counters", "sharding"} <= {one.check for one in results if one.subject == f"{case.database}.u"}
    assert {"binlog", "retention", *_OF_A_SERVER} <= {one.check for one in of(results, "source 's'")}


def test_a_state_database_that_cannot_be_read_hides_nothing_else_of_its_server(case: Case) -> None:
    with account(case.box.targets[0]) as user:
        use(case.raw["state"], user)
        results = case.report(services=True).results
    assert unseen(results) == [("state", "state")]
    told = next(one for one in results if one.verdict is Verdict.UNKNOWN)
    assert told.message.startswith(f"state database '{case.database}_state' at "), told
    of_server = {"writable", "durability", "clock", "session", "connections"}
    assert {one.check for one in of(results, "state server")} == of_server
    assert {"kafka", "topic"} <= {one.check for one in results}


@contextmanager
def looked_while_locked(case: Case, waits: str) -> Iterator[tuple[int, list[Result]]]:
    """Preflight, and the number of its session that waits for table `t`, which the block is to end."""
    found: list[Result] = []
    looks = threading.Thread(target=lambda: found.extend(preflight.run(case.settings, services=True).results))
    locks = case.box.source.connect(case.database)
    try:
        with locks.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
        looks.start()
        yield _waiting(case, waits, looks), found
        looks.join(120)
        assert not looks.is_alive()
    finally:
        locks.close()
        looks.join(120)


def _waiting(case: Case, waits: str, looks: threading.Thread) -> int:
    sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE %s AND INFO LIKE %s"
    while looks.is_alive():
        if found := case.box.source.query(sql, ("%metadata lock%", f"%{case.database}`.`{waits}`%")):
            return int(found[0][0])
        looks.join(0.05)
    raise AssertionError("it never waited for the table")


def test_a_session_that_is_ended_costs_one_check(case: Case) -> None:
    with_another(case)
    with looked_while_locked(case, "t") as (waiting, results):
        case.box.source.execute(f"KILL {waiting}")
    assert unseen(results) == [("sharding", f"{case.database}.t")]
    assert {"counters", "sharding"} <= {one.check for one in results if one.subject == f"{case.database}.u"}
    assert {"retention", *_OF_A_SERVER} <= {one.check for one in of(results, "source 's'")}
    assert {"state", "kafka", "space"} <= {one.check for one in results}


def test_a_server_that_is_gone_amid_the_checks_is_told_once(case: Case) -> None:
    with_another(case)
    server = case.box.source
    replicates = "BINLOG MONITOR" if server.flavour == "mariadb" else "REPLICATION CLIENT"
    with account(
        server, f"SELECT, LOCK TABLES ON {case.database}.*", f"REPLICATION SLAVE, {replicates} ON *.*"
    ) as user:
        use(case.raw["sources"][0], user)
        with looked_while_locked(case, "t") as (waiting, results):
            server.execute(f"ALTER USER '{user}'@'%' ACCOUNT LOCK", f"KILL {waiting}")
    assert unseen(results) == [("source", "s")]
    (gone,) = [one for one in results if one.verdict is Verdict.UNKNOWN]
    assert gone.message.startswith(f"source 's', check 'sharding' of {case.database}.t: ")
    assert {"retention", *_OF_A_SERVER} <= {one.check for one in of(results, "source 's'")}
    assert {one.check for one in of(results, "target 't0'")} >= _OF_A_TARGET
