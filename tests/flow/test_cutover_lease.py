"""A cutover that loses its lease in the freeze, as while the state hangs, closes nothing that nobody opens."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import MORE, Switched, switched
from tests.forked import Child

pytestmark = pytest.mark.long

SEAMS = (
    ("step:stop writes", 1),  # before it notes that it will close the server
    ("migrate.cutover.left_server:LeftServer.execute", 2),  # noted; it closes the server once the note is gone again
)


@pytest.mark.timeout(600)
def test_a_run_that_another_one_ended_meanwhile_leaves_writes_open(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path, MORE) as one:
        flow = one.flow
        flow.migration.ask("verify")
        for where, call in SEAMS:
            held = tmp_path / f"held-{call}"
            late = Child(f"late-{call}", tmp_path / f"late-{call}.log", Path.cwd())
            line = launcher.command(flow.migration, "hold", where, call, "cutover")
            late.start(line, {**flow.migration.environment, "HELD_AT": str(held)})
            wait(held.exists, f"the cutover to come to {where}")
            os.kill(late.pid, signal.SIGSTOP)
            flow.nobody_switches()
            flow.migration.do("cutover", "--abort")
            assert (one.source_writable(), noted(one)) == (True, [])
            held.unlink()
            os.kill(late.pid, signal.SIGCONT)
            assert late.wait(SLOW)
            said = late.log.read_text("utf-8")
            assert (late.returncode, "writes are given back" in said) == (7, True), said
            assert (one.side(), one.source_writable(), noted(one)) == ("source", True, []), where
            assert flow.state_of("SELECT COUNT(*) FROM cutover WHERE finished IS NULL")[0][0] == 0
            assert one.stage()[1] == "migrate cutover --rehearse"
        left = '["SET GLOBAL read_only = 0"]'  # as of a server that was gone, and came back
        flow.state(
            "INSERT INTO write_block (migration, side, server, method, ending)"
            f" VALUES ('{flow.name}', 'source', 'main', 'read_only', '{left}')"
        )
        box.source.execute("SET GLOBAL read_only = 1")
        assert one.stage()[1] == "migrate cutover --abort"
        (told,) = flow.migration.ask("status")["holds_back"]
        assert told.startswith("an earlier cutover may have left writes stopped at source 'main'")
        flow.migration.do("cutover", "--abort")
        assert (one.source_writable(), noted(one)) == (True, [])
        assert one.stage()[1] == "migrate cutover --rehearse"

        given = '["GRANT USAGE ON *.* TO CURRENT_USER"]'  # by another way than this run's
        flow.state(
            "INSERT INTO write_block (migration, side, server, method, ending)"
            f" VALUES ('{flow.name}', 'source', 'main', 'revoke', '{given}')"
        )
        flow.migration.ask("cutover", "--rehearse", "--freeze")
        assert (one.source_writable(), noted(one)) == (True, [])

        late_freeze(one, tmp_path)


def late_freeze(one: Switched, tmp_path: Path) -> None:
    """Lost: the notice that a database lost its last switch: a process that was suspended before it froze the roles
    wrote the version of its own run over that of the next one, which had switched."""
    flow, held = one.flow, tmp_path / "held-freeze"
    late = Child("late-freeze", tmp_path / "late-freeze.log", Path.cwd())
    line = launcher.command(flow.migration, "hold", "migrate.cutover.side_roles:WrittenDatabases.freeze", 1, "cutover")
    late.start(line, {**flow.migration.environment, "HELD_AT": str(held)})
    wait(held.exists, "the cutover to come to the roles")
    os.kill(late.pid, signal.SIGSTOP)
    flow.nobody_switches()
    flow.migration.do("cutover", "--abort")
    flow.migration.do("cutover")
    known = "SELECT frozen FROM application_switch"
    roles = f"SELECT role, version FROM _migrate_role WHERE migration = '{flow.name}'"
    frozen, there = flow.state_of(known), one.box.targets[0].query(roles, database=f"{flow.name}_0")
    held.unlink()
    os.kill(late.pid, signal.SIGCONT)
    assert late.wait(SLOW)
    assert (late.returncode != 0, one.side()) == (True, "target")
    assert flow.state_of(known) == frozen
    assert one.box.targets[0].query(roles, database=f"{flow.name}_0") == there
    switch_that_the_state_lost(one)


def switch_that_the_state_lost(one: Switched) -> None:
    """Lost: what applications had written at the targets: the state came back without the switch's transaction, the run
    was ended as one that had not switched, and the version of the switch stood for both sides."""
    flow = one.flow
    one.box.source.execute("SET GLOBAL read_only = 1")  # the process that was late has opened it
    ((before,),) = flow.state_of("SELECT version FROM application_switch")
    flow.state("UPDATE application_switch SET version = version - 1, side = 'source', writes = 'closed'")
    flow.state("UPDATE cutover SET outcome = 'running', finished = NULL ORDER BY run DESC LIMIT 1")
    said = flow.refused("cutover", "--abort")
    assert "had switched, and the state database had lost that: nothing is given back" in said
    assert (one.side(), one.writable()) == ("target", ["target"])
    ((after,),) = flow.state_of("SELECT version FROM application_switch")
    assert after == before, "what applications go by"


def noted(one: Switched) -> list[str]:
    return [row[0] for row in one.flow.state_of("SELECT server FROM write_block")]
