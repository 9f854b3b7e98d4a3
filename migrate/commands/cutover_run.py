"""One cutover at a time: under a lease, after what an earlier one left, watched by a guardian in case it is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from migrate.commands.cutover import Cutover
from migrate.commands.cutover_context import CutoverContext, Say
from migrate.cutover.freeze_deadline import GuardianLine
from migrate.cutover.journal import CutoverReport
from migrate.cutover.lock import alone
from migrate.cutover.phase_hooks import Phase, after_error, around
from migrate.model.errors import PreflightError, ServerError
from migrate.settings import Settings
from migrate.state import cutover, switch
from migrate.state.cutover import CutoverRun, Outcome, SwitchDirection
from migrate.state.switch import Side

_PHASES = {SwitchDirection.TO_TARGETS: Phase.CUTOVER, SwitchDirection.TO_SOURCES: Phase.ROLLBACK}


def switch_over(
    settings: Settings,
    state: sa.Engine,
    config: Path,
    direction: SwitchDirection,
    say: Say,
    *,
    rehearse: bool = False,
    freeze: bool = False,
    without: Collection[str] = (),
) -> CutoverReport | None:
    """Do what is left of an earlier run, then switch; None when there was nothing left but to release.

    rehearse: do not switch; freeze: stop writes all the same, and give them back. without: servers that are gone for
    good. Raises: PreflightError, CutoverAborted, ServerError, DifferenceFound.
    """
    with alone(settings, state) as mine:
        if _end_earlier(settings, state, direction, say, without):
            return None
        if freeze or not rehearse:  # what this run notes is to end only what this run does
            _end_left(settings, state, say, without)
        with ExitStack() as until:
            run = until.enter_context(
                closing(Cutover(CutoverContext.of(settings, state, direction, say, without, mine)))
            )
            facts = {"rehearsal": "yes" if rehearse else "no"}
            until.enter_context(
                around(settings, _PHASES[direction], facts, lambda: after_error(state, settings.name, run.number))
            )
            if rehearse and not freeze:
                return run.rehearse()
            with _guarded(config, without) as watch:
                return run.run(watch, rehearse=rehearse)


def delivered(
    settings: Settings, state: sa.Engine, direction: SwitchDirection, without: Collection[str], say: Say
) -> tuple[dict[str, str], list[str]]:
    """Of servers that are gone for good, up to where their writes were published; and what a rollback leaves to a
    person. Raises PreflightError for others."""
    with closing(Cutover(CutoverContext.of(settings, state, direction, say, without))) as run:
        return run.delivered(), run.notes


def abort(settings: Settings, state: sa.Engine, say: Say, without: Collection[str] = ()) -> None:
    """Give writes back after a run that was killed before its switch; without servers that are gone for good.

    What stops writes where applications are although no run is open is ended too. Raises PreflightError when there is
    nothing of either.
    """
    with alone(settings, state):
        last = latest(settings, state)
        if last is None or not last.open:
            if _end_left(settings, state, say, without):
                return
            raise PreflightError("no cutover is under way", hint="`migrate status` says where applications are")
        if last.outcome is Outcome.SWITCHED:
            way = "rollback" if last.direction is SwitchDirection.TO_TARGETS else "cutover"
            raise PreflightError(
                f"run {last.number} has switched: writes stay stopped at the side that applications left",
                hint=f"`migrate {_command(last.direction)}` again does the rest; to go back, `migrate {way}`",
            )
        if without:
            delivered(settings, state, last.direction, without, say)  # they do not answer
        end(settings, state, last, say, without)
        if _is_done(settings, state, last):
            raise PreflightError(
                f"run {last.number} had switched, and the state database had lost that: nothing is given back",
                hint="`migrate status` says where applications are",
            )


def _end_left(settings: Settings, state: sa.Engine, say: Say, without: Collection[str]) -> bool:
    """End what stops writes where applications are, although no run is open; whether there was any."""
    with state.connect() as connection:
        side = switch.get(connection, settings.name).side
        if not cutover.blocked(connection, settings.name, side):
            return False
    direction = SwitchDirection.TO_TARGETS if side is Side.SOURCE else SwitchDirection.TO_SOURCES
    with closing(Cutover(CutoverContext.of(settings, state, direction, say, without))) as left:
        left.give_back_left()
    return True


def start_guardian(config: Path, without: Collection[str]) -> subprocess.Popen[str]:
    """The guardian's process, which is not in this one's session: it writes "ready" once it waits for its input to end.

    config: its absolute path; without: servers that are gone for good.
    """
    command = [sys.executable, "-P", "-m", "migrate.commands.cutover_guardian", str(config), *without]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


@contextmanager
def _guarded(config: Path, without: Collection[str]) -> Iterator[GuardianLine]:
    """A process of its own outlives this one, and gives writes back should this one be killed, or hang."""
    guardian = start_guardian(config.resolve(), without)
    try:
        if guardian.stdin is None or guardian.stdout is None or guardian.stdout.readline() != "ready\n":
            raise ServerError(
                "the guardian, which would give writes back after a kill, does not start", hint="see the error above"
            )
        yield GuardianLine(guardian.stdin)
    finally:
        guardian.communicate()  # it looks, and ends what is still open


def latest(settings: Settings, state: sa.Engine) -> CutoverRun | None:
    with state.connect() as connection:
        return cutover.latest(connection, settings.name)


def end_if_open(settings: Settings, state: sa.Engine, number: int, say: Say, without: Collection[str] = ()) -> None:
    """End a run that its process left, which went without some servers. Raises ServerError; then again."""
    with state.connect() as connection:
        run = cutover.latest(connection, settings.name, number)
    if run is not None and run.open:
        say(f"cleaning up after run {run.number}, which ended early: {run.outcome}")
        end(settings, state, run, say, without)


def _end_earlier(
    settings: Settings, state: sa.Engine, direction: SwitchDirection, say: Say, without: Collection[str]
) -> bool:
    """End a run that was killed; whether that is all that was asked for."""
    last = latest(settings, state)
    if last is None or not last.open:
        return False
    say(f"run {last.number} was interrupted ({last.outcome})")
    same = last.direction is direction
    if without and not same and last.outcome is Outcome.SWITCHED:  # they are of the side that it entered
        end(settings, state, last, say, entered_without=without)
    else:
        end(settings, state, last, say, without if same else ())
    return same and _is_done(settings, state, last)


def _is_done(settings: Settings, state: sa.Engine, run: CutoverRun) -> bool:
    """Whether a run that was ended just now came to its end there, and not back."""
    with state.connect() as connection:
        found = cutover.latest(connection, settings.name, run.number)
    return found is not None and found.outcome is Outcome.DONE


def end(
    settings: Settings,
    state: sa.Engine,
    run: CutoverRun,
    say: Say,
    without: Collection[str] = (),
    entered_without: Collection[str] = (),
) -> None:
    """Before the switch writes are given back, after it what is blocked is released. Raises ServerError; then again.

    without, entered_without: servers of either side of the run that are gone for good.
    """
    context = CutoverContext.of(settings, state, run.direction, say, without, entered_without=entered_without)
    with closing(Cutover(context)) as interrupted:
        if run.outcome is Outcome.SWITCHED or not interrupted.give_back(run.number, "it was interrupted"):
            interrupted.finish(run.number)


def _command(direction: SwitchDirection) -> str:
    return "cutover" if direction is SwitchDirection.TO_TARGETS else "rollback"
