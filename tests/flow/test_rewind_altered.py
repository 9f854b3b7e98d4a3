"""`migrate publish --from` a place before the table was altered: right, or refused before anything comes again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, TABLES, Flow, wait
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    made = Flow(box, kafka, tmp_path, unique("altered"), box.source, columns=", a INT NULL", table="    ddl: ignore\n")
    made.migration.do("init")
    made.start_targets()
    yield made
    made.close()


def alter(flow: Flow, change: str) -> None:
    """At every target, then at the source; nothing writes meanwhile."""
    flow.drain()
    for database in range(TABLES):
        flow.box.targets[database].execute(
            *(f"ALTER TABLE orders_{table} {change}" for table in range(TABLES)), database=f"{flow.name}_{database}"
        )
    flow.box.source.execute(f"ALTER TABLE orders {change}", database=flow.database)


def insert(flow: Flow, first: int, column: str) -> None:
    flow.box.source.execute(
        *(
            f"INSERT INTO orders (id, user_id, value, history, {column}) VALUES ({key}, {key}, 1, '', {key})"
            for key in range(first, first + 10)
        ),
        f"UPDATE orders SET user_id = user_id + 1, value = 2 WHERE id IN ({first}, {first + 1}, 1)",
        f"UPDATE orders SET id = id + 1000 WHERE id = {first + 2}",
        f"DELETE FROM orders WHERE id = {first + 3}",
        database=flow.database,
    )


def place(flow: Flow) -> str:
    flow.drain()
    found = flow.position()
    return f"{found['file']}:{found['pos']}"


def test_a_rewind_over_statements_is_right_and_over_a_rename_refused(flow: Flow) -> None:
    source = flow.box.source
    publisher = flow.child("publish", "publish")
    wait(flow.position, "a start")
    begin = place(flow)
    insert(flow, 1, "a")
    alter(flow, "ADD COLUMN extra INT NOT NULL DEFAULT 7")
    insert(flow, 101, "extra")
    flow.drain()
    publisher.stop()

    again = flow.child("publish-again", "publish", "--from", begin, "--yes")
    wait(lambda: flow.position()["incarnation"] == 2, "the rewind")
    flow.drain()
    assert again.running
    assert flow.differences(source) == []

    alter(flow, "RENAME COLUMN a TO b")
    behind = place(flow)
    insert(flow, 201, "b")
    flow.drain()
    assert flow.differences(source) == []
    again.stop()
    before = flow.position()
    refused = flow.child("publish-refused", "publish", "--from", begin, "--yes")
    assert refused.wait(SLOW), "it goes back over the rename"
    assert refused.returncode == 5
    assert f"may have given columns of {flow.database}.orders other names" in refused.log_tail()
    assert flow.position() == before

    last = flow.child("publish-last", "publish", "--from", behind, "--yes")  # behind the rename
    wait(lambda: flow.position()["incarnation"] == 3, "the rewind")
    insert(flow, 301, "b")
    flow.drain()
    assert last.running
    assert flow.differences(source) == []
    assert len(flow.source_rows(source)) == 4 * 9
