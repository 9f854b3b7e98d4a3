"""What an init would do to a table that goes on, and does not since it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from publishing import Publishing, with_reverse

from migrate.commands.init import initialise
from migrate.model.errors import ConfigError, PreflightError
from migrate.state import membership, switch
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
