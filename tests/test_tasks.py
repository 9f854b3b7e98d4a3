"""The Makefile explains itself, and .ci/run fails when anything fails."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from sandbox.paths import PROJECT
from tests.flow.pages import DEMOS

STEPS = ["setup", "prepare", "lint", "typecheck", "models", "test", "test-compiled", "test-long"]

MAKE = """#!/bin/sh
echo "$1" >> "$CALLS"
case " $FAILING " in *" $1 "*) exit 2 ;; esac
"""


def ci(directory: Path, failing: str) -> tuple[int, str, list[str]]:
    """Run .ci/run with a `make` that fails the named tasks: exit status, output, tasks called."""
    (directory / "make").write_text(MAKE)
    (directory / "make").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{directory}:{os.environ['PATH']}",
        "CALLS": str(directory / "calls"),
        "FAILING": failing,
    }
    ended = subprocess.run(
        [str(PROJECT / ".ci" / "run")], env=environment, capture_output=True, text=True, cwd="/", timeout=60
    )
    return ended.returncode, ended.stdout, (directory / "calls").read_text().split()


def test_ci_passes_when_every_task_does(tmp_path: Path) -> None:
    status, output, called = ci(tmp_path, "")
    assert (status, called) == (0, STEPS)
    assert re.search(r"=== summary\n(  [\w-]+ +\d+ s  ok\n){8}  all +\d+ s  passed\n$", output)


@pytest.mark.parametrize("failing", ["lint", "typecheck", "models", "test", "test-long", "test-compiled"])
def test_ci_goes_on_after_a_failed_check_and_fails(tmp_path: Path, failing: str) -> None:
    status, output, called = ci(tmp_path, failing)
    assert (status, called) == (1, STEPS)
    assert re.search(rf"  {failing} +\d+ s  FAILED \(exit status 2\)\n", output)
    assert re.search(r"  all +\d+ s  FAILED\n$", output)


@pytest.mark.parametrize("failing", ["setup", "prepare"])
def test_ci_stops_where_nothing_can_be_checked(tmp_path: Path, failing: str) -> None:
    status, output, called = ci(tmp_path, failing)
    assert (status, called) == (1, STEPS[: STEPS.index(failing) + 1])
    assert re.search(r"  all +\d+ s  FAILED\n$", output)


def commands(*tasks: str) -> list[str]:
    """What `make` would run for these tasks, a line each."""
    asked = ["make", "--dry-run", *tasks]
    return subprocess.run(
        asked, capture_output=True, text=True, cwd=PROJECT, timeout=60, check=True
    ).stdout.splitlines()


def test_ci_needs_no_browser() -> None:
    """Neither it nor the whole suite fetches Chromium, or runs what needs it; `make test-browser` does both."""
    shown = commands(*STEPS, "test-all", "coverage", "times")
    assert [one for one in shown if re.search(r"install --browser|test_browser|demo_watched", one)] == []
    whole = [one for one in shown if "-m pytest" in one and "tests/" not in one]
    assert len(whole) == 4
    assert [one for one in whole if "not browser" not in one] == []
    assert len([one for one in commands("test-browser") if re.search(r"install --browser|-m browser", one)]) == 2


def test_make_alone_lists_every_task() -> None:
    listed = subprocess.run(["make"], capture_output=True, text=True, cwd=PROJECT, timeout=60, check=True).stdout
    phony = re.findall(r"^\.PHONY: (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert re.findall(r"^  make ([\w-]+) {2,}\S", listed, re.MULTILINE) == " ".join(phony).split()


@pytest.mark.parametrize(("line", "options"), [*zip(DEMOS, (("mariadb", 8), ("mysql", 2)), strict=True)])
def test_a_demo_of_a_page_starts_what_a_test_runs(line: str, options: tuple[str, int]) -> None:
    """`tests/flow/test_reshard.py` does, on two sources."""
    command = ["make", "-n", "--no-print-directory", *line.split()[1:]]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    told = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=alone, timeout=60, check=True)
    started = told.stdout.splitlines()[-1].split()
    assert started[1:] == ["-m", "sandbox.reshard", "--flavour", options[0], "--sources", str(options[1])]
