"""A cutover and foreign keys that cascade outside the binlog: MariaDB's (tests/preflight/test_cascades.py has both)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow
from tests.flow.test_cutover import Switched, switched
from tests.flow.test_foreign import listed
from tests.helpers import unique

_ABOVE = (
    ", above BIGINT UNSIGNED NULL INVISIBLE, CONSTRAINT up FOREIGN KEY (above) REFERENCES orders (id) ON DELETE CASCADE"
)


def test_a_cutover_refuses_tables_that_no_marker_can_follow_unless_they_are_said_not_to_change(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: children that went with a parent outside the migration: they stayed at the targets."""
    box = mariadb_box
    with closing(Flow(box, kafka, tmp_path, unique("cascade"), box.source, columns=_ABOVE)) as flow:
        box.source.execute(
            "CREATE TABLE elsewhere (id BIGINT PRIMARY KEY)",
            "ALTER TABLE orders ADD CONSTRAINT out_of FOREIGN KEY (user_id) REFERENCES elsewhere (id)"
            " ON DELETE CASCADE",
            database=flow.database,
        )
        told = f"{flow.database}.orders: rows that this foreign key changes by itself are in no log"
        flow.migration.do("init")
        flow.migration.do("--reverse", "init")

        def refused() -> str:
            child = flow.migration.run("cutover")
            assert child.returncode == 3
            assert "no verification of all tables was clean" in child.stderr, "the rest is named as ever"
            return child.stderr

        said = refused()
        assert f"{told}, and cannot be followed: out_of (ON DELETE CASCADE): its parent " in said
        assert "up (ON" not in said, "its markers follow"
        config, before = flow.migration.config, flow.migration.config.read_text("utf-8")
        for said_of, is_refused in (("[shop.another]", True), (f"[{flow.database}.orders]", False), ("unused", False)):
            config.write_text(f"{before}cutover: {{cascades: {said_of}}}\n", "utf-8")
            assert (told in refused()) is is_refused, said_of


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_a_cascade_left_behind_since_the_verification_keeps_a_cutover_from_switching(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: what a cascade changed after the last verification. No message has the keys of such rows: a cutover looks
    for the values that they had."""
    with switched(mariadb_box, kafka, tmp_path, columns=_ABOVE) as one:
        flow, source = one.flow, one.box.source
        one.write_at_source("UPDATE orders SET above = 2 WHERE id IN (4, 5)")
        flow.drain()
        flow.migration.ask("verify")
        one.write_at_source("DELETE FROM orders WHERE id = 2")
        flow.drain()
        assert flow.differences(source) == []
        # As if nobody had followed: the child stands at the target as it was.
        one.box.targets[0].execute(
            "SET SESSION sql_log_bin = 0",
            "INSERT INTO orders_0 (id, user_id, value, history, above) VALUES (4, 2, 0, '', 2)",
            database=f"{flow.name}_0",
        )
        child = flow.child("refused", "cutover")
        assert child.wait(SLOW)
        said = child.log.read_text("utf-8")
        assert (child.returncode, f'{flow.database}.orders key ["4"] extra' in said) == (1, True), said
        flow.migration.do("refresh", f"{flow.database}.orders", "4")
        flow.migration.ask("cutover")
        assert one.side() == "target"
        assert flow.differences(source) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_parent_is_not_carried_away_from_under_rows_that_refer_to_it(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: the parent of rows that were discarded while it was carried: both sides had them without it, equal, and no
    foreign key of the active side refused. Costs 90 s."""
    with switched(mariadb_box, kafka, tmp_path, columns=_ABOVE) as one:
        flow, source = one.flow, one.box.source
        children_leave_first(one)
        one.write_at_source("UPDATE orders SET above = 2 WHERE id IN (4, 6)")
        flow.drain()
        flow.migration.ask("verify")
        flow.migration.ask("cutover")
        table = f"{flow.database}.orders"
        source.execute("DELETE FROM orders WHERE id = 2", database=flow.database)  # by hand, and 4 and 6 with it
        listed(one, 3)

        told = flow.refused("foreign", "carry", table, "2", code=5)
        assert f"{table}: 2 rows of the active side" in told
        assert f'{table} key ["2"] is to go or to change there' in told
        assert f"`migrate foreign carry {table} " in told
        flow.migration.do("foreign", "discard", table, "4")
        assert f"{table}: 1 row of the active side ('[\"4\"]')" in flow.refused(
            "foreign", "carry", table, "2", "6", code=5
        )
        one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 4")
        flow.migration.do("foreign", "carry", table, "2", "6")
        flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        assert {2, 4, 6}.isdisjoint(flow.source_rows(source))
        assert flow.differences(source) == []
        assert flow.migration.ask("foreign", "list")["listed"] == []


def children_leave_first(one: Switched) -> None:
    """Lost: the way on. Whoever deleted a child, and then its parent, could carry neither: the parent was to go
    first, and its foreign key refused."""
    flow, table = one.flow, f"{one.flow.name}_0.orders_0"
    one.write_at_source("UPDATE orders SET above = 8 WHERE id = 12")
    flow.drain()
    one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 12")
    one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 8")
    listed(one, 2)
    told = flow.refused("foreign", "carry", table, "8", code=5)
    assert "carry them first, or all at once (`migrate foreign carry --all`)" in told
    flow.migration.do("foreign", "carry", "--all")
    assert {8, 12}.isdisjoint(flow.source_rows(one.box.source))
    flow.drain()
