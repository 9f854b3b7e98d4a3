"""`migrate ddl` as it is typed, by a rule file, with accounts that have the grants of docs/grants.md alone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.database import DatabaseServer
from sandbox.paths import PROJECT
from sandbox.stack import Sandbox
from tests.cli.support import MIGRATE, Outcome, conversation, migrate
from tests.ddl.support import ADD, NEW, OLD, TABLE
from tests.flow.test_grants import PASSWORD, statements
from tests.helpers import address, unique

RULES = """
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_$->{0..1}.orders_$->{0..1}
      databaseStrategy: {standard: {shardingColumn: user_id, shardingAlgorithmName: by_user}}
      tableStrategy: {standard: {shardingColumn: id, shardingAlgorithmName: by_id}}
  shardingAlgorithms:
    by_user: {type: INLINE, props: {algorithm-expression: "ds_${user_id % 2}"}}
    by_id: {type: INLINE, props: {algorithm-expression: "orders_${id % 2}"}}
"""


@dataclass(frozen=True)
class Typed:
    """A config file of servers alone, and shard tables that its accounts may alter."""

    name: str
    directory: Path
    servers: Sequence[DatabaseServer]

    @property
    def config(self) -> Path:
        return self.directory / "migrate.yaml"

    @property
    def places(self) -> list[tuple[DatabaseServer, str]]:
        return [(server, f"{self.name}_{number}") for number, server in enumerate(self.servers)]

    def words(self, *words: str) -> list[str]:
        named = words[0] in ("plan", "run")
        return ["ddl", *words, *(["--rule", str(self.directory / "rules.yaml")] if named else [])]

    def ddl(self, *words: str) -> Outcome:
        return migrate(self.config, *self.words(*words))

    def command(self, *words: str) -> list[str]:
        """Of a process of its own."""
        return [*MIGRATE, "--config", str(self.config), *self.words(*words)]

    def json(self, *words: str, code: int = 0) -> Any:
        done = self.ddl(*words, "--json")
        assert done.code == code, done
        return json.loads(done.out)

    def columns(self) -> list[list[str]]:
        found = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        return [
            [str(row[0]) for row in server.query(f"{found} ORDER BY ORDINAL_POSITION", (database, table))]
            for server, database in self.places
            for table in ("orders_0", "orders_1")
        ]

    def shards(self) -> list[str]:
        return [f"t{place}/{name}.orders_{table}" for place, (_, name) in enumerate(self.places) for table in (0, 1)]

    def count(self, sql: str) -> list[int]:
        """A number of each shard table."""
        return [
            int(server.query(sql.format(table), database=database)[0][0])
            for server, database in self.places
            for table in ("orders_0", "orders_1")
        ]

    def everywhere(self, verb: str, privilege: str, on: str) -> None:
        """GRANT … TO or REVOKE … FROM the account."""
        word = {"GRANT": "TO", "REVOKE": "FROM"}[verb]
        for server in self.servers:
            server.execute(f"{verb} {privilege} ON {on} {word} '{self.name}_target'@'%'")


@pytest.fixture
def typed(box: Sandbox, tmp_path: Path) -> Iterator[Typed]:
    name, servers = unique("typed"), box.targets[:2]
    made = Typed(name, tmp_path, servers)
    state, flavour = servers[0], box.flavour

    def at(server: DatabaseServer, account: str) -> dict[str, Any]:
        return {"host": server.host, "port": server.port, "user": f"{name}_{account}", "password": PASSWORD}

    config = {
        "name": name,
        "state": {**at(state, "state"), "database": f"{name}_state"},
        "targets": [{"name": f"t{number}", **at(server, "target")} for number, server in enumerate(servers)],
        "databases": {
            f"ds_{number}": {"target": f"t{number}", "database": database}
            for number, (_, database) in enumerate(made.places)
        },
        "lease": {"seconds": 2},
    }
    made.config.write_text(yaml.safe_dump(config))
    (tmp_path / "rules.yaml").write_text(RULES)
    state.execute(*statements("State", flavour, name))
    for server, database in made.places:
        account, *_ = statements("Targets", flavour, name)
        server.execute(account, *statements("DDL over shards", flavour, name), f"CREATE DATABASE {database}")
        for table in ("orders_0", "orders_1"):
            fill = f"INSERT INTO {table} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')"
            server.execute(TABLE.format(table), fill, f"ANALYZE TABLE {table}", database=database)
    yield made
    for server, database in made.places:
        server.execute(f"DROP DATABASE {database}", f"DROP USER '{name}_target'@'%'")
    state.execute(f"DROP DATABASE IF EXISTS {name}_state", f"DROP USER '{name}_state'@'%'")


def test_a_plan_for_programs_has_all_that_the_one_for_people_has(typed: Typed) -> None:
    found = typed.json("plan", ADD)
    assert (found["table"], found["loses"], found["problems"]) == ("orders", [], [])
    assert found["undo_loses"] == ["the values of column note"]
    assert [one["shard"] for one in found["shards"]] == typed.shards()
    (_, database), *_ = typed.places
    named = f"`{database}`.`orders_0`"
    assert found["shards"][0] == {
        "shard": f"t0/{database}.orders_0",
        "side": "target",
        "statement": f"ALTER TABLE {named} ALGORITHM=INSTANT, {ADD.removeprefix('ALTER TABLE orders ')}",
        "algorithm": "INSTANT",
        "lock": "",
        "rows": 3,
        "bytes": 2 * 16_384,
        "foreign_keys": [],
        "triggers": [],
        "in_the_way": [],
        "undo": f"ALTER TABLE {named} DROP COLUMN `note`",
        "undo_algorithm": "INSTANT",
        "not_undone_because": None,
        "refused": None,
        "notes": [],
    }
    refused = typed.json("plan", "ALTER TABLE orders DROP COLUMN user_id, ADD KEY (user_id)", code=3)
    assert {one["shard"]: bool(one["refused"]) for one in refused["shards"]} == dict.fromkeys(typed.shards(), True)
    lossy = typed.json("plan", "ALTER TABLE orders DROP COLUMN user_id", code=3)
    assert [one["not_undone_because"] for one in lossy["shards"]] == [
        "the values of column user_id: no statement brings that back"
    ] * 4
    assert [one["what"] for one in lossy["problems"]] == [
        "column user_id says where a row belongs, or is in the key",
        "the statement loses the values of column user_id",
    ]
    assert typed.columns() == OLD


def test_runs_by_a_rule_file_are_told_in_lines_as_json_and_by_their_number(typed: Typed) -> None:
    first, *others = typed.shards()
    done = typed.ddl("run", ADD, "--first", "1", "--wait", "0.5")
    assert (done.code, typed.columns()) == (0, NEW)
    assert re.fullmatch(r"run 1: 4 of 4 tables new, finished at \S+ \S+ UTC", done.out.strip())
    assert done.lines[:2] == [f"{first}: new", "1 table done; the others follow in 0.5 s"]
    assert sorted(done.lines[2:]) == [f"{one}: new" for one in others]
    second = typed.ddl("run", "CREATE INDEX by_v ON orders (v)", "--json")
    told = json.loads(second.out)
    assert (second.code, second.lines) == (0, []), "programs are not told of progress"
    assert (told["number"], told["goal"], told["paused"], told["counts"]) == (2, "new", False, {"new": 4})
    assert [(one["server"], one["table"], one["stage"], one["attempts"]) for one in told["shards"]] == [
        (f"t{place}", f"orders_{table}", "new", 1) for place in (0, 1) for table in (0, 1)
    ]
    keys = "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()"
    by_v = f"{keys} AND TABLE_NAME = '{{}}' AND INDEX_NAME = 'by_v'"
    assert typed.count(by_v) == [1] * 4
    assert typed.ddl("undo").out.startswith("run 2: 4 of 4 tables old, finished at ")
    assert typed.count(by_v) == [0] * 4
    earlier, last = typed.ddl("status", "--run", "1").out, typed.ddl("status").out
    assert earlier.startswith(f"run 1: {ADD}\n  target {first}: new at ")
    assert last.startswith(f"run 2: CREATE INDEX by_v ON orders (v)\n  target {first}: old at ")
    assert typed.json("status", "--run", "1")["statement"] == ADD
    message, hint = typed.ddl("status", "--run", "9").told(3)
    assert (message, hint) == (f"there is no run 9 of '{typed.name}'", "`migrate ddl run` begins one")


def test_before_the_first_run_there_is_nothing_to_show_or_take_back(typed: Typed) -> None:
    """Lost: an advice of `migrate init`, which a config without a migration has no use for."""
    for command in ("status", "resume", "undo"):
        message, hint = typed.ddl(command).told(3)
        assert (message, hint) == (f"there is no run of '{typed.name}'", "`migrate ddl run` begins one"), command


def test_a_replica_of_the_config_is_waited_for_until_ctrl_c(typed: Typed) -> None:
    """Lost: its lag, where the config names no tables: a run took replicas from a migration's config alone."""
    server = typed.servers[0]
    config = yaml.safe_load(typed.config.read_text())
    config["copy"] = {"throttle": {"replicas": [address(server)]}}
    typed.config.write_text(yaml.safe_dump(config))
    process = subprocess.Popen(typed.command("run", ADD), stderr=subprocess.PIPE, text=True, cwd=PROJECT)
    assert process.stderr is not None
    with process, closing(process.stderr) as told:
        assert next(iter(told)) == f"waiting: replica {server.host}:{server.port} does not replicate\n"
        process.send_signal(signal.SIGINT)
        rest = told.read()
    assert process.returncode == 4, rest
    assert "migrate: run 1 was stopped: 0 of 4 tables are new\n" in rest
    assert typed.columns() == OLD
    assert typed.ddl("resume", "--max-replica-lag-seconds", "0").code == 0
    assert typed.columns() == NEW


