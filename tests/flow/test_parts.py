"""A part of a table on its way from source to target: rows come into the part, change in it, and leave it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline

ROWS = "    rows: [{column: user_id, below: 100}, {column: status, is: new}]\n"


@pytest.fixture(scope="module")
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, Path(tmp_path_factory.mktemp("parts")), f"parts_{box.source.flavour}", table=ROWS)
    flow.part = "user_id < 100 AND status = 'new'"
    flow.migration.do("init")
    flow.migration.start()
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
    config = pipeline.migration.config
    written = config.read_text()
    config.write_text(written.replace("below: 100", "below: 200"))
    try:
        refused = pipeline.migration.run("status")
    finally:
        config.write_text(written)
    assert refused.returncode == 2
