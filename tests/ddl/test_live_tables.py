"""`--nodes` and `--rule` that name tables of a live migration: refused, with the command that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from migrate.state import finished
from migrate.target import filled
from sandbox.stack import Sandbox
from tests import forked
from tests.copy.setup import Laid, lay, spread
from tests.ddl.test_migration import CREATE
from tests.helpers import address, session

ADD = "ALTER TABLE t ADD COLUMN n INT"
RULES = """
rules:
- !SHARDING
  tables:
    t:
      actualDataNodes: ds_0.t_$->{0..1}
"""


def typed(directory: Path, raw: Any, *words: str) -> tuple[int, str]:
    config = directory / "migrate.yaml"
    config.write_text(yaml.safe_dump(raw))
    done = forked.run(["--config", str(config), "ddl", *words], {"PATH": "/usr/bin:/bin"}, 200)
    return done.returncode, done.stdout + done.stderr


def note_filled(laid: Laid) -> None:
    """As `migrate init` does."""
    for number in range(4):
        with session(laid.box.targets[number % 2], f"{laid.settings.name}_ds_{number}") as there:
            filled.note(there, laid.settings.name, {"t_0": False, "t_1": False})


def test_tables_of_a_live_migration_are_refused_by_name_and_those_of_no_migration_are_not(
    box: Sandbox, tmp_path: Path
) -> None:
    """Lost: the publisher's policy and the order of the sides; rows with the column stopped at the other tables."""
    laid = lay(box, tmp_path, CREATE, spread("id", "t"))
    name, source = laid.settings.name, laid.source
    raw = dict(laid.raw)
    raw["targets"] = [*raw["targets"], {"name": "s", **address(box.source)}]
    raw["databases"] = {**raw["databases"], "old": {"target": "s", "database": source}}
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    box.targets[0].execute("CREATE TABLE o_0 LIKE t_0", database=f"{name}_ds_0")
    box.source.execute("CREATE TABLE o LIKE t", database=source)

    code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", "ds_0.o_0")  # as an earlier program's init left it
    assert (code, f"migration '{name}' writes to its database, and notes no tables there" in told) == (3, True), told
    assert f"`migrate init` of '{name}' notes its tables" in told
    note_filled(laid)
    for verb in ("plan", "run"):
        code, told = typed(tmp_path, raw, verb, ADD, "--nodes", "ds_${0..1}.t_${0..1}")
        assert code == 3, told
        first = f"t0/{name}_ds_0.t_0, t0/{name}_ds_0.t_1, t1/{name}_ds_1.t_0 and 1 more"
        assert f"{first}: migration '{name}' writes to it, and is not finished" in told
        assert f"leave --nodes out and write the statement for {source}.t: its plan" in told
    code, told = typed(tmp_path, raw, "plan", ADD, "--rule", str(rules))
    assert (code, f"leave --rule out and write the statement for {source}.t:" in told) == (3, True), told
    code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", "old.t")
    assert f"s/{source}.t: migration '{name}' reads it as {source}.t of source 'main', and is not finished" in told
    assert (code, f"leave --nodes out and write the statement for {source}.t:" in told) == (3, True), told
    for free in ("ds_0.o_0", "old.o"):
        code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", free)
        assert (code, "1 table: ready" in told) == (0, True), told

    other = {key: raw[key] for key in ("state", "targets", "databases")} | {"name": "others"}
    code, told = typed(tmp_path, other, "plan", ADD, "--nodes", "ds_0.t_0")
    assert f"run `migrate ddl` with the config file of '{name}', without --nodes, and with the statement for" in told
    away = {**other, "state": {**other["state"], "database": f"{name}_no_state"}}
    code, told = typed(tmp_path, away, "plan", ADD, "--nodes", "ds_0.t_0")  # the target database tells it all the same
    assert (code, f"migration '{name}' writes to it" in told) == (3, True), told
    assert f"DELETE FROM `{name}_ds_0`.`_migrate_filled` WHERE migration = '{name}'" in told
    assert f"DELETE FROM `{name}_ds_0`.`_migrate_role` WHERE migration = '{name}'" in told

    with laid.state().begin() as connection:
        finished.mark(connection, name, {})
    for free in ("ds_0.t_0", "old.t"):
        code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", free)
        assert (code, "1 table: ready" in told) == (0, True), told
