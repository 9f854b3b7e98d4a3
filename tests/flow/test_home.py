"""Sharded sources whose rule is known: rows that move between them end where they are, and one that does not belong
where it stands is named."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.flow.grouped import Grouped
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # they move rows for a while, one starts Spark
PROCESSES = ("consume", "commit", "requeue")


def begin(group: Grouped) -> None:
    """Every process, and no copy to wait for."""
    group.migration.do("init")
    group.close_copy()
    for source in ("source", "second"):
        group.child(f"publish-{source}", "publish", "--source", source)
    for process in PROCESSES:
        group.child(process, process)
    wait(lambda: all(one["published"] for one in group.migration.ask("status")["sources"]), "both sources")


def test_rows_move_between_the_sources_there_and_back_and_one_that_does_not_belong_is_named(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = "check: {wait_seconds: 3}\n"  # for a partition that is stopped
    with closing(Grouped(box, kafka, tmp_path, unique("home"), more, home=True)) as group:
        begin(group)
        movers = [group.mover(range(2 + first, 300, 23)) for first in (0, 7)]
        wait(lambda: all(mover.moves > 100 for mover in movers), "rows to move")
        for mover in movers:
            mover.stop()
        group.drain()
        assert group.differences() == []

        group.sql(0, "INSERT INTO orders VALUES (1000, 2, 1, 'not here')")
        table = f"{group.database}.orders"
        (halted,) = wait(lambda: group.migration.ask("status")["halted"], "the partition to be stopped")
        assert (
            f'key ["1000"] as its source has it: source/{table}: by `home` the row belongs in second/{table}'
            in (halted["reason"])
        )
        (found,) = group.migration.ask("verify", accept=(1,))["tables"]
        assert [(one["kind"], one["key"]) for one in found["named"]] == [("misplaced", ["1000"])]
        assert f"is in source/{table}, belongs in second/{table} by `home`" in found["named"][0]["detail"]
        group.sql(0, "DELETE FROM orders WHERE id = 1000")
        group.sql(1, "INSERT INTO orders VALUES (1000, 2, 1, 'here')")
        wait(lambda: not group.migration.ask("status")["halted"], "the partition to go on by itself")
        group.drain()
        assert group.differences() == []
        (found,) = group.migration.ask("verify")["tables"]
        assert found["differences"] == 0


def test_rows_that_move_while_they_are_copied_and_a_publisher_dies_end_where_they_are(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Grouped(box, kafka, tmp_path, unique("homecopy"), home=True)) as group:
        for source in (0, 1):
            group.fill(source, 1000)
        migration = group.migration
        migration.do("init")
        migration.start()
        movers = [group.mover(range(2 + first, 2000, 23)) for first in (0, 7)]
        wait(lambda: all(mover.moves > 20 for mover in movers), "rows to move before the copy")
        assert len(migration.ask("copy")["tables"]) == 2
        group.drain_behind_a_kill(movers)
        assert group.differences() == []
        (table,) = migration.ask("verify")["tables"]
        assert (table["differences"], table["rows"]) == (0, table["target_rows"])


def test_sharded_sources_are_left_entered_again_and_left_again_with_every_row_where_it_belongs(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = "cutover: {stop: read_only, wait_seconds: 0.5, freeze_seconds: 60, max_lag_seconds: 60}\n"
    with closing(Grouped(box, kafka, tmp_path, unique("homeback"), more, home=True)) as group:
        group.migration.config.write_text(group.migration.config.read_text().replace("{seconds: 2}", "{seconds: 8}"))
        for source in (0, 1):
            group.fill(source, 500)
        migration = group.migration
        ask, do = migration.ask, migration.do
        do("init")
        migration.start()
        ask("copy")
        group.drain()
        do("--reverse", "init")
        group.child("back", "--reverse", "run")
        ask("--reverse", "drain", "--timeout", "180")
        ask("verify")  # of what both publishers read
        try:
            ask("cutover", "--rehearse")
            assert set(ask("cutover")["ends"]) == {"source", "second"}
            assert ask("status")["stage"] == "switched"
            # Of source 0: row 2 changes, row 4 moves to source 1, row 6 goes; row 3 of source 1 moves to source 0.
            group.at_target(1, "UPDATE orders_0 SET value = -2 WHERE id = 2", "DELETE FROM orders_0 WHERE id = 6")
            group.at_target(0, "UPDATE orders_0 SET user_id = 2, value = -4 WHERE id = 4")
            for number in (0, 1):
                group.at_target(number, "UPDATE orders_1 SET user_id = user_id ^ 2, value = -3 WHERE id IN (3, 5)")
            group.at_target(0, "INSERT INTO orders_1 VALUES (9001, 4, 1, 'new'), (9003, 6, 1, 'new')")
            ask("--reverse", "drain", "--timeout", "180")
            assert group.differences() == []
            assert group.astray() == []
            moved = f"SELECT id, value FROM {group.database}.orders WHERE id IN (2, 3, 4, 5, 6, 9001, 9003) ORDER BY id"
            assert group.sources[0].query(moved) == ((2, -2), (3, -3), (5, -3), (9001, 1))
            assert group.sources[1].query(moved) == ((4, -4), (9003, 1))

            do("rollback")
            assert ask("status")["stage"] == "reversed"
            movers = [group.mover(range(2 + first, 300, 23)) for first in (0, 7)]
            wait(lambda: all(mover.moves > 20 for mover in movers), "rows to move again")
            for mover in movers:
                mover.stop()
            group.drain()
            assert group.differences() == []
            ask("verify")
            ask("cutover")
            group.at_target(0, "DELETE FROM orders_1 WHERE id = 9001")
            ask("--reverse", "drain", "--timeout", "180")
            assert (group.differences(), group.astray()) == ([], [])
        finally:
            for server in {*group.sources, group.target}:
                server.execute("SET GLOBAL read_only = 0")