def test_what_an_account_may_not_do_is_told_with_the_grant(typed: Typed) -> None:
    truncate = ("run", "TRUNCATE TABLE orders", "--allow-data-loss")
    message, hint = typed.ddl(*truncate).told(3)
    assert "whether a TRUNCATE was done could not be told after a kill" in message
    assert hint.startswith("GRANT PROCESS ON *.* to the account")
    assert typed.count("SELECT COUNT(*) FROM {}") == [3] * 4
    typed.everywhere("GRANT", "PROCESS", "*.*")
    assert typed.ddl(*truncate).code == 0
    assert typed.count("SELECT COUNT(*) FROM {}") == [0] * 4
    escaped = typed.name.replace("_", r"\_")
    for privilege in ("ALTER", "CREATE"):
        typed.everywhere("REVOKE", privilege, rf"`\_migrate\_trial\_{escaped}`.*")
        message, hint = typed.ddl("run", ADD).told(4)
        assert "trying the statement" in message
        assert hint == "docs/grants.md, under DDL over shards, has the statement"
        typed.everywhere("GRANT", privilege, rf"`\_migrate\_trial\_{escaped}`.*")
    (server, database), *_ = typed.places
    schema = f"`{database.replace('_', chr(92) + '_')}`.*"
    server.execute(f"REVOKE ALTER ON {schema} FROM '{typed.name}_target'@'%'")
    stopped = typed.ddl("run", ADD, "--json")
    message, _ = stopped.told(4)
    assert message.startswith("run 2: ")
    assert f"{typed.shards()[0]}: ALTER command denied to user" in message
    first, *_ = json.loads(stopped.out)["shards"]  # programs are told how far a run came that an error ended
    assert (first["stage"], first["detail"].startswith("ALTER command denied")) == ("failed", True)
    server.execute(f"GRANT ALTER ON {schema} TO '{typed.name}_target'@'%'")
    assert typed.ddl("resume").code == 0
    assert typed.columns() == NEW


def test_on_a_terminal_there_is_a_table_of_progress(typed: Typed) -> None:
    """Lost: the outcome. It was printed while the table was there, whose last picture was drawn over it."""
    code, shown = conversation(typed.command("run", ADD), {})
    assert (code, typed.columns()) == (0, NEW), shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    last = plain[plain.rindex("shard table") :]
    for shard in typed.shards():
        assert re.search(rf"{re.escape(shard)} *│ *new", last), last
    assert "4 new" in last
    assert "run 1: 4 of 4 tables new, finished at " in last
