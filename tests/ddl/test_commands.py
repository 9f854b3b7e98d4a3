"""The commands of the page, typed as they stand there, for shard tables of no migration."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from sandbox.stack import Sandbox
from tests import forked
from tests.ddl.support import NEW, NODES, OLD, TABLE
from tests.flow.pages import told
from tests.helpers import address, scratch, unique


def test_the_commands_of_the_page_do_what_it_says(box: Sandbox, tmp_path: Path) -> None:
    one, two = box.targets[:2]
    with scratch(one, "typed") as first, scratch(two, "typed") as second, scratch(one, "state") as state:
        config = {
            "name": unique("typed"),
            "state": {**address(one), "database": state},
            "targets": [{"name": "t1", **address(one)}, {"name": "t2", **address(two)}],
            "databases": {"ds_0": {"target": "t1", "database": first}, "ds_1": {"target": "t2", "database": second}},
            "lease": {"seconds": 2},
        }
        (tmp_path / "migrate.yaml").write_text(yaml.safe_dump(config))
        for server, database in ((one, first), (two, second)):
            server.execute(TABLE.format("orders_0"), TABLE.format("orders_1"), database=database)

        def columns() -> list[list[str]]:
            sql = (
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
                " ORDER BY ORDINAL_POSITION"
            )
            places = [(server, name, f"orders_{n}") for server, name in ((one, first), (two, second)) for n in (0, 1)]
            return [[str(row[0]) for row in server.query(sql, (name, table))] for server, name, table in places]

        said, seen = {}, {}
        for line in told("ddl")[0]:
            words = shlex.split(line)[1:]
            if words[1] in ("plan", "run"):
                words += ["--nodes", NODES]
            said[words[1]] = typed(tmp_path, words)
            seen[words[1]] = columns()
        assert seen == {
            "plan": OLD,
            "run": [*NEW[:1], *OLD[1:]],
            "status": [*NEW[:1], *OLD[1:]],
            "resume": NEW,
            "undo": OLD,
        }
        assert "4 tables: ready" in said["plan"]
        assert f"undo: ALTER TABLE `{first}`.`orders_0` DROP COLUMN `note`" in said["plan"]
        assert "1 of 4 tables new; `migrate ddl resume` continues it" in said["run"]
        assert "t2/" in said["status"]
        assert "4 of 4 tables old, finished" in said["undo"]
        shown = json.loads(typed(tmp_path, ["ddl", "status", "--json"]))
        assert (shown["goal"], shown["counts"]) == ("old", {"old": 4})
        refused = typed(tmp_path, ["ddl", "plan", "ALTER TABLE orders DROP COLUMN v", "--nodes", NODES], code=3)
        assert "LOSES: the values of column v" in refused


def typed(directory: Path, words: list[str], code: int = 0) -> str:
    done: subprocess.CompletedProcess[str] = forked.run(
        ["--config", str(directory / "migrate.yaml"), *words], {"PATH": "/usr/bin:/bin"}, 200
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


FORCE = "ALTER TABLE orders FORCE"
RULES = """
rules:
- !SHARDING
  tables:
    orders: {actualDataNodes: "ds_9.orders_$->{0..1}"}
"""


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["plan", FORCE], "the config names no tables", "--nodes or --rule say which"),
        (["plan", FORCE, "--nodes", "ds_9.orders"], "--nodes: the data source 'ds_9' is not under", "there: ds_0; add"),
        (
            ["plan", FORCE, "--rule", "rules.yaml"],
            "rules.yaml: table 'orders': the data source 'ds_9' is not under 'databases' in the config",
            "databases there: ds_0; add it",
        ),
        (["plan", FORCE, "--nodes", "ds_0.o", "--rule", "x.yaml"], "exclude each other", "leave one of the two out"),
        (
            ["plan", FORCE, "--nodes", "ds_0.o", "--side", "sources"],
            "--side is for tables of a migration, and --nodes names target tables alone",
            "leave --nodes out for the tables of the migration",
        ),
        (
            ["plan", FORCE, "--rule", "x.yaml", "--side", "targets"],
            "--side is for tables of a migration, and --rule names",
            "or --side, for those that --rule names",
        ),
        (["run", FORCE, "--nodes", "ds_0.o", "--wait", "3"], "--wait goes with --first", "--first says how many"),
        (["resume", "--wait", "3"], "--wait goes with --first", "without it the run does not pause"),
    ],
)
def test_what_is_not_given_or_too_much_is_said(tmp_path: Path, words: list[str], message: str, hint: str) -> None:
    server = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "not-a-sample"}
    config = {
        "name": "m",
        "state": server,
        "targets": [{"name": "t", **server}],
        "databases": {"ds_0": {"target": "t", "database": "d"}},
    }
    (tmp_path / "migrate.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "rules.yaml").write_text(RULES)
    words = [str(tmp_path / word) if word == "rules.yaml" else word for word in words]
    done = forked.run(["--config", str(tmp_path / "migrate.yaml"), "ddl", *words], {"PATH": "/usr/bin:/bin"}, 100)
    assert (done.returncode, message in done.stderr, hint in done.stderr) == (2, True, True), done.stderr
