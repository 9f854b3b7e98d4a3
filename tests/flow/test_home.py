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
        before = [mover.moves for mover in movers]
        migration.kill("second")
        wait(lambda: all(mover.moves > was + 60 for mover, was in zip(movers, before, strict=True)), "more moves")
        for mover in movers:
            mover.stop()
        group.drain()
        assert group.differences() == []
        (table,) = migration.ask("verify")["tables"]
        assert (table["differences"], table["rows"]) == (0, table["target_rows"])


def test_a_cutover_of_sharded_sources_is_rehearsed_once_both_streams_run(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = "cutover: {stop: read_only, wait_seconds: 0.5, freeze_seconds: 20, max_lag_seconds: 30}\n"
    with closing(Grouped(box, kafka, tmp_path, unique("homeback"), more, home=True)) as group:
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
        ask("cutover", "--rehearse")
