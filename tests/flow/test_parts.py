"""A part of a table on its way from source to target: rows come into the part, change in it, and leave it."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.forked import Child, Migration
from tests.waiting import SLOW

pytestmark = pytest.mark.long

ROWS = "    rows: [{column: user_id, below: 100}, {column: status, is: new}]\n"


@pytest.fixture(scope="module")
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, Path(tmp_path_factory.mktemp("parts")), f"parts_{box.source.flavour}", table=ROWS)
    flow.part = "user_id < 100 AND status = 'new'"
    flow.migration.do("init")
    flow.migration.begin()
    yield flow
    flow.migration.stop()


def test_only_rows_of_the_part_are_at_the_target(pipeline: Pipeline) -> None:
    pipeline.close_copy()
    pipeline.sql(
        "INSERT INTO orders (id, user_id, amount) SELECT seq.n, 90 + seq.n, seq.n FROM (WITH RECURSIVE s (n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20) SELECT n FROM s) seq",
        "UPDATE orders SET amount = amount + 1",
        "UPDATE orders SET user_id = user_id + 5 WHERE id BETWEEN 3 AND 12",  # 5 to 9 leave
        "UPDATE orders SET status = 'paid' WHERE id = 1",
        "UPDATE orders SET user_id = 50 WHERE id IN (18, 19)",  # these come in
        "UPDATE orders SET id = id + 1000 WHERE id IN (2, 18, 20)",
        "DELETE FROM orders WHERE id IN (3, 15)",
    )
    pipeline.migration.ask("drain", "--timeout", "120")
    assert pipeline.differences() == []
    assert len(pipeline.box.source.query(f"SELECT id FROM {pipeline.source}.orders WHERE {pipeline.part}")) == 4


def test_changed_conditions_are_refused_once_the_migration_began(pipeline: Pipeline) -> None:
    changed = pipeline.migration.config.read_text().replace("below: 100", "below: 200")
    assert beside(pipeline, changed).run("status").returncode == 2


def beside(pipeline: Pipeline, config: str) -> Migration:
    """The same migration with another config, which the processes that run never see."""
    return Migration(pipeline.box, pipeline.migration.directory, config, "beside.yaml")


@contextmanager
def written_to(pipeline: Pipeline) -> Iterator[None]:
    """Meanwhile rows come, move between places, go in and out of both parts, and go."""
    stop = threading.Event()

    def write() -> None:
        for number in itertools.cycle(range(200)):
            if stop.wait(0.005):
                return
            pipeline.sql(
                f"INSERT IGNORE INTO orders (id, user_id, amount) VALUES ({2000 + number}, {number}, 1)",
                f"UPDATE orders SET user_id = (user_id * 7 + 13) % 300, amount = 9 WHERE id % 50 = {number % 50}",
                f"UPDATE orders SET status = IF(status = 'new', 'paid', 'new') WHERE id % 40 = {number % 40}",
                f"DELETE FROM orders WHERE id = {2000 + (number + 100) % 200}",
            )

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(60)
    assert not writer.is_alive()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("conditions", "part"),
    [
        ("rows: [{column: user_id, below: 250}]", "user_id < 250"),
        ("rows: [{column: user_id, below: 120}, {column: status, is: paid}]", "user_id < 120 AND status = 'paid'"),
    ],
    ids=["widened", "narrowed"],
)
def test_changed_conditions_count_from_init_on_and_the_copy_brings_what_they_let_in(
    pipeline: Pipeline, conditions: str, part: str
) -> None:
    migration, written = pipeline.migration, pipeline.migration.config.read_text()
    changed = re.sub(r"rows: .*", conditions, written)
    assert changed != written
    with_changed = beside(pipeline, changed)
    pipeline.close_copy()
    pipeline.sql(
        "REPLACE INTO orders (id, user_id, amount, status) SELECT 3000 + n, n, n, 1 + n % 2 FROM (WITH RECURSIVE s (n)"
        " AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 290) SELECT n FROM s) seq"
    )
    assert with_changed.run("init").returncode == 3, "processes still run"
    migration.ask("drain", "--timeout", "120")
    migration.stop()
    publisher = Child("publish", migration.directory / "alone.log", Path.cwd())
    publisher.start(migration.command("publish"), migration.environment)
    with written_to(pipeline):
        migration.wait(lambda: migration.ask("status")["waiting_messages"] > 20, SLOW, "messages to wait")
    publisher.stop(60.0)
    assert with_changed.run("init").returncode == 3, "messages still wait"
    assert with_changed.run("status").returncode == 2
    migration.begin()
    migration.ask("drain", "--timeout", "120")
    migration.stop()
    migration.config.write_text(changed)
    with written_to(pipeline):
        assert "its row conditions changed" in migration.do("init")
        migration.begin()
        migration.ask("copy")
        applied = migration.ask("status")["rows_applied"]
        migration.wait(lambda: migration.ask("status")["rows_applied"] > applied + 50, SLOW, "more to be applied")
    migration.ask("drain", "--timeout", "120")
    pipeline.part = part
    assert pipeline.differences() == []
