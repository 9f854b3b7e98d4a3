"""Killed at any step, with its guardian or without, a cutover ends fully there or fully back, under load."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow import launcher
from tests.flow.test_application import Applications
from tests.flow.test_cutover import Switched, switched

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from tests.flow.test_cutover_sources import TwoSources

SEAMS = (  # where it is killed, and on which side applications are then
    ("before", "migrate.cutover.write_block:WriteBlocks.stop", "source"),
    ("after", "migrate.state.cutover:note_block", "source"),  # nothing is stopped yet
    ("after", "migrate.cutover.write_block:WriteBlocks.stop", "source"),
    ("after", "step:lock", "source"),
    ("after", "step:drain", "source"),
    ("after", "migrate.cutover.changed_keys:ChangedKeys.compare", "source"),
    ("before", "step:switch", "source"),
    ("after", "migrate.state.cutover:came_to", "source"),  # in the switch's transaction, which does not commit
    ("after", "step:switch", "target"),
    ("after", "migrate.commands.cutover:Cutover.finish", "target"),
)


class Worked:
    """An application that writes all the time; what was acknowledged to it is at the side that is open."""

    def __init__(self, one: Switched, until: ExitStack) -> None:
        self._one = one
        self._working = Applications(one, until).both
        self._working.start()
        until.callback(self._working.end)
        self.goes_on()

    def goes_on(self) -> None:
        self._working.wait_for(10)

    def ends(self) -> None:
        """Raises AssertionError for an acknowledged write that is not there."""
        self._working.stop()
        flow = self._one.flow
        for way in ((), ("--reverse",)):
            flow.migration.ask(*way, "drain", "--timeout", str(SLOW))
        assert flow.differences(flow.box.source) == []
        rows = flow.source_rows(flow.box.source)
        for key, value in self._working.values.items():
            assert (rows[key][2] if key in rows else None) == value, key


@pytest.mark.timeout(1500)
def test_killed_at_any_step_one_side_is_open_and_the_next_cutover_ends_it(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one, ExitStack() as until:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        worked = Worked(one, until)
        for when, where, side in SEAMS:
            launcher.run_killed(flow.migration, when, where, 1, "cutover")
            wait(lambda: not flow.state_of("SELECT 1 FROM cutover WHERE finished IS NULL"), "the guardian")
            open_sides = one.writable()
            assert one.side() == side, (when, where)
            assert side in open_sides, (when, where)
            assert len(open_sides) == 1 or side == "source", (when, where)  # nobody has closed the target yet
            worked.goes_on()
            flow.nobody_switches()
            if side == "target":
                ask("rollback")
                assert one.writable() == ["source"]
        ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        worked.ends()


def killed_with_its_terminal(one: Switched) -> None:
    """In the freeze; what watches it has nobody to tell what it does."""
    flow = one.flow
    held = flow.directory / "held-terminal"
    line = launcher.command(flow.migration, "hold", "step:drain", 1, "cutover")
    reads, writes = os.pipe()
    killed = subprocess.Popen(
        line, env={**flow.migration.environment, "HELD_AT": str(held)}, stdout=writes, stderr=writes
    )
    os.close(writes)
    wait(held.exists, "the freeze")
    os.close(reads)
    killed.kill()
    killed.wait()


CLOSED_ONE = ("migrate.cutover.left_server:LeftServer.execute", 4)
"""A call that closes the first of two servers: both were tried before, and it was given a limit to its waits."""


def alone_killed(flow: Flow | TwoSources, where: str, call: int, command: str, when: str = "hold") -> None:
    """A run that is killed before a call (`hold-after`: behind it), its guardian first: as when the machine goes."""
    held = flow.directory / f"held-{command}-{where.rpartition('.')[2]}"
    line = launcher.command(flow.migration, when, where, call, command)
    killed = subprocess.Popen(line, env={**flow.migration.environment, "HELD_AT": str(held)})
    wait(held.exists, f"{command} to come to {where}")
    second = flow.child(f"second-{held.name}", command)
    assert second.wait(SLOW)
    said = second.log.read_text("utf-8")
    held_by = "another cutover, DDL run or init that changes tables is under way"
    assert (second.returncode, held_by in said) == (3, True), said
    (guardian,) = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text("ascii").split()
    os.kill(int(guardian), signal.SIGKILL)
    killed.kill()
    killed.wait()
    flow.nobody_switches()


@pytest.mark.timeout(600)
def test_without_its_guardian_what_was_killed_is_ended_by_abort_or_by_the_next_run(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one, ExitStack() as until:
        flow, ask, do = one.flow, one.flow.migration.ask, one.flow.migration.do
        ask("verify")
        worked = Worked(one, until)
        idle = flow.child("idle", "cutover", "--abort")
        assert idle.wait(SLOW)
        assert (idle.returncode, "no cutover is under way" in idle.log.read_text("utf-8")) == (3, True)

        killed_with_its_terminal(one)
        wait(one.source_writable, "writes to be given back")
        flow.nobody_switches()
        worked.goes_on()

        alone_killed(flow, "step:drain", 1, "cutover")
        assert "source" not in one.writable()
        do("cutover", "--abort")
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
        worked.goes_on()

        alone_killed(flow, "step:switch", 1, "cutover")
        assert "source" not in one.writable()
        ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        worked.goes_on()

        # one of two servers is closed already
        alone_killed(flow, *CLOSED_ONE, "rollback", "hold-after")
        do("rollback", "--abort")
        assert (one.side(), one.writable()) == ("target", ["target"])
        worked.goes_on()
        # while it gives writes back: a second kill, of what ends the first
        alone_killed(flow, "step:lock", 1, "rollback")
        launcher.run_killed(flow.migration, "before", "migrate.state.cutover:drop_block", 1, "rollback", "--abort")
        flow.nobody_switches()
        ask("rollback")
        assert (one.side(), one.writable()) == ("source", ["source"])
        worked.goes_on()

        alone_killed(flow, "migrate.commands.cutover:Cutover.finish", 1, "cutover")
        late = flow.child("late", "cutover", "--abort")
        assert late.wait(SLOW)
        said = late.log.read_text("utf-8")
        stopped = "has switched: writes stay stopped at the side that applications left" in said
        assert (late.returncode, stopped) == (3, True), said
        assert "applications are switched" in do("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        worked.ends()
