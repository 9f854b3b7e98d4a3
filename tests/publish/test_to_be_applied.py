"""A publisher ends in front of a statement of `ddl: apply` once all that stands before it is in Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from publishing import Publishing

from migrate.publish.schema.policy import ToBeApplied
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka)
    made.raw["tables"][0]["ddl"] = {"truncate": "apply"}
    yield made
    made.close()


@pytest.mark.parametrize("wait", [0.0, 30.0], ids=["at once", "batch_seconds"])
def test_all_before_the_statement_is_in_kafka_when_it_ends(main: Publishing, wait: float) -> None:
    """Lost: rows that went with a TRUNCATE, and were published again behind it."""
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
    main.raw["publish"] |= {"batch_seconds": wait}
    main.sql("INSERT INTO t VALUES (1, 'goes')", "TRUNCATE t", "INSERT INTO t VALUES (2, 'stays')")
    with pytest.raises(ToBeApplied) as found, main.running():
        main.until(lambda: False, "the statement")
    assert main.keys() == [1]
    at, since = main.position, found.value.since
    assert at is not None
    assert (at.incarnation, at.coordinate.file) == since[:2]
    assert at.pos <= since.transaction
    assert main.coordinates()[-1][2] < at.pos
