"""What is changed again and again, or changes hands, within one batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.failover.topic import messages
from tests.forked import Child
from tests.helpers import log_end, unique


class Batches:
    """A flow whose consumer is away while the source is written, so that all of it is one batch afterwards."""

    def __init__(self, flow: Flow, kafka: KafkaBroker) -> None:
        self.flow, self.kafka = flow, kafka
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.child("commit", "commit")
        flow.child("requeue", "requeue")
        flow.close_copy()
        self._consumer = self._start()

    def _start(self) -> Child:
        return self.flow.child("consume", "consume")

    def sql(self, *statements: str) -> None:
        with closing(self.flow.box.source.connect(self.flow.database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def equal(self) -> None:
        self.flow.drain()
        assert self.flow.differences(self.flow.box.source) == []

    @contextmanager
    def one(self) -> Iterator[None]:
        """What is written in this block is in the topic before anything of it is read; then it is applied."""
        self._consumer.stop()
        yield
        end = log_end(self.flow.box.source)
        wait(lambda: (found := self.flow.position()) and (found["file"], found["pos"]) >= end, "all to be published")
        self._consumer = self._start()
        self.equal()
        assert "write failed" not in self._consumer.log.read_text("utf-8"), "it was refused, and tried again"


@contextmanager
def batches(box: Sandbox, kafka: KafkaBroker, directory: Path, columns: str = "") -> Iterator[Batches]:
    with closing(Flow(box, kafka, directory, unique("batch"), box.source, columns=columns)) as flow:
        yield Batches(flow, kafka)


def test_of_a_thousand_updates_within_a_second_the_last_one_wins(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """No column says which is later: by themselves, and as one transaction, with one update time for all."""
    same = ", update_time DATETIME NOT NULL DEFAULT '2024-02-29 12:00:00'"
    with batches(box, kafka, tmp_path, same) as world:
        world.sql("INSERT INTO orders (id, user_id, value, history) VALUES (1, 1, 0, ''), (2, 2, 0, '')")
        update = "UPDATE orders SET value = value + 1, history = CONCAT(history, ',', value) WHERE id = {}"
        with world.one():
            for key in (1, 2):
                world.sql("BEGIN", *[update.format(key)] * 800, "COMMIT", *[update.format(key)] * 200)
        world.sql(*[update.format(1)] * 200)  # in whatever batches they come
        world.equal()
        assert [row[2] for row in world.flow.source_rows(box.source).values()] == [1200, 1000]


def test_unique_values_that_change_hands_within_a_batch_end_as_at_the_source(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with batches(box, kafka, tmp_path, ", uk VARCHAR(20) NULL UNIQUE") as world:
        rows = ", ".join(f"({key}, 0, 0, '', 'value {key}')" for key in range(2, 42, 2))
        world.sql(f"INSERT INTO orders VALUES {rows}")
        world.equal()
        with world.one():
            # freed by one row, taken by another
            world.sql("DELETE FROM orders WHERE id = 2", "INSERT INTO orders VALUES (102, 0, 1, '', 'value 2')")
            # two rows swap theirs, three pass them round
            swap = ["UPDATE orders SET uk = {1} WHERE id = {0}".format(*step) for step in _SWAP]
            world.sql("BEGIN", *swap, "COMMIT")
            # swapped and swapped back, then swapped once more
            world.sql("BEGIN", *_exchange(14, 16), *_exchange(14, 16), *_exchange(14, 16), "COMMIT")
            # taken along into another shard and back, while another row has the value in between
            world.sql(
                "UPDATE orders SET user_id = 1 WHERE id = 20",
                "UPDATE orders SET uk = NULL WHERE id = 20",
                "UPDATE orders SET uk = 'value 20' WHERE id = 22",
                "UPDATE orders SET user_id = 0, uk = 'value 22' WHERE id = 20",
            )
            # the value's case is not what makes it another one
            world.sql("UPDATE orders SET uk = 'x' WHERE id = 24", "UPDATE orders SET uk = 'VALUE 24' WHERE id = 26")


_SWAP = (
    *((4, "NULL"), (6, "'value 4'"), (4, "'value 6'")),
    *((8, "NULL"), (10, "'value 8'"), (12, "'value 10'"), (8, "'value 12'")),
)


def _exchange(one: int, other: int) -> list[str]:
    """Statements after which two rows have each other's unique value."""
    has = "(SELECT uk FROM orders WHERE id = {})"
    return [
        f"SET @mine = {has.format(one)}, @theirs = {has.format(other)}",
        f"UPDATE orders SET uk = NULL WHERE id = {one}",
        f"UPDATE orders SET uk = @mine WHERE id = {other}",
        f"UPDATE orders SET uk = @theirs WHERE id = {one}",
    ]


