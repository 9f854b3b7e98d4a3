"""A database that comes back without a switch that it had: what applications wrote there just before is gone too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import MORE, Switched, switched
from tests.forked import Child

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
LOOKS = ", compare_seconds: 0.5"


def role(one: Switched) -> tuple[str, int]:
    ((name, version),) = one.box.targets[0].query(
        f"SELECT role, version FROM _migrate_role WHERE migration = '{one.flow.name}'", database=f"{one.flow.name}_0"
    )
    return str(name), int(version)


def put_back(one: Switched, row: str, before: tuple[str, int]) -> None:
    """As InnoDB comes back without its last second, while the log has it: what is undone here is in no log."""
    one.box.targets[0].execute(
        "SET SESSION sql_log_bin = 0",
        row,
        f"UPDATE _migrate_role SET role = '{before[0]}', version = {before[1]} WHERE migration = '{one.flow.name}'",
        database=f"{one.flow.name}_0",
    )


@pytest.mark.parametrize("lost", ["the rollback", "the cutover too"])
def test_a_target_that_lost_a_switch_is_named_and_nothing_switches_before_it_is_verified(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, lost: str
) -> None:
    """Lost: an application's last row at a target, with the second cutover: the reverse stream had carried it, so the
    forward stream had nothing of it, and the target's place in every partition was as before."""
    with switched(box, kafka, tmp_path, MORE, consume=LOOKS) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        before = role(one)
        ask("cutover")
        at_target = role(one)
        assert at_target[0] == "active"
        one.write_at_target(0, "INSERT INTO orders_1 VALUES (5001, 2, 7, 'the last one')")
        ask("--reverse", "drain", "--timeout", str(SLOW))
        ask("--reverse", "verify")
        ask("rollback")
        assert 5001 in flow.source_rows(box.source)
        ask("verify")
        assert ask("status")["lost"] == []

        for process in ("consume", "publish"):
            flow.children(process)[-1].stop(SLOW)
        put_back(one, "DELETE FROM orders_1 WHERE id = 5001", before if lost == "the cutover too" else at_target)
        found = ask("status")["lost"]
        assert [line for line in found if "it lost committed transactions" in str(line)], found
        assert "it lost committed transactions" in flow.refused("cutover")
        for process in ("consume", "publish"):
            flow.child(f"{process}-on", process)
        wait(lambda: role(one)[0] == "standby" and role(one)[1] > at_target[1], "the consumer to set the role right")
        flow.drain()
        assert "it lost committed transactions" in flow.refused("cutover"), "what was set right is still not compared"
        assert "1 difference" in flow.refused("verify", code=1, seconds=300)
        ask("verify", "--repair")
        ask("verify")
        ask("cutover")
        assert flow.differences(box.source) == []
        assert 5001 in {row[0] for row in box.targets[0].query(f"SELECT id FROM {flow.name}_0.orders_1")}


def test_a_target_that_loses_rows_in_the_freeze_is_not_switched_to(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: rows that were compared and that the target lost a moment later, before its role was frozen."""
    with switched(box, kafka, tmp_path) as one:
        flow = one.flow
        flow.migration.ask("verify")
        held = tmp_path / "held"
        command = launcher.command(flow.migration, "hold", "step:roles", 1, "cutover")
        cutover = Child("migrate cutover", tmp_path / "held-cutover.log", Path.cwd())
        cutover.start(command, {**flow.migration.environment, "HELD_AT": str(held)})
        wait(held.exists, "everything to be compared in the freeze")
        box.targets[0].execute(
            "SET SESSION sql_log_bin = 0",
            f"UPDATE _migrate_reached SET next_offset = next_offset - 1 WHERE migration = '{flow.name}'",
            database=f"{flow.name}_0",
        )
        held.unlink()
        assert cutover.wait(SLOW)
        assert "lost what it had of" in cutover.log_tail()
        assert cutover.returncode, "it did not switch"
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
