"""More partitions: only for a migration at rest, and without a change overtaking another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.waiting import SLOW


@pytest.fixture
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Pipeline]:
    flow = Pipeline(box, kafka, tmp_path, f"repart_{box.source.flavour}")
    flow.migration.do("init")
    flow.migration.begin()
    flow.close_copy()
    yield flow
    flow.migration.stop()


def repartition(pipeline: Pipeline, partitions: int) -> subprocess.CompletedProcess[str]:
    """It says what it did, or why not, and nothing of the leases it holds meanwhile."""
    done = subprocess.run(
        pipeline.migration.command("repartition", str(partitions)),
        env=pipeline.migration.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "lease taken" not in done.stdout + done.stderr
    return done


def refusal(pipeline: Pipeline, partitions: int) -> str:
    done = repartition(pipeline, partitions)
    assert done.returncode in (2, 3)
    return done.stderr


def publish_alone(pipeline: Pipeline) -> None:
    """Let only the publisher run, until something waits in the topic."""
    with subprocess.Popen(pipeline.migration.command("publish"), env=pipeline.migration.environment) as publisher:
        try:
            pipeline.migration.wait(
                lambda: pipeline.migration.ask("status")["waiting_messages"] > 0, SLOW, "a message in the topic"
            )
        finally:
            publisher.terminate()


def test_a_migration_at_rest_gets_more_partitions(pipeline: Pipeline) -> None:
    numbers = "(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 60) SELECT n FROM s) seq"
    pipeline.sql(f"INSERT INTO orders (id, user_id, amount) SELECT seq.n, seq.n, 0 FROM {numbers}")
    pipeline.migration.ask("drain", "--timeout", "120")
    assert "still runs" in refusal(pipeline, 8)
    assert "cannot take partitions away" in refusal(pipeline, 4)
    pipeline.migration.stop()

    pipeline.sql("UPDATE orders SET amount = amount + 1")
    publish_alone(pipeline)
    assert "not drained" in refusal(pipeline, 8)
    pipeline.migration.begin()
    pipeline.migration.ask("drain", "--timeout", "120")
    pipeline.migration.stop()

    pipeline.sql("UPDATE orders SET amount = amount + 1, user_id = user_id + 1")
    pipeline.migration.wait(lambda: repartition(pipeline, 8).returncode == 0, SLOW, "the leases to be free")
    pipeline.migration.begin()
    pipeline.sql("UPDATE orders SET note = 'after'", "DELETE FROM orders WHERE id % 10 = 0")
    done = pipeline.migration.ask("drain", "--timeout", "120")
    assert pipeline.differences() == []
    assert len(done["partitions"]) == 8
    assert all(part["consumed"] for part in done["partitions"][4:])
