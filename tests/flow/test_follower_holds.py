"""What the stream that only follows does not take holds a rollback back, and there is a way on for each of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.flow.support import DOUBT
from tests.flow.test_cutover import switched

pytestmark = pytest.mark.long


@pytest.mark.timeout(600)
def test_what_the_target_would_refuse_of_a_side_that_was_left_is_listed_and_stops_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask, do = one.flow, one.flow.migration.ask, one.flow.migration.do
        ask("verify")
        ask("cutover")
        ask("--reverse", "verify")
        # somebody whom read_only does not stop, at the side that was left; the target would refuse it
        box.targets[0].execute(
            "CREATE TRIGGER no BEFORE UPDATE ON orders_0 FOR EACH ROW"
            " IF NEW.value = 666 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this table'; END IF",
            database=f"{flow.name}_0",
        )
        box.source.execute("UPDATE orders SET value = 666 WHERE id = 8", database=flow.database)
        table = f"{flow.database}.orders"
        wait(lambda: ask("foreign", "list")["count"], "it to be listed")
        assert (ask("parked", "list")["stopped"], ask("status")["parked"]) == ([], 0)
        assert one.stage() == ("switched", "migrate foreign compare")
        assert "1 row written at a standby side" in flow.refused("rollback")
        assert f"nothing is parked of these keys of {table}" in flow.refused("parked", "drop", table, "8", code=2)
        assert "applications are at the targets: without it" in flow.refused("--reverse", "parked", "drop", table)
        do("foreign", "discard", table, "8")
        assert flow.source_rows(box.source)[8][2] != 666, "the row of the applications"
        ask("rollback")
        assert flow.differences(box.source) == []


@pytest.mark.timeout(600)
def test_a_clean_verification_of_the_stream_that_leads_settles_what_the_other_went_on_without(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path, limit=20_000, publish=", oversized: park") as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        flow.state(DOUBT.format(f"{flow.name}-reverse", "t1"))
        wait(lambda: one.stage() == ("verified", "migrate verify"), "the doubt")
        (held,) = ask("status")["holds_back"]
        assert held.startswith("the reverse stream: source 't1': without GTID: a test")
        ask("verify")
        wait(lambda: one.stage() == ("ready", "migrate cutover --rehearse"), "the reverse stream")
        ask("cutover")
        box.source.execute("UPDATE orders SET history = REPEAT('x', 30000) WHERE id = 8", database=flow.database)
        wait(lambda: ask("status")["oversized"], "it to be left out")
        flow.state(DOUBT.format(flow.name, "main"))
        said = flow.refused("rollback")
        assert "the forward stream: 1 × row is left out of the stream, and not verified since" in said
        assert "the forward stream: source 'main': without GTID: a test" in said
        flow.refused("--reverse", "verify", code=1)
        assert "not verified since" in flow.refused("rollback"), "it was not clean"
        ask("--reverse", "verify", "--repair")
        ask("rollback")
        assert one.side() == "source"
        assert flow.differences(box.source) == []
