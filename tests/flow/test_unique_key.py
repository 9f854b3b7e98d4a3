"""A table without a primary key, told apart by a NOT NULL unique key, from `preflight` to `verify`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark

_FEW = "copy: {chunk_rows: 100, master: 'local[1]'}\nverify: {master: 'local[1]', recheck_seconds: 0.5}\n"


@pytest.mark.parametrize("named", [False, True], ids=["only", "named"])
def test_rows_that_a_unique_key_tells_apart_are_streamed_copied_and_verified(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, named: bool
) -> None:
    """named: one of two, by `key` in the config; with a further unique key all changes travel in one partition."""
    table = "    key: [id]\n" if named else ""
    flow = Flow(box, kafka, tmp_path, unique("keyless"), box.source, more=_FEW, table=table)
    with closing(flow):
        also = ", ADD UNIQUE KEY (value)" if named else ""
        box.source.execute(f"ALTER TABLE orders DROP PRIMARY KEY, ADD UNIQUE KEY (id){also}", database=flow.database)
        flow.fill(box.source, 500)
        flow.migration.do("preflight")
        flow.migration.do("init")
        for process in ("publish", "consume", "commit", "requeue"):
            flow.child(process, process)
        wait(flow.position, "the first position")
        writer = flow.writer(lambda: box.source.connect(flow.database), 3001)
        writer.wait_for(50)
        flow.migration.do("copy")
        box.source.execute(
            "DELETE FROM orders WHERE id BETWEEN 100 AND 150",
            "UPDATE orders SET user_id = user_id + 1, history = 'moved' WHERE id BETWEEN 200 AND 250",
            "UPDATE orders SET id = id + 100001 WHERE id BETWEEN 300 AND 350",
            database=flow.database,
        )
        writer.wait_for(50)
        writer.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []
        assert flow.migration.ask("verify")["differences"] == 0

        box.targets[0].execute("DELETE FROM orders_0 WHERE id = 400", database=f"{flow.name}_0")
        box.targets[0].execute("UPDATE orders_0 SET history = 'other' WHERE id = 404", database=f"{flow.name}_0")
        found = flow.migration.ask("verify", accept=(1,))
        differing = [one for table in found["tables"] for one in table["named"]]
        assert sorted((*one["key"], one["kind"]) for one in differing) == [("400", "missing"), ("404", "different")]
        flow.migration.do("refresh", f"{flow.database}.orders", "400", "404")
        assert flow.differences(box.source) == []
