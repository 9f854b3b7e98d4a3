"""A copy beside a cutover: it begins nothing once one is under way, and what it brought before is compared first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate.settings import load
from migrate.state import database
from migrate.target.stored_plan import stored_plan
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import Switched, switched
from tests.forked import Child

pytestmark = pytest.mark.long

CATCH_UP = "migrate.cutover.changed_keys:ChangedKeys.read"
CAUGHT_UP = "step:catch up"
HURRY = "migrate.commands.cutover_check:hurrier"


@contextmanager
def held(one: Switched, label: str, where: str, *arguments: str, call: int = 1) -> Iterator[Child]:
    """A command that waits at a function of it for the time of the block, and is over after it."""
    flow = one.flow
    file = flow.directory / f"held-{label}"
    child = Child(label, flow.directory / f"{label}.log", Path.cwd())
    command = launcher.command(flow.migration, "hold-after" if where == CAUGHT_UP else "hold", where, call, *arguments)
    child.start(command, {**flow.migration.environment, "HELD_AT": str(file)})
    try:
        wait(file.exists, f"`migrate {arguments[0]}` to come there")
        yield child
        file.unlink()
        assert child.wait(SLOW)
    finally:
        child.kill()


def copied_by_rule(one: Switched) -> str:
    """The table as a copy left it, so that it can be copied again; its name."""
    flow = one.flow
    settings = load(flow.migration.config)
    with database.opened(settings.state) as state:
        ((_, planned),) = stored_plan(settings, state).tables.items()
    flow.state(
        f"UPDATE phase SET rule_hash = '{planned.rule_hash}', base_hash = '{planned.base_hash}'"
        f" WHERE migration = '{flow.name}'"
    )
    return planned.table.full_name


def ended(child: Child, told: str, code: int = 3) -> None:
    said = child.log.read_text("utf-8")
    assert (child.returncode, told in said) == (code, True), said


@pytest.mark.timeout(600)
def test_a_copy_that_was_started_before_the_switch_brings_no_deleted_row_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        table = copied_by_rule(one)
        ask("verify")
        begin = "migrate.copy.table_copy:TableCopy.begin"
        with held(one, "copy", begin, "copy", "--table", table, "--restart") as copy:
            ask("cutover")
            flow.children("back-consume")[0].stop(SLOW)  # so that the source has the row for a while
            one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 8")
        there = box.targets[0].query(f"SELECT id FROM {flow.name}_0.orders_0 WHERE id = 8")
        assert there == (), "a delete that was acknowledged at the target is undone"
        ended(copy, "applications are at the targets")
        flow.child("back-consume-again", "--reverse", "consume")
        ask("--reverse", "drain", "--timeout", str(SLOW))
        assert 8 not in flow.source_rows(box.source)
        assert flow.differences(box.source) == []


@pytest.mark.timeout(900)
def test_a_cutover_that_a_copy_overtook_does_not_begin_and_no_copy_begins_in_one(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        table = copied_by_rule(one)
        begin = "migrate.copy.table_copy:TableCopy.begin"
        again = ("copy", "--table", table, "--restart")
        for label, where in (("in-catch-up", CATCH_UP), ("behind-it", CAUGHT_UP)):
            ask("verify")
            with held(one, label, where, "cutover") as overtaken:
                ask(*again)
            ended(overtaken, "rows came by another way than the stream")
            assert (one.side(), flow.state_of("SELECT COUNT(*) FROM cutover")) == ("source", ((0,),)), label

        ask("verify")
        with held(one, "beside", CAUGHT_UP, "cutover") as beside:
            flow.state(f"UPDATE phase SET phase = 'copying' WHERE migration = '{flow.name}'")
        ended(beside, f"table {table} is copying by now")
        flow.state(f"UPDATE phase SET phase = 'copied' WHERE migration = '{flow.name}'")

        with held(one, "early-copy", begin, *again) as early:
            with held(one, "cutover", HURRY, "cutover", call=3) as cutover:
                for label, command in (("late-copy", again), ("init", ("init",)), ("back", ("--reverse", "init"))):
                    late = flow.child(label, *command)
                    assert late.wait(SLOW)
                    ended(late, "a cutover is under way")
                (flow.directory / "held-early-copy").rename(flow.directory / "released")
                assert early.wait(SLOW)
                ended(early, "a cutover is under way")
                (flow.directory / "held-early-copy").touch()  # what the block would take away
            ended(cutover, "switched: applications are at the targets", code=0)
        assert (one.side(), flow.differences(box.source)) == ("target", [])

        text = flow.migration.config.read_text("utf-8")
        few = text.replace("    sharding:\n", "    rows: [{column: id, below: 500}]\n    sharding:\n")
        assert few != text
        flow.migration.config.write_text(few, "utf-8")
        fewer = flow.child("fewer", "init")
        assert fewer.wait(SLOW)
        ended(fewer, "row conditions changed, and applications are at the targets")
        assert flow.differences(box.source) == []
