"""A log that does not name columns, altered while the publisher is down, read twice because it is killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import TABLES, Flow, wait
from tests.helpers import globally, unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def targets(flow: Flow, statement: str) -> None:
    for number in range(TABLES):
        flow.box.targets[number].execute(
            *(statement.format(f"orders_{table}") for table in range(TABLES)), database=f"{flow.name}_{number}"
        )


def at_targets(flow: Flow, key: int) -> bool:
    counts = [
        flow.box.targets[number].query(f"SELECT COUNT(*) FROM {flow.name}_{number}.orders_{table} WHERE id = {key}")
        for number in range(TABLES)
        for table in range(TABLES)
    ]
    return sum(int(count[0][0]) for count in counts) == 1


def test_a_publisher_killed_behind_statements_reads_each_row_with_its_columns_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    insert = "INSERT INTO orders (id, user_id, value, history, {2}) VALUES ({0}, {0}, 1, '', {1})"
    with (
        globally(box.source, "binlog_row_metadata", "MINIMAL"),
        closing(
            Flow(box, kafka, tmp_path, unique("minimal"), box.source, columns=", a INT NULL", table="    ddl: ignore\n")
        ) as flow,
    ):
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        box.source.execute(insert.format(1, 11, "a"), database=flow.database)
        flow.drain()
        publisher.stop(60)
        stored = flow.position()

        targets(flow, "ALTER TABLE {0} ADD COLUMN b BIGINT NULL")  # a name that comes, before one that goes
        box.source.execute(
            insert.format(2, 22, "a"),
            "ALTER TABLE orders RENAME COLUMN a TO b",
            insert.format(3, 33, "b"),
            "ALTER TABLE orders MODIFY b BIGINT NULL",
            insert.format(4, 1 << 40, "b"),
            database=flow.database,
        )
        config = flow.migration.config
        written = config.read_text("utf-8")
        config.write_text(written.replace("flush_seconds: 0.2", "flush_seconds: 60"))
        killed = flow.child("publish-killed", "publish", "--source", "main")
        wait(lambda: at_targets(flow, 4), "the last row")
        killed.kill()
        at = ("incarnation", "file", "pos")
        assert [flow.position()[name] for name in at] == [stored[name] for name in at]

        config.write_text(written)
        flow.child("publish-again", "publish", "--source", "main")
        flow.drain()
        targets(flow, "UPDATE {0} SET b = a WHERE a IS NOT NULL")
        targets(flow, "ALTER TABLE {0} DROP COLUMN a")
        assert flow.differences(box.source) == []
        assert {key: row[4] for key, row in flow.source_rows(box.source).items()} == {1: 11, 2: 22, 3: 33, 4: 1 << 40}
        box.source.execute(insert.format(5, 55, "b"), database=flow.database)
        flow.drain()
        assert flow.differences(box.source) == []
