"""What a user is told when something is wrong: one line, a hint, an exit code, no traceback and no password."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.paths import PROJECT
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.cli.support import MIGRATE, SECRET, Outcome, config_of, migrate, python_m_migrate, written
from tests.failover.support import wait
from tests.helpers import address, globally, scratch, unique


@pytest.fixture(scope="module")
def database(box: Sandbox) -> Iterator[str]:
    """A source database with a table t that could be migrated."""
    with scratch(box.source, "cli") as name:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=name)
        yield name


@pytest.fixture(scope="module", autouse=True)
def init_without_kafka(
    mariadb_box: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """Started with the module's first test, as the client waits some seconds for a broker."""
    with scratch(mariadb_box.source, "cli") as name:
        mariadb_box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=name)
        path = written(tmp_path_factory.mktemp("kafka"), config_of(mariadb_box, name))
        command = [*MIGRATE, "--config", str(path), "init"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=PROJECT, text=True, stdout=pipe, stderr=pipe) as process:
            made = f"SHOW DATABASES LIKE '{name}_state'"
            # from then on it looks at no setting of the source any more, which tests here change
            wait(lambda: mariadb_box.targets[0].query(made) or process.poll() is not None, "init to begin")
            yield process
            process.kill()


def closed_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# -- the config file


def test_no_such_file(tmp_path: Path) -> None:
    message, hint = python_m_migrate("--config", str(tmp_path / "none.yaml"), "preflight").told(2)
    assert message == f"no such file: {tmp_path}/none.yaml"
    assert hint == "start from config/example.yaml and pass it with --config"


def test_no_file_named_means_migrate_yaml() -> None:
    message, _ = migrate(None, "status").told(2)
    assert message == "no such file: migrate.yaml"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    message, _ = migrate(None, "status", MIGRATE_CONFIG=str(tmp_path / "other.yaml")).told(2)
    assert message == f"no such file: {tmp_path}/other.yaml"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nonsense": 1}, "unknown key 'nonsense'"),
        ({"consume": {"lookup_keys": "many"}}, "'consume.lookup_keys': Input should be a valid integer"),
        ({"kafka": {}}, "missing key 'kafka.bootstrap'"),
        ({"name": "a/b"}, "'name': "),
        ({"databases": {"ds_0": {"target": "t9", "database": "d"}}}, "databases.ds_0.target: there is no target named"),
    ],
)
def test_a_wrong_config(tmp_path: Path, mariadb_box: Sandbox, change: dict[str, Any], expected: str) -> None:
    path = written(tmp_path, config_of(mariadb_box, "shop", **change))
    message, hint = migrate(path, "preflight").told(2)
    assert message.startswith(expected)
    assert hint == f"in {path}; config/example.yaml shows every key"


def test_a_variable_that_is_not_set(tmp_path: Path, mariadb_box: Sandbox) -> None:
    source = {"name": "main", **address(mariadb_box.source, password="${CLI_TEST_PW}")}
    path = written(tmp_path, config_of(mariadb_box, "shop", sources=[source]))
    message, hint = migrate(path, "preflight").told(2)
    assert message == "environment variable CLI_TEST_PW, named by 'sources.0.password', is not set"
    assert hint == "export CLI_TEST_PW=... before the command"


def test_a_sample_password(tmp_path: Path, mariadb_box: Sandbox) -> None:
    path = written(tmp_path, config_of(mariadb_box, "shop", state=address(mariadb_box.source, password="changeme")))
    message, _ = migrate(path, "preflight").told(2)
    assert message.startswith("'state.password': is empty or a sample password")


