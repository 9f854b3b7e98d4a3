"""The copy under a throttle on real servers: by hand while it runs, and by the load of servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from jobs import full_copy
from jobs.full_copy import CopyProgress
from migrate.copy import operator_limits
from migrate.copy.governor import LOOK_SECONDS
from migrate.copy.operator_limits import RunningCopy
from migrate.state import chunks, copy_progress
from migrate.state.chunks import ChunkState
from migrate.target.stored_plan import stored_plan
from sandbox.stack import Sandbox
from tests.cli.support import Outcome, migrate
from tests.copy.setup import Laid, lay, spread
from tests.helpers import sleeping
from tests.jobs.test_full_copy import CREATE, numbers, raw_rows
from tests.waiting import SLOW

pytestmark = pytest.mark.timeout(600)
_ROOT = Path(__file__).resolve().parents[2]


def layout(box: Sandbox, tmp_path: Path, rows: int = 240, **throttled: Any) -> Laid:
    """A table of small chunks, two begun together."""
    copy = {"chunk_rows": 20, "chunks_at_once": 2, "master": "local[2]", "throttle": throttled}
    return lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(rows), extra={"copy": copy})


def ask(laid: Laid, tmp_path: Path, *arguments: str) -> Outcome:
    """`migrate throttle` as a person says it."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(dict(laid.raw)))
    return migrate(config, "throttle", *arguments)


def said(laid: Laid, tmp_path: Path, *arguments: str) -> str:
    done = ask(laid, tmp_path, *arguments)
    assert done.code == 0, done
    return done.out


def change(laid: Laid, *, reset: bool = False, **changes: Any) -> None:
    """What that command does."""
    state = laid.state()
    operator_limits.change(laid.settings, state, changes, reset=reset)
    state.dispose()


def begun(laid: Laid) -> int:
    """Chunks that were begun so far."""
    state = laid.state()
    with state.connect() as connection:
        found = len(chunks.load(connection, laid.settings.name, laid.table.table))
    state.dispose()
    return found


def copying(laid: Laid) -> RunningCopy | None:
    """What the state says of the table's copy."""
    state = laid.state()
    with state.connect() as connection:
        found = operator_limits.copies(connection, laid.plan).get(laid.table.table.id)
    state.dispose()
    return found


# -- by hand


@pytest.mark.usefixtures("spark")
def test_a_copy_that_is_paused_stands_still_and_goes_on_after_resume(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path)
    steps: list[CopyProgress] = []
    paused: list[tuple[int, int]] = []  # rows and chunks, at each look while it was paused
    shown: list[str] = []

    def act(step: CopyProgress) -> None:
        steps.append(step)
        if len(steps) == 1:
            said(laid, tmp_path, "--pause")
            time.sleep(LOOK_SECONDS)  # else it may be done before it looks
        if step.pace == "paused":
            paused.append((step.rows_read, begun(laid)))
            if len(paused) == 3:
                shown.append(said(laid, tmp_path))
                shown.append(said(laid, tmp_path, "--resume"))

    with capture_logs() as logs:
        result = full_copy.run(laid.settings, progress=act)
    assert len(paused) >= 3
    assert len(set(paused[:3])) == 1, "it went on while it was paused"
    assert 0 < paused[0][0] < 240
    assert "PAUSED; `migrate throttle --resume` ends the pause" in shown[0]
    assert f"copy of {laid.source}.t: " in shown[0]
    assert "PAUSED (0 chunks at a time): paused by `migrate throttle`" in shown[0]
    assert "PAUSED;" not in shown[1]
    events = [entry["event"] for entry in logs]
    assert "the copy is paused" in events[: events.index("the copy goes on at full pace")]
    assert result.rows_read == 240
    here, there = raw_rows(laid)
    assert here == there
    assert "no copy runs" in said(laid, tmp_path)


@pytest.mark.usefixtures("spark")
def test_a_pause_outlives_the_copy_that_is_killed(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, 200)
    change(laid, paused=True)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(dict(laid.raw)))
    command = [sys.executable, "-m", "jobs.full_copy", "--config", str(config)]
    driver = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SLOW
        while (now := copying(laid)) is None or now.progress.pace != "paused":
            assert driver.poll() is None, "the copy ended"
            assert time.monotonic() < deadline, "it does not say that it is paused"
            time.sleep(0.1)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    assert begun(laid) == 0
    steps: list[CopyProgress] = []

    def act(step: CopyProgress) -> None:
        steps.append(step)
        if len(steps) == 1:
            change(laid, paused=False)

    assert full_copy.run(laid.settings, progress=act).rows_read == 200
    assert (steps[0].pace, steps[0].rows_read) == ("paused", 0)


@pytest.mark.usefixtures("spark")
def test_chunks_and_rows_per_second_change_while_it_runs(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, 600)
    steps: list[tuple[float, CopyProgress]] = []

    def act(step: CopyProgress) -> None:
        steps.append((time.monotonic(), step))
        if len(steps) == 1:
            change(laid, chunks=1, rows_per_second=100)
            time.sleep(LOOK_SECONDS)  # else it may be done before it looks
        elif step.chunks == 1 and sum(one.chunks == 1 for _, one in steps) == 10:
            change(laid, reset=True)

    assert full_copy.run(laid.settings, progress=act).rows_read == 600
    slow = [(at, step) for at, step in steps if step.chunks == 1]
    assert len(slow) >= 10
    assert slow[0][1].pace == "slowed"
    (first, before), (last, after) = slow[0], slow[9]
    assert after.rows_read - before.rows_read <= 100 * (last - first) + 20  # and the chunk that is waited for
    assert {step.reason for _, step in slow[:10]} == {"at most 100 rows per second"}
    assert steps[-1][1].pace == "full"