def test_foreign_keys_of_the_target_hold_up_no_row_and_take_none_away(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Made by hand there: a child may come before its parent, which may be in another shard, or be gone."""
    with batches(box, kafka, tmp_path, ", parent BIGINT UNSIGNED NULL") as world:
        for number, server in enumerate(box.targets):
            for table in range(2):
                server.execute(
                    f"ALTER TABLE orders_{table} ADD FOREIGN KEY (parent) REFERENCES orders_{table} (id)"
                    " ON DELETE CASCADE ON UPDATE CASCADE",
                    database=f"{world.flow.name}_{number}",
                )
        with world.one():
            world.sql("BEGIN", "INSERT INTO orders VALUES (2, 0, 0, 'parent', NULL)")
            children = ", ".join(f"({key}, {key % 3}, 0, 'child', 2)" for key in range(10, 50))
            world.sql(f"INSERT INTO orders VALUES {children}, (4, 0, 0, 'parent', NULL)")
            world.sql("UPDATE orders SET parent = 4 WHERE id > 40")
        with world.one():
            world.sql("DELETE FROM orders WHERE id = 2", "UPDATE orders SET id = 6 WHERE id = 4")
        assert len(world.flow.source_rows(box.source)) == 41


def test_rows_that_follow_each_other_through_keys_and_shards_leave_nothing_behind(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Each key's changes are in its own partition, so no order holds between the steps of a chain."""
    chain = [f"UPDATE orders SET id = {key + 1} WHERE id = {key}" for key in (3, 2, 1)]
    wander = [
        f"UPDATE orders SET id = {key + 1}, user_id = {key}, value = {key} WHERE id = {key}" for key in range(20, 29)
    ]
    back = [f"UPDATE orders SET id = {key}, user_id = {key % 3} WHERE id = {key + 1}" for key in range(28, 20, -1)]
    with batches(box, kafka, tmp_path) as world:
        rows = "(1, 0, 1, 'one'), (2, 1, 2, 'two'), (3, 0, 3, 'three'), (20, 0, 0, 'wanders')"
        with world.one():
            world.sql(f"INSERT INTO orders VALUES {rows}", "BEGIN", *chain, "COMMIT", *wander)
        assert world.flow.source_rows(box.source).keys() == {2, 3, 4, 29}
        with world.one():
            world.sql("BEGIN", *back, "COMMIT")
            world.sql("UPDATE orders SET id = id + 100 ORDER BY id DESC", "UPDATE orders SET id = id - 99 ORDER BY id")
            # a key that one row leaves is taken by another in the same transaction
            world.sql(
                "BEGIN", "UPDATE orders SET id = 50 WHERE id = 3", "UPDATE orders SET id = 3 WHERE id = 4", "COMMIT"
            )
        assert {partition for partition, _, _ in messages(kafka, f"migrate.{world.flow.name}")} == {0, 1}
        world.sql(*[f"UPDATE orders SET id = {key + 1} WHERE id = {key}" for key in range(50, 90)])  # live
        world.equal()