def test_two_sources_and_none_chosen(tmp_path: Path, mariadb_box: Sandbox) -> None:
    sources = [{"name": name, **address(mariadb_box.source)} for name in ("one", "two")]
    table = {"sharding": {"nodes": "ds_0.t"}}
    tables = [{"name": "shop.t", "source": "one", **table}, {"name": "shop.u", "source": "two", **table}]
    path = written(tmp_path, config_of(mariadb_box, "shop", sources=sources, tables=tables))
    message, hint = migrate(path, "publish").told(2)
    assert (message, hint) == ("there are several sources", "choose one with --source: one, two")
    message, hint = migrate(path, "publish", "--source", "three").told(2)
    assert (message, hint) == ("there is no source named 'three'", "sources in the config: one, two")


# -- the servers


def test_a_source_that_does_not_answer(tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker) -> None:
    port = closed_port()
    source = {"name": "main", **address(mariadb_box.source, port=port, password=SECRET)}
    path = written(tmp_path, config_of(mariadb_box, "shop", sources=[source], kafka={"bootstrap": kafka.bootstrap}))
    message, hint = migrate(path, "init").told(4)
    assert message.startswith(f"source 'main' at 127.0.0.1:{port}: the server does not answer: ")
    assert hint == "check that it is running, and that host and port are right"
    looked(migrate(path, "preflight"), message, hint)


def test_a_wrong_password(tmp_path: Path, box: Sandbox, kafka: KafkaBroker) -> None:
    source = {"name": "main", **address(box.source, password=SECRET)}
    path = written(tmp_path, config_of(box, "shop", sources=[source], kafka={"bootstrap": kafka.bootstrap}))
    message, hint = migrate(path, "init").told(4)
    assert message.startswith(f"source 'main' at 127.0.0.1:{box.source.port}: wrong user or password (Access denied")
    assert hint == "check user and password in the config"
    looked(migrate(path, "preflight"), message, hint)


def looked(preflight: Outcome, message: str, mend: str) -> None:
    """Preflight tells it as what it could not look at, and looks at everything else."""
    assert preflight.code == 3, preflight
    assert SECRET not in preflight.out + preflight.err
    assert f"could not look  {message}\n                → {mend}\n" in preflight.out
    assert "pass  state server answers" in preflight.out


def test_a_sharding_rule_that_does_not_fit_is_a_problem_of_preflight_too(
    tmp_path: Path, box: Sandbox, database: str, kafka: KafkaBroker
) -> None:
    box.source.execute("CREATE TABLE ruled (id INT PRIMARY KEY)", database=database)
    rule = {"nodes": "ds_0.t_$->{0..1}", "table": {"column": "gone", "algorithm": "MOD"}}
    tables = [{"name": f"{database}.ruled", "sharding": rule}]
    config = config_of(box, database, tables=tables, kafka={"bootstrap": kafka.bootstrap})
    found = migrate(written(tmp_path, config), "preflight")
    assert found.code == 3, found
    message, _ = migrate(written(tmp_path, config), "init").told(2)
    assert message.endswith(f"sharding.table.column: table '{database}.ruled' has no column 'gone'")
    assert f"problem  {message}\n" in found.out


@pytest.mark.parametrize("held", ["SELECT", "SUPER", "REPLICATION SLAVE"])
def test_a_missing_grant(tmp_path: Path, box: Sandbox, database: str, held: str) -> None:
    user = unique("poor")[:30]
    monitor = "BINLOG MONITOR" if box.flavour is Flavour.MARIADB else "REPLICATION CLIENT"
    missing = {"SELECT": f"REPLICATION SLAVE, {monitor}", "REPLICATION SLAVE": monitor}
    more = "" if box.flavour is Flavour.MARIADB else " (and 1 more; see `migrate preflight`)"  # LOCK TABLES
    missing["SUPER"] = missing["SELECT"] if box.flavour is Flavour.MARIADB else "REPLICATION SLAVE"
    box.source.execute(
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{SECRET}'",
        f"GRANT {held} ON *.* TO {user}@'127.0.0.1'",
        f"GRANT SELECT ON {database}.* TO {user}@'127.0.0.1'",
    )
    try:
        source = {"name": "main", **address(box.source, user=user, password=SECRET)}
        message, hint = migrate(written(tmp_path, config_of(box, database, sources=[source])), "init").told(3)
    finally:
        box.source.execute(f"DROP USER {user}@'127.0.0.1'")
    assert message == f"source 'main': grant {missing[held]} is missing{more}"
    assert hint.startswith(f"GRANT {missing[held]} ON *.* TO ")