def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, 1)
    said(laid, tmp_path, "--chunks", "8", "--min-chunks", "3", "--max-replica-lag-seconds", "2.5")
    line, hint = ask(laid, tmp_path, "--chunks", "2").told(2)
    assert line == "at least 3 chunks at a time is above 2, the most"
    assert hint.startswith("set both: ")
    line, _ = ask(laid, tmp_path, "--chunks", "0").told(2)
    assert line == "--chunks: 0 is not between 1 and 8", "half of connections.per_server"
    line, _ = ask(laid, tmp_path, "--max-threads-running", "-1").told(2)
    assert line.startswith("--max-threads-running: -1 is not between 0 and ")
    line, _ = ask(laid, tmp_path, "--pause", "--resume").told(2)
    assert line == "--pause, --resume and --reset exclude each other"
    state = laid.state()
    now = operator_limits.read(laid.settings, state, stored_plan(laid.settings, state))
    state.dispose()
    assert (now.limits.chunks, now.limits.min_chunks, now.limits.max_replica_lag_seconds) == (8, 3, 2.5)
    assert now.limits.max_threads_running == 50
    said(laid, tmp_path, "--reset", "--rows-per-second", "7")
    shown = said(laid, tmp_path)
    assert "chunks: 2 (as configured)" in shown
    assert "rows_per_second: 7 (as asked)" in shown


# -- by load


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_busy_server_holds_the_copy_which_says_so_and_goes_on_when_it_is_quiet(
    box: Sandbox, tmp_path: Path, which: str
) -> None:
    laid = layout(box, tmp_path, max_threads_running=12)
    server, name = (box.source, "source 'main'") if which == "source" else (box.targets[1], "target 't1'")
    steps: list[CopyProgress] = []
    held: list[tuple[int, int]] = []
    noted: list[RunningCopy | None] = []
    busy = ExitStack()

    def act(step: CopyProgress) -> None:
        steps.append(step)
        if len(steps) == 1:
            busy.enter_context(sleeping(server, 30))
            time.sleep(LOOK_SECONDS)  # else it may be done before it looks
        if step.pace == "held":
            held.append((step.rows_read, begun(laid)))
            if len(held) == 3:
                noted.append(copying(laid))
                busy.close()

    with busy, capture_logs() as logs:
        assert full_copy.run(laid.settings, progress=act).rows_read == 240
    assert len(held) >= 3
    assert len(set(held[:3])) == 1, "it went on while the server was busy"
    now = noted[0]
    assert now is not None
    assert now.running
    assert now.progress.pace == "held"
    assert now.progress.reason.startswith(f"{name}: 3")
    assert " threads running, limit 12; `migrate throttle --max-threads-running N`" in now.progress.reason
    reasons = [entry["reason"] for entry in logs if entry["event"] == "the copy is held"]
    assert len(reasons) == 1
    assert reasons[0].startswith(name)
    here, there = raw_rows(laid)
    assert here == there


@pytest.mark.usefixtures("spark")
def test_a_server_above_the_limit_gets_fewer_chunks_at_a_time(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, max_threads_running=20)
    steps: list[CopyProgress] = []
    with sleeping(box.targets[0], 25):
        assert full_copy.run(laid.settings, progress=steps.append).rows_read == 240
    assert {(step.pace, step.chunks) for step in steps} == {("slowed", 1)}
    assert steps[0].reason.startswith("target 't0': 2")


# -- progress


@pytest.mark.usefixtures("spark")
def test_rows_by_place_are_counted_once_over_runs_and_the_skew_is_told(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, 240)
    box.source.execute("DELETE FROM t WHERE id % 8 <> 1 AND id > 80", database=laid.source)
    wanted = {str(place): 0 for place in laid.table.places}
    for (key,) in laid.source_rows("id"):
        wanted[str(laid.table.places[laid.table.rule.route_many([[str(key)]])[0]])] += 1

    class Enough(Exception):  # noqa: N818
        pass

    def stop(_step: CopyProgress) -> None:
        raise Enough

    with pytest.raises(Enough):
        full_copy.run(laid.settings, progress=stop)
    done = full_copy.run(laid.settings)
    table = done.tables[0]
    assert table.places == wanted
    rows = sum(wanted.values())
    assert rows == 100
    assert table.skew == round(max(wanted.values()) * 8 / rows, 3)
    told = done.as_dict()["tables"]
    assert isinstance(told, list)
    assert told[0]["places"] == wanted
    assert told[0]["skew"] == table.skew
    now = copying(laid)
    assert now is not None
    assert (dict(now.places), now.progress.rows_read, now.progress.pace) == (wanted, rows, "copied")
    assert {chunk.state for chunk in _details(laid)} == {ChunkState.DONE}
    state = laid.state()
    with state.begin() as connection:
        chunks.void(connection, laid.settings.name, laid.table.table)
        assert copy_progress.places(connection, laid.settings.name, laid.table.table.id) == {}
    state.dispose()


def _details(laid: Laid) -> list[chunks.ChunkCopy]:
    state = laid.state()
    with state.connect() as connection:
        found = chunks.load(connection, laid.settings.name, laid.table.table)
    state.dispose()
    return found
