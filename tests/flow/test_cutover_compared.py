"""What a cutover compares, before the freeze and inside it: a row that differs keeps it from switching, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import Switched, switched
from tests.forked import Child

STEPS = ("stop writes", "lock", "drain", "compare", "roles", "switch", "release")


def changed(one: Switched, key: int) -> None:
    """A row that the application changes, at both sides; its number of a user is half of its key."""
    one.write_at_source(f"UPDATE orders SET value = value + 1000 WHERE id = {key}")
    one.flow.drain()


def spoilt(one: Switched, key: int, *statements: str) -> None:
    """The same row at the target, changed by what no stream sees."""
    user = key // 2
    one.box.targets[user % 2].execute(
        "SET SESSION sql_log_bin = 0",
        *(statements or [f"UPDATE orders_0 SET value = -1 WHERE id = {key}"]),
        database=f"{one.flow.name}_{user % 2}",
    )


def generated(expression: str) -> str:
    """A statement that has the target compute its stored column another way."""
    return f"ALTER TABLE orders_0 MODIFY g BIGINT AS ({expression}) STORED INVISIBLE"


@contextmanager
def caught_up(one: Switched, label: str) -> Iterator[Child]:
    """A cutover that waits behind its catch-up, before the freeze; it goes on after the block."""
    flow = one.flow
    held = flow.directory / f"held-{label}"
    command = launcher.command(flow.migration, "hold-after", "step:catch up", 1, "cutover", "--json")
    child = Child(label, flow.directory / f"{label}.log", Path.cwd())
    child.start(command, {**flow.migration.environment, "HELD_AT": str(held)})
    try:
        wait(held.exists, "the cutover to be through with what changed before")
        yield child
        held.unlink()
        assert child.wait(SLOW)
    finally:
        child.kill()


def journal(one: Switched) -> list[tuple[str, str, str]]:
    """Of the last run."""
    rows = one.flow.state_of(
        "SELECT step, stage, detail FROM cutover_step WHERE run = (SELECT MAX(run) FROM cutover) ORDER BY entry"
    )
    return [(step, stage, detail or "") for step, stage, detail in rows]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_row_that_differs_is_found_before_the_freeze_or_in_it_and_nothing_switches(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path, columns=", g BIGINT AS (value + 1) STORED INVISIBLE") as one:
        flow = one.flow
        table = f"{flow.database}.orders"
        flow.migration.ask("verify")
        before = flow.migration.ask("switch")["switch"]

        spoilt(one, 8)
        named_by_the_check(one)
        changed_by_a_trigger(one)
        changed(one, 2)
        spoilt(one, 2)
        early = flow.child("early", "cutover")
        assert early.wait(SLOW)
        said = early.log.read_text("utf-8")
        assert (early.returncode, "1 key changed since the last verification and differs" in said) == (1, True), said
        assert f'{table} key ["2"] different' in said
        assert flow.migration.ask("switch")["switch"] == before
        assert one.writable() == ["source", "target"]
        flow.migration.do("refresh", table, "2")

        with caught_up(one, "spoilt") as late:
            changed(one, 4)
            spoilt(one, 4, generated("IF(id = 4, 0, value + 1)"))
        said = late.log.read_text("utf-8")
        assert (late.returncode, "writes are given back: 1 key differ" in said) == (7, True), said
        assert f'{table} key ["4"] different: in t0/{flow.name}_0.orders_0: g' in said
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
        told = journal(one)
        assert [step for step, stage, _ in told if stage == "begun"] == list(STEPS[:4])
        assert [(step, 'key ["4"]' in why) for step, stage, why in told if stage == "failed"] == [("compare", True)]
        assert flow.migration.ask("explain", table, "4")["places"][0]["row"] == "differs in g"
        spoilt(one, 4, generated("value + 1"))

        with caught_up(one, "clean") as clean:
            changed(one, 6)
        said = clean.log.read_text("utf-8")
        assert clean.returncode == 0, said
        assert json.loads(said[said.index("{") :])["keys"] == 1
        assert (one.side(), one.writable()) == ("target", ["target"])
        assert [(step, stage) for step, stage, _ in journal(one)] == [
            (step, stage) for step in STEPS for stage in ("begun", "done")
        ]
        assert flow.differences(box.source) == []


def named_by_the_check(one: Switched) -> None:
    """Lost: a row that the scheduled check had named, as a cutover did not ask what it found."""
    flow = one.flow
    wait(lambda: flow.migration.run("check", "--once", timeout=SLOW).returncode == 1, "the check to come to the row")
    assert "1 row found different, and not verified since" in flow.refused("cutover")
    assert one.stage() == ("catching up", "migrate verify --repair")
    flow.migration.do("verify", "--repair")
    flow.migration.ask("verify")
    assert one.stage()[0] == "ready"


def changed_by_a_trigger(one: Switched) -> None:
    """Lost: rows that a trigger from after init changed in the stream's own transactions; nobody looked again."""
    flow, target = one.flow, one.box.targets[0]
    body = "INSERT INTO made_by_it VALUES (NEW.id)"
    target.execute(
        "CREATE TABLE made_by_it (id INT)",
        f"CREATE TRIGGER made_later AFTER UPDATE ON orders_0 FOR EACH ROW {body}",
        database=f"{flow.name}_0",
    )
    refused = flow.refused("cutover")
    assert "trigger made_later (AFTER UPDATE) would do once more what the source's did" in refused
    assert one.stage() == ("catching up", "migrate preflight"), "a verification would differ again"
    assert "trigger made_later" in flow.migration.ask("status")["holds_back"][0]
    target.execute("DROP TRIGGER made_later", database=f"{flow.name}_0")
    assert "no verification of all tables was clean since" in flow.refused("cutover")
    flow.migration.ask("verify")