@pytest.mark.parametrize(
    ("table", "told", "mend"),
    [
        ("nowhere", "nowhere is missing", "fix tables[].name in the config, or take the table out"),
        ("keyless", "keyless has no primary key and no NOT NULL unique key", "ADD COLUMN `row_id` BIGINT"),
        ("nullable", "nullable has no key that tells rows apart: unique key id takes NULL, in id", "ADD COLUMN"),
        ("myisam", "myisam uses engine MyISAM", "ENGINE=InnoDB"),
    ],
)
def test_a_table_that_cannot_be_migrated(
    tmp_path: Path, mariadb_box: Sandbox, table: str, told: str, mend: str
) -> None:
    with scratch(mariadb_box.source, "cli") as name:
        mariadb_box.source.execute(
            "CREATE TABLE keyless (id INT, v INT)",
            "CREATE TABLE nullable (id INT UNIQUE)",
            "CREATE TABLE myisam (id INT PRIMARY KEY) ENGINE=MyISAM",
            database=name,
        )
        tables = [{"name": f"{name}.{table}", "sharding": {"nodes": "ds_0.t"}}]
        message, hint = migrate(written(tmp_path, config_of(mariadb_box, name, tables=tables)), "init").told(3)
    assert message == f"source 'main': table {name}.{told}"
    assert mend in hint


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("binlog_format", "STATEMENT", "ROW"),
        ("binlog_format", "MIXED", "ROW"),
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_image", "NOBLOB", "FULL"),
    ],
)
def test_a_binlog_that_does_not_hold_whole_rows(
    tmp_path: Path, box: Sandbox, database: str, name: str, value: str, wanted: str
) -> None:
    raw = config_of(box, database)
    with globally(box.source, name, value):
        message, hint = migrate(written(tmp_path, raw), "init").told(3)
    assert message == f"source 'main': {name} is {value}, needed is {wanted}"
    assert hint.startswith(f"SET GLOBAL {name} = '{wanted}'; ")


def test_partial_updates_of_json_are_refused_before_anything_begins(
    tmp_path: Path, box: Sandbox, database: str
) -> None:
    if box.flavour is not Flavour.MYSQL:
        pytest.skip("MySQL only")
    with globally(box.source, "binlog_row_value_options", "PARTIAL_JSON"):
        message, hint = migrate(written(tmp_path, config_of(box, database)), "init").told(3)
    assert message == "source 'main': binlog_row_value_options is PARTIAL_JSON, needed is ''"
    assert hint.startswith("SET GLOBAL binlog_row_value_options = ''; ")


def test_every_problem_is_counted_by_init_and_listed_by_preflight(
    tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker
) -> None:
    tables = [{"name": f"nowhere.{name}", "sharding": {"nodes": "ds_0.t"}} for name in ("a", "b")]
    path = written(tmp_path, config_of(mariadb_box, "nowhere", tables=tables, kafka={"bootstrap": kafka.bootstrap}))
    with globally(mariadb_box.source, "binlog_row_image", "MINIMAL"):
        message, _ = migrate(path, "init").told(3)
        listed, found = migrate(path, "preflight"), migrate(path, "preflight", "--json")
    problems = [
        "source 'main': binlog_row_image is MINIMAL, needed is FULL",
        *(f"source 'main': table nowhere.{name} is missing" for name in ("a", "b")),
    ]
    assert message == f"{problems[0]} (and 2 more; see `migrate preflight`)"
    assert (listed.code, found.code, listed.lines) == (3, 3, [])
    for problem in problems:
        assert f"problem  {problem}\n" in listed.out
    report = json.loads(found.out)
    assert report["ok"] is False
    assert [result["message"] for result in report["results"] if result["verdict"] == "problem"] == problems


