"""A table whose statement stops the publisher is taken out of the config; others that were altered stay in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.test_tables_come_and_go import Shop
from tests.waiting import SLOW

_IGNORE = ", ddl: ignore"


@pytest.fixture
def shop(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(box, kafka, tmp_path)
    made.sql(
        "CREATE TABLE a (id INT NOT NULL PRIMARY KEY, v INT)", "CREATE TABLE b (id INT NOT NULL PRIMARY KEY, v INT)"
    )
    made.config("a", "b", more=_IGNORE)
    made.migration.do("init")
    yield made
    made.migration.stop()


@pytest.mark.parametrize("altered_first", [True, False], ids=["targets altered", "targets as before"])
def test_a_table_is_taken_out_while_another_ones_change_is_still_ahead(shop: Shop, altered_first: bool) -> None:
    with shop.running("publish --source source"):
        pass
    shop.sql(
        "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
        "INSERT INTO b VALUES (1, 1)",
        "ALTER TABLE b ADD COLUMN w INT",
        "INSERT INTO b VALUES (2, 2, 2)",
    )
    code, told = shop.refused("publish", "--source", "source")
    assert code == 5, told
    assert f"a statement may change {shop.source}.a" in told
    if altered_first:
        shop.box.targets[0].execute(f"ALTER TABLE {shop.target}.b ADD COLUMN w INT")
    shop.config("b", more=_IGNORE)
    done = shop.migration.run("init")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{shop.source}.a: removed" in done.stdout
    assert f"{shop.source}.b: the source's definition is newer than the publisher's position" in done.stdout
    if not altered_first:
        shop.box.targets[0].execute(f"ALTER TABLE {shop.target}.b ADD COLUMN w INT")
    with shop.running("publish --source source", "consume", "commit"):
        shop.migration.wait(lambda: len(shop.rows("b")) == 2, SLOW, "the rows of b")
    assert shop.rows("b") == ((1, 1, None), (2, 2, 2))


def test_a_definition_that_changed_before_anything_was_read_is_taken_by_the_next_init(shop: Shop) -> None:
    shop.sql("ALTER TABLE b ADD COLUMN w INT")
    shop.box.targets[0].execute(f"ALTER TABLE {shop.target}.b ADD COLUMN w INT")
    shop.migration.do("init")
    with shop.running("publish --source source"):
        pass
