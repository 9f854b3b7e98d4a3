"""What an init would do to a table that goes on, and does not since it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from publishing import Publishing, with_reverse

from migrate.commands import init
from migrate.commands.init import initialise
from migrate.cutover.lock import alone
from migrate.model.errors import ConfigError, PreflightError
from migrate.processes.exclusive import for_everyone
from migrate.state import membership, schema_history, switch
from migrate.state import migration as migrations
from migrate.state.switch import Side, Writes
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """Of two tables, `t` and `u`; its publisher has begun."""
    made = with_reverse(mysql_box.source, mysql_box.targets[0], kafka)
    made.sql("CREATE TABLE u LIKE t")
    made.raw["tables"].append({"name": f"{made.database}.u", "sharding": {"nodes": "ds_0.u"}})
    initialise(made.settings)
    with made.running():
        made.until(lambda: made.position is not None, "the first position")
    yield made
    made.close()


def without_u(main: Publishing, **first: Any) -> None:
    main.raw["tables"] = [{**main.raw["tables"][0], **first}]


def test_a_table_is_not_taken_out_while_applications_are_at_the_targets(main: Publishing) -> None:
    """Lost: what applications wrote to it at the targets: it was in no stream any more, and a rollback put them on the
    sources without those rows."""
    with main.state.begin() as connection:
        switch.put(connection, main.name, Side.TARGET, Writes.OPEN)
    without_u(main)
    with pytest.raises(PreflightError, match="applications are at the targets") as refused:
        initialise(main.settings)
    assert "after `migrate rollback`" in refused.value.hint
    with main.state.connect() as connection:
        assert membership.every(connection, main.name).get(("main", main.database, "u")) is None


def test_an_init_that_refuses_a_rule_has_taken_nothing_from_a_table_that_goes(main: Publishing) -> None:
    """Lost: what waited in the ledger, parked changes and chunk fences of a table that was still a member afterwards:
    they were cleared before the rule of another one was refused."""
    fence = f"SELECT COUNT(*) FROM {main.name}_target._migrate_chunk_fence WHERE table_name = 'u'"
    main.other.execute(
        "INSERT INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt)"
        f" VALUES ('{main.name}', 'main', '{main.database}', 'u', 7, 1)",
        database=f"{main.name}_target",
    )
    before = main.other.query(fence)
    without_u(main, sharding={"nodes": "ds_0.other"})
    with pytest.raises(ConfigError, match="changed since it began"):
        initialise(main.settings)
    assert main.other.query(fence) == before


@pytest.mark.parametrize("between", ["_create_targets", "_make_roles"])
@pytest.mark.parametrize("added", [True, False])
def test_tables_come_and_go_not_behind_a_switch_that_was_made_meanwhile(
    main: Publishing, monkeypatch: pytest.MonkeyPatch, between: str, added: bool
) -> None:
    """Lost: what applications write at the targets to a table that is taken out; and a table that is added, when its
    rows at the sources, which alone has them, are compared with the empty one at the targets."""
    if added:
        main.sql("CREATE TABLE w LIKE t")
        main.raw["tables"].append({"name": f"{main.database}.w", "sharding": {"nodes": "ds_0.w"}})
    else:
        without_u(main)
    step = getattr(init, between)

    def switched(*arguments: Any) -> Any:
        done = step(*arguments)
        with main.state.begin() as connection:
            switch.put(connection, main.name, Side.TARGET, Writes.OPEN)
        return done

    monkeypatch.setattr(init, between, switched)
    with main.state.connect() as connection:
        before = membership.every(connection, main.name)
    with pytest.raises(PreflightError, match="applications are at the targets"):
        initialise(main.settings)
    with main.state.connect() as connection:
        assert membership.every(connection, main.name) == before
        assert {table for _, _, table in schema_history.latest(connection, main.name)} == {"t", "u"}


def test_no_cutover_begins_while_an_init_stands_in_for_every_process(main: Publishing) -> None:
    """Lost: who writes at the targets, as the leases that an init holds passed for running processes."""
    with main.state.connect() as connection:
        known = migrations.get(connection, main.name)
    with for_everyone(main.settings, main.state, known, ""):
        with pytest.raises(PreflightError, match="under way"), alone(main.settings, main.state):
            pass
    with (
        alone(main.settings, main.state),
        pytest.raises(PreflightError, match="'cutover' is held"),
        for_everyone(main.settings, main.state, known, ""),
    ):
        pass
