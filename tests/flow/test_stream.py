"""The stream from source to target on real servers: every kind of change, restarts, kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.waiting import SLOW


@pytest.fixture(scope="module")
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, Path(tmp_path_factory.mktemp("flow")), f"stream_{box.source.flavour}")
    flow.migration.do("init")
    flow.close_copy()
    flow.migration.start()
    yield flow
    flow.migration.stop()


def drained(pipeline: Pipeline) -> None:
    pipeline.migration.ask("drain", "--timeout", "180")


def test_every_kind_of_change_arrives(pipeline: Pipeline) -> None:
    pipeline.sql(
        "INSERT INTO orders (user_id, amount, flags, detail, seen, note, bits, bin) VALUES"
        " (1, 1.5, 'c,a', '{\"a\": [1, null, \"é\"]}', '2024-01-01 00:00:00', 'naïve 🎁 %s %% \\\\ ''',"
        " b'10000000001', 'ab'),"
        " (2, -0.0001, NULL, NULL, NULL, '', 0, x'000000'),"
        " (3, 9999999999999999.9999, '', '[]', NULL, NULL, NULL, NULL)",
        "INSERT INTO orders (user_id, amount) SELECT seq.n, seq.n FROM (WITH RECURSIVE s (n) AS"
        " (SELECT 4 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n FROM s) seq",
        "UPDATE orders SET amount = amount + 1, note = 'changed' WHERE id BETWEEN 4 AND 50",
        "UPDATE orders SET user_id = user_id + 1 WHERE id BETWEEN 40 AND 80",  # to another database
        "UPDATE orders SET id = id + 100001 WHERE id BETWEEN 70 AND 90",  # the key, and so the table
        "DELETE FROM orders WHERE id BETWEEN 20 AND 30",
        "INSERT INTO orders (id, user_id, amount) VALUES (25, 77, 25)",
    )
    drained(pipeline)
    assert pipeline.differences() == []


def test_the_oracle_sees_a_changed_row(pipeline: Pipeline) -> None:
    """Negative control: a difference made by hand is named."""
    pipeline.sql("INSERT INTO orders (id, user_id, amount) VALUES (500000, 0, 1)")
    drained(pipeline)
    pipeline.box.targets[0].execute("UPDATE orders_0 SET amount = 2 WHERE id = 500000", database=f"{pipeline.name}_0")
    assert [line.split(":")[0] for line in pipeline.differences()] == ["different 500000"]
    pipeline.sql("UPDATE orders SET note = 'again' WHERE id = 500000")
    drained(pipeline)
    assert pipeline.differences() == []


def test_a_key_moved_through_three_shards_in_one_batch_is_in_the_last_one_only(pipeline: Pipeline) -> None:
    pipeline.sql("INSERT INTO orders (id, user_id, amount) VALUES (600000, 0, 1)")
    drained(pipeline)
    pipeline.sql(*(f"UPDATE orders SET user_id = {shard} WHERE id = 600000" for shard in (1, 2, 3)))
    drained(pipeline)
    assert pipeline.differences() == []


def test_a_transaction_of_5000_rows_arrives_whole(pipeline: Pipeline) -> None:
    pipeline.sql(
        "INSERT INTO orders (id, user_id, amount) SELECT 700000 + seq.n, seq.n, 1 FROM (WITH RECURSIVE s (n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s) seq",
        "UPDATE orders SET note = REPEAT('x', 150), amount = amount * 2 WHERE id > 700000",
    )
    drained(pipeline)
    assert pipeline.differences() == []


def test_changes_made_while_everything_is_down_arrive_after_the_start(pipeline: Pipeline) -> None:
    pipeline.migration.stop()
    pipeline.sql(
        "INSERT INTO orders (id, user_id, amount) VALUES (800001, 1, 1), (800002, 2, 2)",
        "UPDATE orders SET id = 800003 WHERE id = 800001",
        "DELETE FROM orders WHERE id = 800002",
    )
    pipeline.migration.start()
    drained(pipeline)
    assert pipeline.differences() == []


@pytest.mark.parametrize("process", ["publish", "consume", "commit", "requeue"])
def test_a_killed_process_is_started_again_and_nothing_is_lost(pipeline: Pipeline, process: str) -> None:
    insert = "INSERT INTO orders (user_id, amount, note) VALUES (%d, 1, '%s')"
    pipeline.sql(*(insert % (number, process) for number in range(100)))
    killed = pipeline.migration.kill(process)
    pipeline.sql(
        *(insert % (number, process) for number in range(100)),
        f"UPDATE orders SET user_id = user_id + 1 WHERE note = '{process}'",
        f"DELETE FROM orders WHERE note = '{process}' AND user_id % 7 = 0",
    )
    pipeline.migration.wait(
        lambda: pipeline.migration.pid(process) not in (None, killed), SLOW, f"{process} to be started again"
    )
    drained(pipeline)
    assert pipeline.differences() == []


def test_offsets_are_committed_behind_the_applied_changes(pipeline: Pipeline) -> None:
    drained(pipeline)

    def committed() -> bool:
        return bool(pipeline.migration.ask("status")["records"]["consumed"] == 0)

    pipeline.migration.wait(committed, SLOW, "every consumed record to be committed")


def test_an_empty_delete_waits_while_the_copy_is_open_and_is_closed_after_it(pipeline: Pipeline) -> None:
    for database in range(4):
        pipeline.box.targets[database // 2].execute(
            "UPDATE _migrate_chunk_fence SET closed = 0", database=f"{pipeline.name}_{database}"
        )
    pipeline.sql("INSERT INTO orders (id, user_id, amount) VALUES (900001, 1, 1), (900002, 1, 1)")
    drained(pipeline)
    pipeline.box.targets[0].execute("DELETE FROM orders_1 WHERE id = 900001", database=f"{pipeline.name}_1")
    pipeline.sql("DELETE FROM orders WHERE id = 900001")
    pipeline.migration.wait(lambda: pipeline.migration.ask("status")["empty_deletes"] == 1, SLOW, "the empty delete")
    told = "--timeout does not wait for: run `migrate drain --timeout 61`"
    pipeline.migration.wait(
        lambda: told in pipeline.migration.run("drain", "--timeout", "0.5").stderr, SLOW, "a drain that is too short"
    )
    pipeline.sql("DELETE FROM orders WHERE id = 900002")
    # A copy that read before the delete writes now; the ledger still names the key.
    pipeline.box.targets[0].execute(
        "INSERT INTO orders_1 (id, user_id, amount) VALUES (900001, 1, 1)", database=f"{pipeline.name}_1"
    )
    pipeline.close_copy()
    drained(pipeline)
    assert pipeline.differences() == []


def test_a_key_inserted_again_survives_the_delayed_delete(pipeline: Pipeline) -> None:
    for database in range(4):
        pipeline.box.targets[database // 2].execute(
            "UPDATE _migrate_chunk_fence SET closed = 0", database=f"{pipeline.name}_{database}"
        )
    pipeline.sql("INSERT INTO orders (id, user_id, amount) VALUES (900011, 1, 1)")
    drained(pipeline)
    pipeline.box.targets[0].execute("DELETE FROM orders_3 WHERE id = 900011", database=f"{pipeline.name}_1")
    pipeline.sql("DELETE FROM orders WHERE id = 900011")
    pipeline.migration.wait(lambda: pipeline.migration.ask("status")["empty_deletes"] == 1, SLOW, "the empty delete")
    pipeline.sql("INSERT INTO orders (id, user_id, amount) VALUES (900011, 1, 2)")
    pipeline.close_copy()
    drained(pipeline)
    assert pipeline.differences() == []


def test_a_statement_that_changes_the_table_stops_the_publisher_and_status_says_why(pipeline: Pipeline) -> None:
    pipeline.sql("ALTER TABLE orders ADD COLUMN surprise INT")
    halted = pipeline.migration.wait(lambda: pipeline.migration.ask("status")["halted"], SLOW, "the publisher to stop")
    assert halted[0]["process"] == "publish:source"
    assert f"a statement may change {pipeline.source}.orders: ALTER TABLE orders" in halted[0]["reason"]
    pipeline.migration.wait(lambda: pipeline.migration.pid("publish") is None, SLOW, "the publisher to end")
