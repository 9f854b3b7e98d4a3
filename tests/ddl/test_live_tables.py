"""`--nodes` and `--rule` that name tables of a live migration: refused, with the command that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from migrate.mysql import catalog
from migrate.state import finished, position, schema_history
from migrate.state import migration as migrations
from migrate.state.migration import Migration
from migrate.target import filled
from sandbox.stack import Sandbox
from tests import forked
from tests.copy.setup import Laid, lay, spread
from tests.ddl.test_migration import CREATE
from tests.helpers import address, globally, service_tables, session

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


def add_reverse_stream(laid: Laid) -> None:
    """As `migrate --reverse init` does, and its publisher's first position."""
    name, target = laid.settings.name, laid.box.targets[0]
    back, database = f"{name}-reverse", f"{name}_ds_0"
    with session(laid.box.source, laid.source) as there:
        for statement in service_tables(back):
            there.query(statement.replace("%", "%%"))
        filled.note(there, back, {"t": False})
    with session(target) as there, laid.state().begin() as connection:
        facts = catalog.server_facts(there)
        migrations.create(connection, Migration(back, ()), "")
        migrations.note_reverse(connection, back, name)
        for table in ("t_0", "t_1"):
            schema_history.add(connection, back, catalog.load_table(there, "t0", database, table), None)
        begun = position.Position("t0", "127.0.0.1", facts.server_id, facts.uuid, 2, 1, "binlog.000001", 4)
        position.save(connection, back, begun)


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
    if box.source.flavour == "mariadb":  # it has no UUID
        with session(box.source) as there:
            ((known_by,),) = there.query("SELECT @@GLOBAL.server_id")
        other_one = {**raw, "databases": {**raw["databases"], "new": {"target": "t0", "database": source}}}
        box.targets[0].execute(f"CREATE DATABASE {source}", f"CREATE TABLE {source}.t LIKE {name}_ds_0.t_0")
        with globally(box.targets[0], "server_id", int(known_by)):
            code, told = typed(tmp_path, other_one, "plan", ADD, "--nodes", "new.t")
        assert (code, "give it a server_id of its own (SET GLOBAL server_id)" in told) == (3, True), told
        code, told = typed(tmp_path, other_one, "plan", ADD, "--nodes", "new.t")
        assert (code, "1 table: ready" in told) == (0, True), told
        box.targets[0].execute(f"DROP DATABASE {source}")
    for free in ("ds_0.o_0", "old.o"):
        code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", free)
        assert (code, "1 table: ready" in told) == (0, True), told

    add_reverse_stream(laid)
    for node, does in (("ds_0.t_${0..1}", "writes to it"), ("old.t", f"reads it as {source}.t of source 'main'")):
        code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", node)
        said = " ".join(told.split())
        assert (code, f"migration '{name}' {does}, and is not finished" in said) == (3, True), told
        assert (said.count("PROBLEM:"), f"{name}-reverse" in said) == (1, False), told

    with session(box.targets[0], f"{name}_ds_0") as there:  # a table that was taken out, with its database
        filled.note(there, name, {"t_0": False, "t_1": False, "o_0": False})
    code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", "ds_0.o_0")
    forgets = f"DELETE FROM `{name}_ds_0`.`_migrate_filled` WHERE migration IN ('{name}', '{name}-reverse'); DELETE"
    assert (code, f"where they were taken out of it, in each database that it uses no more: {forgets}" in told) == (
        3,
        True,
    ), told
    note_filled(laid)

    other = {key: raw[key] for key in ("state", "targets", "databases")} | {"name": "others"}
    code, told = typed(tmp_path, other, "plan", ADD, "--nodes", "ds_0.t_0")
    assert f"run `migrate ddl` with the config file of '{name}', without --nodes, and with the statement for" in told
    away = {**raw, "state": {**raw["state"], "database": f"{name}_no_state"}}
    both = f"WHERE migration IN ('{name}', '{name}-reverse')"
    for node, database in (("ds_0.t_0", f"{name}_ds_0"), ("old.t", source)):
        code, told = typed(tmp_path, away, "plan", ADD, "--nodes", node)  # the database tells it all the same
        assert (code, f"migration '{name}' writes to it" in told) == (3, True), told
        for table in ("_migrate_filled", "_migrate_role"):
            assert f"DELETE FROM `{database}`.`{table}` {both}" in told

    with laid.state().begin() as connection:
        finished.mark(connection, name, {})
    for free in ("ds_0.t_0", "old.t"):
        code, told = typed(tmp_path, raw, "plan", ADD, "--nodes", free)
        assert (code, "1 table: ready" in told) == (0, True), told
