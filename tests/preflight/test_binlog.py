"""A source whose binlog leaves something out: databases, or what it replicates. At a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from migrate.cutover import whole_logs
from migrate.cutover.left_server import LeftServer as CutoverServer
from migrate.model.errors import PreflightError
from migrate.mysql import left_out
from migrate.mysql.connection import connect
from migrate.preflight.result import Result, Verdict
from migrate.preflight.run import run
from migrate.preflight.server import binlog
from migrate.settings import Source, parse
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.forked import Migration
from tests.helpers import address, log_end, raw_settings, server_of

PASSWORD = "a-password-of-this-test"
LOGS = {"mariadb": "log_slave_updates", "mysql": "log_replica_updates"}
LEAST = {"mariadb": "REPLICATION SLAVE, BINLOG MONITOR", "mysql": "REPLICATION SLAVE, REPLICATION CLIENT"}
SEES = {"mariadb": "SLAVE MONITOR", "mysql": "REPLICATION CLIENT"}


@pytest.fixture(scope="module")
def server(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """It keeps one database out of its log, and logs nothing that it replicates."""
    options = {"binlog_ignore_db": "hidden", LOGS[flavour]: "OFF"}
    made = DatabaseServer(flavour, run_root / f"leaves-out-{flavour}", server_id=41, options=options)
    made.start()
    made.execute(f"CREATE USER least@'%' IDENTIFIED BY '{PASSWORD}'", f"GRANT {LEAST[flavour]} ON *.* TO least@'%'")
    yield made
    made.kill()


def found(server: DatabaseServer, *databases: str, **account: str) -> list[Result]:
    with closing(connect(server_of(server, **account), "source 's'")) as connection:
        return binlog.check_left_out(connection, databases)


def as_least(server: DatabaseServer, *databases: str) -> list[Result]:
    """With the grants that docs/grants.md has for a source."""
    return found(server, *databases, user="least", password=PASSWORD)


def logged(server: DatabaseServer, database: str) -> bool:
    """Whether a row of a database comes to the binlog: the oracle."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    file, _ = log_end(server)
    before = len(server.query(f"SHOW BINLOG EVENTS IN '{file}'"))
    server.execute(f"INSERT INTO {database}.t VALUES (1)", database=database)
    after = server.query(f"SHOW BINLOG EVENTS IN '{file}'")
    return any("table_id" in str(row[5]) for row in after[before:])


def replicates(server: DatabaseServer) -> bool:
    """MySQL shows every account that it is a replica."""
    running = server.query("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    return running in ((), (("Slaves_running", "1"),))


def test_a_selected_database_that_the_log_leaves_out_is_a_problem(server: DatabaseServer) -> None:
    assert (logged(server, "shown"), logged(server, "hidden")) == (True, False)
    (left_out,) = found(server, "shown", "hidden")
    assert left_out.verdict is Verdict.PROBLEM
    assert "binlog_ignore_db keeps changes of hidden out of the binlog" in left_out.message
    assert "option file, and restart" in left_out.mend
    assert found(server, "shown") == []
    raw = raw_settings(
        sources=[{"name": "s", **address(server)}],
        targets=[{"name": "x", **address(server)}],
        databases={"ds": {"target": "x", "database": "copied"}},
        tables=[{"name": "hidden.t", "sharding": {"nodes": "ds.t"}}],
    )
    assert left_out in run(parse(raw, {})).problems, "init refuses"


def test_a_replica_that_does_not_log_what_it_replicates_is_a_problem(box: Sandbox, server: DatabaseServer) -> None:
    assert found(server, "shown") == [], "it is none, and the account sees that"
    word = points_to(server, box.source)
    (silent,) = found(server, "shown")
    assert silent.verdict is Verdict.PROBLEM, "it will replicate, though it does not now"
    assert f"is a replica with {LOGS[box.flavour]} OFF" in silent.message
    assert silent.mend.startswith(f"{LOGS[box.flavour]} = ON in the server's option file")
    with closing(CutoverServer(Source(name="s", **address(server)), "source")) as left:
        whole_logs.refuse_replicas([left])
        server.execute(f"START {word}")
        Migration.wait(lambda: replicates(server), 60, "it replicates")
        Migration.wait(lambda: receives(server), 60, "it is connected")
        with pytest.raises(PreflightError, match=f"replicates from {box.source.host}:{box.source.port}: what is"):
            whole_logs.refuse_replicas([left])  # lost: what arrives after the switch; it was listed as somebody's
    (silent,) = as_least(server, "shown")
    assert silent.verdict is Verdict.PROBLEM
    server.execute(f"STOP {word}", f"RESET {word} ALL")


def points_to(server: DatabaseServer, other: DatabaseServer) -> str:
    """It is a replica of another one from here on, which is not started; what its statements call it."""
    word, names = ("SLAVE", "MASTER") if server.flavour == "mariadb" else ("REPLICA", "SOURCE")
    file, pos = log_end(other)
    change = "CHANGE MASTER TO" if server.flavour == "mariadb" else "CHANGE REPLICATION SOURCE TO"
    more = "" if server.flavour == "mariadb" else ", GET_SOURCE_PUBLIC_KEY=1"
    server.execute(
        f"{change} {names}_HOST='{other.host}', {names}_PORT={other.port}, {names}_USER='{other.user}',"
        f" {names}_PASSWORD='{other.password}', {names}_LOG_FILE='{file}', {names}_LOG_POS={pos}{more}"
    )
    return word


def receives(server: DatabaseServer) -> bool:
    with closing(connect(server_of(server), "source 's'")) as connection:
        return bool(left_out.receives_from(connection))


def test_where_replication_is_not_shown_a_server_that_would_not_log_it_is_told(server: DatabaseServer) -> None:
    server.execute(f"REVOKE {SEES[server.flavour]} ON *.* FROM least@'%'") if server.flavour == "mysql" else None
    replication = [one for one in as_least(server, "shown") if LOGS[server.flavour] in one.message]
    assert [one.verdict for one in replication] == [Verdict.NOTE]
    assert f"GRANT {SEES[server.flavour]} ON *.*" in replication[0].mend
    server.execute(f"GRANT {SEES[server.flavour]} ON *.* TO least@'%'")
    assert as_least(server, "shown") == []


def test_a_node_of_a_cluster_that_does_not_log_what_others_write_is_a_problem(server: DatabaseServer) -> None:
    """Lost: every write of another Galera node: it has no channel, and only channels were asked for."""
    if server.flavour == "mysql":
        assert "wsrep_on" not in dict(server.query("SHOW GLOBAL VARIABLES LIKE 'wsrep%'"))
        return
    server.kill()
    server.options["wsrep_on"] = "ON"
    server.start()
    (silent,) = found(server, "shown")
    assert silent.verdict is Verdict.PROBLEM
    assert "a node of a Galera cluster with log_slave_updates OFF" in silent.message
    assert silent.mend == "log_slave_updates = ON in the server's option file, and restart it"
    del server.options["wsrep_on"]


def test_only_databases_that_the_log_is_for_pass_and_a_replica_that_logs(server: DatabaseServer) -> None:
    server.kill()
    server.options |= {"binlog_do_db": "shown", LOGS[server.flavour]: "ON"}
    server.start()
    assert not logged(server, "third")
    (left_out,) = found(server, "shown", "third", "fourth")
    assert left_out.verdict is Verdict.PROBLEM
    assert "binlog_do_db keeps changes of fourth, third out of the binlog" in left_out.message
    assert found(server, "shown") == []
    assert as_least(server, "shown") == []
