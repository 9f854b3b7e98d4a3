"""Hooks by phase: one that fails stops what it guards, and each gets the facts and none of our secrets."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from migrate.cutover.journal import STEPS, Journal
from migrate.cutover.phase_hooks import Phase, StepHooks, around
from migrate.model.errors import ServerError
from migrate.settings import Settings
from tests.cli.support import SECRET, python_m_migrate, written
from tests.helpers import make_settings, raw_settings

NAMES = ("copy", "verify", "cutover", "rollback", "finish", "step")
_NOTES = """\
import json, os, sys
facts = {key: value for key, value in os.environ.items() if key.startswith("MIGRATE_") or "PASSWORD" in key}
open(sys.argv[1], "a").write(json.dumps(facts) + "\\n")
if os.environ["MIGRATE_WHEN"] + " " + os.environ.get("MIGRATE_STEP", os.environ["MIGRATE_PHASE"]) in sys.argv[2:]:
    sys.exit("not on a Friday")
"""
Made = Callable[..., Settings]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def made(tmp_path: Path, notes: Path) -> Made:
    """Settings whose hooks write down what they get, and fail at what is named ("before copy")."""

    def make(*failing: str, **more: Any) -> Settings:
        script = tmp_path / "hook.py"
        script.write_text(_NOTES)
        command = [sys.executable, str(script), str(notes), *failing]
        each = dict.fromkeys(NAMES, command)
        return make_settings(hooks={"before": each, "after": each, **more}, run_dir=str(tmp_path / "run"))

    return make


def seen(notes: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def told(facts: dict[str, str]) -> dict[str, str]:
    return {key.removeprefix("MIGRATE_").lower(): value for key, value in facts.items()}


def test_both_hooks_get_the_facts_and_only_the_variables_that_are_named(
    made: Made, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", SECRET)
    monkeypatch.setenv("HOOK_PASSWORD", "for-hooks")
    with around(made(environment=["HOOK_PASSWORD"]), Phase.VERIFY) as facts:
        facts["differences"] = "3"
    before, after = seen(notes)
    common = {"migration": "m", "phase": "verify", "hook_password": "for-hooks"}
    assert told(before) == {**common, "when": "before"}
    assert told(after) == {**common, "when": "after", "differences": "3", "outcome": "done"}


@pytest.mark.parametrize("phase", [*Phase])
def test_a_phase_whose_hook_fails_is_not_begun(made: Made, notes: Path, phase: Phase) -> None:
    with pytest.raises(ServerError) as raised, around(made(f"before {phase}"), phase):
        pytest.fail("it began")
    assert raised.value.message.startswith(f"`{phase}` is not begun, hooks.before.{phase} refuses: hook ")
    assert raised.value.message.endswith("exit status 1: not on a Friday")
    assert [one["MIGRATE_WHEN"] for one in seen(notes)] == ["before"]


def test_after_a_failure_its_own_error_goes_on_and_the_hook_is_told(made: Made, notes: Path) -> None:
    for failing in ((), ("after copy",)):
        with pytest.raises(LookupError, match="of the phase"), around(made(*failing), Phase.COPY):
            raise LookupError("of the phase")
    assert [told(one).get("outcome") for one in seen(notes)] == [None, "failed"] * 2


def test_a_hook_that_fails_after_what_was_done_is_an_error_that_says_so(made: Made) -> None:
    began = []
    with pytest.raises(ServerError, match=r"`copy` is done, hooks\.after\.copy failed: .*not on a Friday"):
        with around(made("after copy"), Phase.COPY):
            began.append(True)
    assert began == [True]


def parts(journal: Journal) -> list[str]:
    """Steps that are done, until one is stopped."""
    done: list[str] = []
    with suppress(ServerError):
        for step in STEPS:
            with journal.part(step):
                done.append(step)
    return done


def test_each_step_up_to_the_switch_has_hooks_and_what_follows_it_none(made: Made, notes: Path) -> None:
    journal = Journal("m", sa.create_engine("sqlite://"), lambda _line: None)
    journal.hooks = StepHooks(made(), Phase.ROLLBACK, rehearsed=True)
    journal.run = 7
    assert parts(journal) == list(STEPS)
    found = [told(one) for one in seen(notes)]
    guarded = list(STEPS[:-1])
    assert [one["step"] for one in found if one["when"] == "before"] == guarded
    assert [one["step"] for one in found if one["when"] == "after"] == guarded[:-1]
    assert {(one["phase"], one["run"], one["rehearsal"]) for one in found} == {("rollback", "7", "yes")}


@pytest.mark.parametrize("stopped", ["check", "drain", "switch"])
def test_a_step_whose_hook_fails_is_not_begun_nor_is_what_follows(made: Made, stopped: str) -> None:
    journal = Journal("m", sa.create_engine("sqlite://"), lambda _line: None)
    journal.hooks = StepHooks(made(f"before {stopped}"), Phase.CUTOVER)
    assert parts(journal) == list(STEPS[: STEPS.index(stopped)])


@pytest.mark.parametrize("command", ["copy", "verify"])
def test_a_command_asks_its_hook_before_it_asks_a_server(tmp_path: Path, command: str) -> None:
    """Nothing answers at the config's addresses, and the hook's error is the one that is told."""
    refuses = [sys.executable, "-c", "import sys; sys.exit('not on a Friday')"]
    raw = raw_settings(hooks={"before": {command: refuses}}, run_dir=str(tmp_path / "run"))
    message, _ = python_m_migrate("--config", str(written(tmp_path, raw)), command).told(4)
    assert message.startswith(f"`{command}` is not begun, hooks.before.{command} refuses: hook ")
