"""What a run of a cutover writes down: each step as it begins and as it ends, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.cutover.phase_hooks import StepHooks
from migrate.state import cutover
from migrate.state.cutover import StepState, SwitchDirection

log = structlog.get_logger("migrate.cutover")
STEPS = ("check", "catch up", "stop writes", "lock", "drain", "compare", "roles", "switch", "release")
_GUARDED = STEPS[: STEPS.index("switch") + 1]
_FOLLOWED = STEPS[: STEPS.index("switch")]


@dataclass(slots=True)
class CutoverReport:
    """What a cutover, or its rehearsal, came to."""

    direction: SwitchDirection
    run: int = 0
    rehearsed: bool = False
    measured: bool = False  # of a rehearsal: it stopped writes too
    freeze_seconds: float = 0.0  # measured; of a rehearsal that stopped nobody predicted
    parts: dict[str, float] = field(default_factory=dict)  # seconds of each step
    keys: int = 0  # compared inside the freeze
    ends: dict[str, str] = field(default_factory=dict)  # by server, where its log ended in the freeze
    notes: list[str] = field(default_factory=list)  # of a rollback: rows that are not at the sources, or not at all


def unheard(say: Callable[[str], None]) -> Callable[[str], None]:
    """As `say`, also where nobody can hear it any more: a terminal or pipe that is gone ends no giving back."""

    def said(line: str) -> None:
        with suppress(OSError, SystemExit):  # rich ends the program where a pipe is broken
            say(line)

    return said


class Journal:
    """Of one run; parts that come before it has a number are told and timed, and not written."""

    def __init__(self, migration: str, state: sa.Engine, say: Callable[[str], None]) -> None:
        self.hooks: StepHooks | None = None  # of the user's, around the steps of a run that begins here
        self._migration = migration
        self._state = state
        self._say = say
        self._failed: tuple[str, str] | None = None  # the step at which it ended, and why
        self.run = 0
        self.parts: dict[str, float] = {}  # seconds of each

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Tell and time what is no step of the run."""
        self._say(f"{STEPS.index(name) + 1 if name in STEPS else '-'}. {name}")
        began = time.monotonic()
        self._hook("before", name)
        yield
        self._hook("after", name)
        self.parts[name] = time.monotonic() - began

    def _hook(self, when: Literal["before", "after"], name: str) -> None:
        """Where it guards a step: what comes after the switch nothing may stop. Raises ServerError, ConfigError."""
        if self.hooks is not None and name in (_GUARDED if when == "before" else _FOLLOWED):
            self.hooks.run(when, name, self.run)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step: its beginning is written first. That it failed is for `write_failed`, as the state may be why."""
        self._write(name, StepState.BEGUN)
        try:
            with self.part(name):
                yield
        except BaseException as error:
            self._failed = name, str(error) or type(error).__name__
            raise
        self._write(name, StepState.DONE)

    def write_failed(self) -> None:
        """The step that failed, if one did. What the state does not take is logged."""
        if self._failed is None:
            return
        step, why = self._failed
        try:
            self._write(step, StepState.FAILED, why)
        except DBAPIError as error:
            log.warning("not noted in the journal", step=step, error=str(error.orig))

    def _write(self, step: str, stage: StepState, detail: str = "") -> None:
        with self._state.begin() as connection:
            cutover.write(connection, self._migration, self.run, step, stage, detail)
