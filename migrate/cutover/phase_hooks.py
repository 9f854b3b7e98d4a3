"""Hooks by phase: before it, where a failure stops it, and after it; facts are in their environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import sqlalchemy as sa
import structlog

from migrate.cutover import hook
from migrate.model.errors import MigrateError, ServerError
from migrate.settings import Settings
from migrate.state import cutover
from migrate.state.cutover import Outcome

log = structlog.get_logger("migrate.hooks")


class Phase(StrEnum):
    """The values are what hooks get."""

    COPY = "copy"
    VERIFY = "verify"
    CUTOVER = "cutover"
    ROLLBACK = "rollback"
    FINISH = "finish"


_When = Literal["before", "after"]
_STEP = "step"


@dataclass(frozen=True, slots=True)
class StepHooks:
    """Around the steps of a cutover, or of a rollback. rehearsed: nothing is switched."""

    settings: Settings
    phase: Phase
    rehearsed: bool = False

    def run(self, when: _When, step: str, number: int) -> None:
        """number: of the run; 0 before it has one. Raises ServerError, ConfigError."""
        facts = {"step": step, "run": str(number or ""), "rehearsal": "yes" if self.rehearsed else "no"}
        _run(self.settings, when, _STEP, self.phase, facts)


def _failed() -> str:
    return "failed"


def after_error(state: sa.Engine, migration: str, run: int) -> str:
    """The outcome of a cutover or rollback that ended with an error, for its hook: the error may have come behind the
    switch, and what is left is done by then. run: 0 where it had no number yet."""
    try:
        with state.connect() as connection:
            last = cutover.latest(connection, migration, run)
    except sa.exc.SQLAlchemyError:
        return "unknown"
    return "switched" if last is not None and last.outcome in (Outcome.SWITCHED, Outcome.DONE) else "failed"


@contextmanager
def around(
    settings: Settings,
    phase: Phase,
    facts: Mapping[str, str] | None = None,
    failed: Callable[[], str] = _failed,
) -> Iterator[dict[str, str]]:
    """The hooks of a phase around the block, to which it may add facts for the one after it.

    facts: further ones, by the end of their variable's name. The hook after the phase is told its outcome, `done`, or
    what `failed` says; of a phase that failed its own failure is logged, and the phase's error goes on.
    Raises ServerError where a hook fails, and ConfigError where the directory of its lock is not ours.
    """
    more = dict(facts or {})
    _run(settings, "before", phase.value, phase, more)
    try:
        yield more
    except BaseException:
        told = {**more, "outcome": failed()}
        try:
            _run(settings, "after", phase.value, phase, told)
        except MigrateError as second:
            log.warning("the hook after a failed phase failed too", phase=phase.value, error=second.message)
        raise
    _run(settings, "after", phase.value, phase, {**more, "outcome": "done"})


def _run(settings: Settings, when: _When, name: str, phase: Phase, facts: Mapping[str, str]) -> None:
    hooks = settings.hooks
    chosen = hooks.before if when == "before" else hooks.after
    command: tuple[str, ...] = getattr(chosen, "copy_" if name == "copy" else name)
    if not command:
        return
    told = {"migration": settings.name, "phase": phase.value, "when": when, **facts}
    variables = {f"MIGRATE_{key.upper()}": value for key, value in told.items()}
    lock = settings.run_dir / f"hook-{name}.lock"
    try:
        hook.run(command, hooks.seconds, lock, hooks.environment, variables)
    except ServerError as error:
        where, what = f"hooks.{when}.{name}", facts.get("step", phase.value)
        if when == "before":
            message, hint = (
                f"`{what}` is not begun, {where} refuses: {error.message}",
                "run the command again once it agrees",
            )
        else:
            message, hint = f"`{what}` is done, {where} failed: {error.message}", "nothing is undone by that"
        raise ServerError(message, hint=hint) from error
