"""The update-time filter in a migration: what another writer made newer stays until the table is caught up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow.test_copy_meets_stream import rows
from tests.flow.test_metrics import of_processes
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark

OLDER, EQUAL, DELETED, WITHOUT, LATE, AFTER = 1, 2, 3, 4, 5, 6
BEFORE, AT, NEWER = (f"2026-03-01 10:00:0{second}" for second in (0, 5, 6))
_MORE = f"metrics: {{listen: '{HOST}:0'}}\ncopy: {{master: 'local[1]'}}\nverify: {{master: 'local[1]'}}\n"


def test_an_older_change_is_skipped_until_the_table_is_caught_up_and_its_key_is_refreshed(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    columns, table = ", touched DATETIME NULL", "    update_time: touched\n"
    looks = ", compare_seconds: 0.5"
    name = unique("older")
    flow = Flow(box, kafka, tmp_path, name, box.source, more=_MORE, columns=columns, table=table, consume=looks)

    def change(*statements: str) -> None:
        box.source.execute(*statements, database=flow.database)

    def update(key: int) -> str:
        return f"UPDATE orders SET history = 'ours', touched = '{AT}' WHERE id = {key}"

    def another_writes(key: int, statement: str) -> None:
        """At the target, where the row belongs; {} is its table."""
        half = key % 2
        box.targets[half].execute(statement.format(f"orders_{half}"), database=f"{flow.name}_{half}")

    def outdated() -> int:
        return int(flow.migration.ask("status")["outdated"])

    def blockers() -> set[str]:
        return {one["kind"] for one in flow.migration.ask("status")["blockers"]}

    with closing(flow):
        change(*(f"INSERT INTO orders VALUES ({key}, {key}, 0, 'old', '{BEFORE}')" for key in range(OLDER, AFTER + 1)))
        flow.migration.do("init")
        for process in ("publish", "commit", "requeue"):
            flow.child(process, process)
        consumer = flow.child("consume", "consume")
        wait(flow.position, "the first position")
        times = {OLDER: NEWER, EQUAL: AT, DELETED: NEWER, WITHOUT: None, LATE: NEWER}
        for key, time in times.items():
            value = "NULL" if time is None else f"'{time}'"
            another_writes(key, f"INSERT INTO {{}} VALUES ({key}, {key}, 0, 'theirs', {value})")

        # The copy is open.
        change(*map(update, (OLDER, EQUAL, WITHOUT)), f"DELETE FROM orders WHERE id = {DELETED}")
        kept = {OLDER: "theirs", EQUAL: "ours", WITHOUT: "ours", LATE: "theirs"}
        wait(lambda: rows(flow) == kept, "all but the older change, and the delete")
        wait(outdated, "the key that was skipped")
        assert outdated() == 1
        assert "outdated" in blockers()
        (entry,) = flow.migration.ask("explain", f"{flow.database}.orders", str(OLDER))["outdated"]
        assert entry["place"] == f"t1/{flow.name}_1.orders_1"
        assert "the row is newer by its update time" in flow.migration.do("explain", f"{flow.database}.orders", "1")
        assert "update_time: 1 key skipped" in flow.migration.do("status")
        assert of_processes(flow.directory)["consume"]["migrate_outdated_changes_total",] == 1

        # A change from before the copy's end comes behind it.
        consumer.stop(SLOW)
        change(update(LATE))
        flow.migration.do("copy")
        assert outdated() == 1, "refreshed before all that is filtered was applied"
        assert "outdated" in blockers()
        assert rows(flow) == {**kept, AFTER: "old"}
        flow.child("consume_on", "consume")
        flow.drain()
        assert (outdated(), flow.differences(box.source)) == (0, [])
        assert "outdated" not in blockers()
        assert of_processes(flow.directory)["consume"]["migrate_outdated_changes_total",] == 1, (
            "the late one, by another process"
        )
        told = flow.children("requeue")[0].log.read_text("utf-8").splitlines()
        asked = [line for line in told if "refreshed" in line]
        assert len(asked) == 1, asked
        assert "keys=2" in asked[0], asked

        # Caught up: order decides.
        another_writes(AFTER, f"UPDATE {{}} SET history = 'theirs', touched = '{NEWER}' WHERE id = {AFTER}")
        change(update(AFTER))
        flow.drain()
        assert (outdated(), flow.differences(box.source)) == (0, [])
        assert flow.migration.ask("verify")["differences"] == 0
        log = flow.children("requeue")[0].log.read_text("utf-8")
        assert "lost" not in log, log  # it knows its own requests in the topic, and none is missing
        assert flow.migration.ask("status")["halted"] == []
