"""What all processes may open is held against what a server and the account allow."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

from migrate.mysql.connection import connect
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server import connections
from migrate.settings import Settings, parse
from tests.helpers import address, globally, raw_settings
from tests.preflight.support import Case, one, session


def settings_of(case: Case, **changes: Any) -> Settings:
    """A state and sixty target databases on one server; eight tasks of copy and verification."""
    target = address(case.box.targets[0], **changes)
    spark = {"master": "local[8]"}
    return parse(
        raw_settings(
            state={**target, "database": "s"},
            sources=[{"name": "s", **address(case.box.source)}],
            targets=[{"name": "t0", **target}],
            databases={f"ds_{number}": {"target": "t0", "database": f"d{number}"} for number in range(60)},
            copy={**spark, "chunks_at_once": 2},
            verify=spark,
        ),
        {},
    )


def found(case: Case, settings: Settings) -> Result:
    with session(case.box.targets[0]) as target:
        return one(connections.check(target, settings, settings.targets[0]))


def test_each_role_that_a_server_has_counts(case: Case) -> None:
    settings = settings_of(case)
    source = connections.needed(settings, settings.sources[0])
    target = connections.needed(settings, settings.targets[0])
    assert source == {"publish": 4, "consume": 1, "check": 2, "copy": 19, "verify": 10, "a command": 5}
    assert target == {
        **{"consume": 16 + 5, "commit": 1 + 5, "check": 1 + 5, "copy": 10 + 5, "verify": 9 + 6, "a command": 10},
        **{"publish": 6, "requeue": 5, "web": 15},
    }
    assert connections.needed(settings, settings.state) == target


def test_a_limit_below_is_a_problem_and_what_mends_it_is_named(case: Case) -> None:
    settings = settings_of(case)
    server, total = case.box.targets[0], connections.needed(settings, settings.targets[0]).total()
    with globally(server, "max_connections", total - 1):
        problem = found(case, settings)
    assert problem.verdict is Verdict.PROBLEM
    assert f"may open {total} sessions (" in problem.message
    assert f"max_connections is {total - 1}" in problem.message
    mend = re.search(r"SET GLOBAL max_connections = (\d+), for good; or connections.per_server: (\d+)$", problem.mend)
    assert mend is not None
    with globally(server, "max_connections", int(mend.group(1))):
        assert found(case, settings).verdict is Verdict.PASS
    fewer = settings.model_copy(
        update={"connections": settings.connections.model_copy(update={"per_server": int(mend.group(2))})}
    )
    with globally(server, "max_connections", total - 1):
        assert found(case, fewer).verdict is Verdict.PASS
    with globally(server, "max_connections", 30):
        assert "per_server" not in found(case, settings).mend  # no value of it would do


def test_sessions_of_others_are_told_and_an_accounts_own_limit_counts(case: Case) -> None:
    server, name = case.box.targets[0], "limited"
    server.execute(
        f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'canary-pw' WITH MAX_USER_CONNECTIONS 40",
        f"GRANT ALL ON *.* TO {name}@'127.0.0.1'",
    )
    try:
        settings = settings_of(case, user=name, password="canary-pw")
        total = connections.needed(settings, settings.targets[0]).total()
        with globally(server, "max_connections", total), session(server):
            note = found(case, settings_of(case))
        assert note.verdict is Verdict.NOTE
        assert re.search(r"; \d+ are open now$", note.message)
        with closing(connect(settings.targets[0], "target 't0'")) as target:
            problem = one(connections.check(target, settings, settings.targets[0]))
        assert problem.verdict is Verdict.PROBLEM
        assert problem.message.endswith(f"may open {total} sessions as {name}, and it may have 40")
        assert problem.mend.startswith(f"raise max_user_connections, the account's own or the global one, to {total}")
    finally:
        server.execute(f"DROP USER {name}@'127.0.0.1'")


def test_preflight_looks_at_every_server(case: Case) -> None:
    looked = [result for result in case.report(services=True).results if result.check == "connections"]
    assert {(result.subject, result.verdict) for result in looked} == {
        ("source 's'", Verdict.PASS),
        ("target 't0'", Verdict.PASS),
        ("target 't1'", Verdict.PASS),
        ("state server", Verdict.PASS),
    }
