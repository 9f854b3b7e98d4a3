"""A publisher ends in front of a statement of `ddl: apply` once all that stands before it is in Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from publishing import Publishing

from migrate.ddl.left_behind import refuse_at_targets
from migrate.ddl.servers import of_settings
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.publish.schema.policy import ToBeApplied
from migrate.target.roles import NotStandby
from migrate.target.stored_plan import stored_plan
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


def test_targets_that_applications_write_or_that_have_rows_from_behind_it_are_not_emptied(main: Publishing) -> None:
    (planned,), since = stored_plan(main.settings, main.state).tables.values(), Coordinate(1, 2, 3, 0)
    target = f"{main.name}_target"

    def refused() -> None:
        refuse_at_targets(of_settings(main.settings), planned, since)

    refused()
    fence = "INSERT INTO {}._migrate_fence VALUES ('{}', 't', 0, '{}', 1, 1, 2, {}, 0, 0)"
    for source, place in (("other", 4), ("main", 3)):
        main.other.execute(fence.format(target, main.name, source, place))
        refused()
    main.other.execute(f"UPDATE {target}._migrate_fence SET tx = 4 WHERE source = 'main'")
    with pytest.raises(StopError, match=f"t0/{target} has changes from behind it: was the state database put back"):
        refused()
    main.other.execute(f"UPDATE {target}._migrate_role SET role = 'active'")
    with pytest.raises(NotStandby, match=f"t0/{target} is active: a stream writes only to a standby side"):
        refused()
