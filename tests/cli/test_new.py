"""`migrate new`: what it writes is ready for preflight, and its rules spread the rows that are there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.cli.support import MIGRATE, SECRET, Outcome, conversation, migrate
from tests.helpers import scratch

ROWS = 3200
PLACES = 16
UNSET = "NOT_SET_ANYWHERE"
NUMBERS = range(1, ROWS + 1)
CODES = ", ".join(f"('c-{n}', {n})" for n in NUMBERS)
TABLES = (
    "CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, status INT NOT NULL, v VARCHAR(20))",
    f"INSERT INTO orders (status) VALUES {', '.join(f'({n % 3})' for n in NUMBERS)}",
    # ids in steps, as several servers give them: their last digits choose one shard table of sixteen
    "CREATE TABLE steps (id INT PRIMARY KEY)",
    f"INSERT INTO steps VALUES {', '.join(f'({32 * n + 5})' for n in NUMBERS)}",
    "CREATE TABLE codes (code VARCHAR(20) CHARACTER SET ascii PRIMARY KEY, n INT)",
    f"INSERT INTO codes VALUES {CODES}",
    "CREATE TABLE countries (id INT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO countries VALUES (1, 'Chad'), (2, 'Cuba')",
    "CREATE TABLE keyless (v INT)",
)


def account(server: DatabaseServer) -> str:
    return f"{server.user}@{server.host}:{server.port}"


def environment(box: Sandbox) -> dict[str, str]:
    return {
        "SOURCE_PASSWORD": box.source.password,
        "TARGET_PASSWORD": box.targets[0].password,
        "T1_PASSWORD": box.targets[1].password,
    }


def answers(box: Sandbox, kafka: str, database: str) -> list[str]:
    second = box.targets[1]
    return [
        *("--name", database, "--source", account(box.source), "--kafka", kafka, "--table", f"{database}.*"),
        *("--target", account(box.targets[0])),
        *("--target", f"{second.user}:${{T1_PASSWORD}}@{second.host}:{second.port}"),
        *("--shard-from", "100"),
    ]


def new(path: Path, *arguments: str, **variables: str) -> Outcome:
    return migrate(path, "new", *arguments, **variables)


def skew(buckets: Iterable[int]) -> float:
    """Rows of the fullest of all places over those of an average one."""
    found = Counter(buckets)
    return max(found.values()) * PLACES / found.total()


def java_hash(text: str) -> int:
    """String.hashCode(), as its documentation has it."""
    found = 0
    for character in text:
        found = (31 * found + ord(character)) % 2**32
    return found if found < 2**31 else found - 2**32


def rules(path: Path) -> dict[str, dict[str, Any]]:
    return {one["name"].rpartition(".")[2]: one["sharding"] for one in yaml.safe_load(path.read_text())["tables"]}


def test_what_is_written_passes_preflight_and_spreads_the_real_rows(
    tmp_path: Path, box: Sandbox, kafka: KafkaBroker
) -> None:
    path = tmp_path / "made.yaml"
    with scratch(box.source, "made") as database:
        box.source.execute(*TABLES, database=database)
        made = new(path, *answers(box, kafka.bootstrap, database), **environment(box))
        assert made.code == 0, made
        seen = migrate(path, "preflight", **environment(box))
        ids = [int(id_) for (id_,) in box.source.query(f"SELECT id FROM {database}.orders")]
        steps = [int(id_) for (id_,) in box.source.query(f"SELECT id FROM {database}.steps")]
        codes = [str(code) for (code,) in box.source.query(f"SELECT code FROM {database}.codes")]
    assert seen.code == 0, seen
    text = path.read_text()
    for password in environment(box).values():
        assert password not in text + made.out + made.err
    assert f"# {database}.keyless is left out" in text
    found = rules(path)
    assert found["countries"] == {"nodes": f"{database}_0.countries"}
    assert found["orders"]["table"] == {"column": "id", "algorithm": "MOD", "props": {"sharding-count": PLACES}}
    assert skew(id_ % PLACES for id_ in ids) < 1.01
    assert found["codes"]["table"] == {"column": "code", "algorithm": "HASH_MOD", "props": {"sharding-count": PLACES}}
    assert skew(abs(java_hash(code)) % PLACES for code in codes) < 1.5
    assert skew(id_ % PLACES for id_ in steps) == PLACES  # what MOD would make of them
    expression = found["steps"]["table"]["props"]["algorithm-expression"]
    assert expression == f"steps_${{((id as long) * 2654435761L >>> 16) % {PLACES}}}"
    assert skew((id_ * 2654435761 >> 16) % PLACES for id_ in steps) < 1.5
    for table in ("orders", "codes", "steps"):
        (line,) = re.findall(
            rf"{database}\.{table}: 3,200 rows looked at go to 16 of 16 tables, skew (\d\.\d\d)", seen.out
        )
        assert float(line) < 1.5


def test_an_existing_file_is_left_alone_without_force(tmp_path: Path) -> None:
    path = tmp_path / "migrate.yaml"
    path.write_text("name: mine\n")
    message, hint = new(path, "--name", "other").told(2)
    assert message == f"{path} exists"
    assert "--force" in hint
    assert path.read_text() == "name: mine\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--name is missing"),
        (["--name", "a b"], "--name: 'a b' is not made of"),
        (["--name", "m"], "--source is missing"),
        (
            ["--name", "m", "--source", f"root:{SECRET}@127.0.0.1"],
            "--source: what was given is not written as user@host",
        ),
        (["--name", "m", "--source", "127.0.0.1:3306"], "--source: '127.0.0.1:3306' is not written as user@host"),
        (["--name", "m", "--source", "root@127.0.0.1:x"], "--source: '127.0.0.1:x' is not written as host"),
        (
            f"--name m --source root:${{{UNSET}}}@127.0.0.1 --target root@h --kafka h:1 --table a.b".split(),
            f"environment variable {UNSET} is not set",
        ),
    ],
)
def test_an_answer_that_is_missing_or_wrong_is_named(tmp_path: Path, arguments: list[str], said: str) -> None:
    path = tmp_path / "migrate.yaml"
    message, _ = new(path, *arguments).told(2)
    assert message.startswith(said)
    assert not path.exists()


def test_a_column_of_ones_own_is_taken_or_refused_by_name(tmp_path: Path, box: Sandbox, kafka: KafkaBroker) -> None:
    path = tmp_path / "migrate.yaml"
    with scratch(box.source, "column") as database:
        box.source.execute(*TABLES[:2], database=database)
        given = answers(box, kafka.bootstrap, database)
        refused = new(path, *given, "--column", f"{database}.orders=v", **environment(box))
        unknown = new(path, *given, "--column", f"{database}.missing=v", **environment(box))
        taken = new(path, *given, "--column", f"{database}.orders=status", **environment(box))
        whole = new(path, *given, "--whole", f"{database}.o*", "--force", **environment(box))
    assert refused.told(2)[0] == f"{database}.orders: column 'v' cannot be sharded by"
    assert unknown.told(2)[0] == f"{database}.missing is none of the tables to move"
    assert taken.code == 0, taken
    assert f"{database}.orders: sharded by status" in taken.out
    assert whole.code == 0, whole
    assert rules(path) == {"orders": {"nodes": f"{database}_0.orders"}}


def test_a_terminal_is_asked_and_a_password_it_types_is_written_nowhere(
    tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker
) -> None:
    """A start of its own: what is typed goes to a terminal."""
    box, path = mariadb_box, tmp_path / "migrate.yaml"
    with scratch(box.source, "asked") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        typed = {
            "Name of the migration": "asked",
            "Source (user@host:port)": account(box.source),
            "SOURCE_PASSWORD is not set": box.source.password,
            "Targets": account(box.targets[0]),
            "Kafka": kafka.bootstrap,
            "Tables": f"{database}.t",
            "Shard databases in all": "2",
            "Shard tables in each": "2",
        }
        code, shown = conversation(
            [*MIGRATE, "--config", str(path), "new"], typed, TARGET_PASSWORD=box.targets[0].password
        )
    assert code == 0, shown
    assert box.source.password not in shown + path.read_text()
    assert "set SOURCE_PASSWORD, then `migrate --config" in shown
    assert rules(path) == {"t": {"nodes": f"{database}_0.t"}}


def test_servers_and_kafka_are_reached_as_the_options_say(
    tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker
) -> None:
    """Passwords by a program for each server; nothing of them is in the file."""
    path, servers = tmp_path / "made.yaml", (mariadb_box.source, *mariadb_box.targets)
    for server in servers:
        (tmp_path / str(server.port)).write_text(server.password)
    ways = ["--tls", "off", "--password-command", f"cat {tmp_path}/{{port}}"]
    ways += ["--kafka-security", "security.protocol=PLAINTEXT", "--kafka-security", "ssl.key.password=${KEY_PASSWORD}"]
    with scratch(mariadb_box.source, "made") as database:
        mariadb_box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        given = answers(mariadb_box, kafka.bootstrap, database)
        made = new(path, *given, *ways, KEY_PASSWORD=SECRET)
    assert made.code == 0, made
    config = yaml.safe_load(path.read_text())
    for server, found in zip(servers, (config["sources"][0], *config["targets"]), strict=True):
        assert (found["password_command"], found["tls"]) == (["cat", f"{tmp_path}/{server.port}"], {"mode": "off"})
    assert config["kafka"]["security"] == {
        "security.protocol": "PLAINTEXT",
        "ssl.key.password": "${KEY_PASSWORD}",
    }
    assert "password" not in {key for one in (*config["sources"], *config["targets"], config["state"]) for key in one}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (f"sasl.password={SECRET}", "sasl.password is a secret, which no command line takes"),
        ("sasl.username", "'sasl.username' is not written as option=value"),
        ("ssl.engine.location=/x.so", "'ssl.engine.location' loads a library"),
    ],
    ids=["secret", "no_value", "library"],
)
def test_an_option_of_kafka_that_cannot_be_taken_is_named(tmp_path: Path, option: str, said: str) -> None:
    path = tmp_path / "made.yaml"
    made = new(path, "--name", "x", "--source", "u@nowhere:1", "--target", "u@nowhere:1", "--kafka-security", option)
    assert (made.code, said in made.err, path.exists()) == (2, True, False), made
    assert SECRET not in made.out + made.err