def test_a_source_without_a_binlog(tmp_path: Path, run_root: Path, mariadb_box: Sandbox) -> None:
    server = DatabaseServer(Flavour.MARIADB, run_root / "no-binlog", options={"log_bin": None, "binlog_format": None})
    server.start()
    try:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        raw = config_of(mariadb_box, "shop", sources=[{"name": "main", **address(server)}])
        message, hint = migrate(written(tmp_path, raw), "init").told(3)
    finally:
        server.kill()
    assert message == "source 'main': log_bin is OFF, needed is ON"
    assert hint == "start the server with log_bin"


# -- what has to run first


@pytest.mark.parametrize("command", ["status", "drain", "run", "publish", "consume", "commit", "requeue"])
def test_before_init_every_command_says_what_to_run(tmp_path: Path, mariadb_box: Sandbox, command: str) -> None:
    path = written(tmp_path, config_of(mariadb_box, unique("never")))
    outcome = migrate(path, command)
    message, hint = outcome.told(4)
    assert len(outcome.err.splitlines()) == 2  # and no log lines
    assert message.startswith("state database 'never_")
    assert "Unknown database" in message
    assert hint == "run `migrate init` first"


def test_another_migrations_state_is_not_taken_for_ours(tmp_path: Path, box: Sandbox) -> None:
    from migrate.settings import State
    from migrate.state import database

    name = unique("shared")
    state = State(**address(box.targets[0]), database=name)
    database.create(state)
    try:
        path = written(tmp_path, config_of(box, "shop", state={**address(box.targets[0]), "database": name}))
        for command in ("status", "consume", "publish"):
            outcome = migrate(path, command)
            message, hint = outcome.told(3)
            assert len(outcome.err.splitlines()) == 2
            assert (message, hint) == ("migration 'cli' is not there yet", "run `migrate init` first")
    finally:
        box.targets[0].execute(f"DROP DATABASE {name}")


def test_kafka_that_does_not_answer(init_without_kafka: subprocess.Popen[str]) -> None:
    out, err = init_without_kafka.communicate(timeout=60)
    message, hint = Outcome(init_without_kafka.returncode, out, err).told(4)
    assert message.startswith("Kafka at 127.0.0.1:1: ")
    assert hint == "check that the broker is up, and that kafka.bootstrap is right"


def test_tables_of_a_group_that_are_not_alike_are_all_named_with_what_differs(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with scratch(box.source, "cli") as name:
        made = [f"CREATE TABLE {table} (id INT PRIMARY KEY, {more})" for table, more in _UNLIKE.items()]
        box.source.execute(*made, database=name)
        table = {"name": f"{name}.?", "group": "all", "sharding": {"nodes": "ds_0.t"}}
        path = written(tmp_path, config_of(box, name, tables=[table], kafka={"bootstrap": kafka.bootstrap}))
        found = migrate(path, "preflight")
        assert found.code == 3, found
        columns = f"group 'all': main/{name}.t and main/{name}.u differ in their columns: v, w"
        assert columns in found.out
        assert f"group 'all': main/{name}.w has a further unique key (v)" in found.out
        message, hint = migrate(path, "init").told(3)
        assert message == f"{columns} (and 1 more; see `migrate preflight`)"
        assert hint.startswith("make them alike, or take one out of the group")
        box.source.execute("ALTER TABLE u CHANGE w v INT", "DROP TABLE w", database=name)
        assert "group 'all': 2 tables into 1 target table" in migrate(path, "preflight").out


_UNLIKE = {"t": "v INT", "u": "w INT", "w": "v INT, UNIQUE (v)"}
