"""One cutover at a time: under a lease, after what an earlier one left, watched by a guardian in case it is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from migrate.model.errors import PreflightError, ServerError
from migrate.ops.cutover import LEASE, Cutover, Report, Say
from migrate.settings import Settings
from migrate.state import cutover
from migrate.state.cutover import Direction, Outcome, Run
from migrate.state.lease import Leases


def switch_over(
    settings: Settings, state: sa.Engine, config: Path, direction: Direction, say: Say, *, rehearse: bool = False
) -> Report | None:
    """Do what is left of an earlier run, then switch; None when there was nothing left but to release.

    Raises: PreflightError, CutoverAborted, ServerError, DifferenceFound.
    """
    with alone(settings, state):
        if _end_earlier(settings, state, direction, say):
            return None
        with closing(Cutover(settings, state, direction, say)) as run:
            if rehearse:
                return run.rehearse()
            with _guarded(config):
                return run.run()


def abort(settings: Settings, state: sa.Engine, say: Say) -> None:
    """Give writes back after a run that was killed before its switch. Raises PreflightError when there is none."""
    with alone(settings, state):
        last = latest(settings, state)
        if last is None or not last.open:
            raise PreflightError("no cutover is under way", hint="`migrate status` says where applications are")
        if last.outcome is Outcome.SWITCHED:
            way = "rollback" if last.direction is Direction.THERE else "cutover"
            raise PreflightError(
                f"run {last.number} has switched; nothing is given back any more",
                hint=f"`migrate {_command(last.direction)}` again does the rest; `migrate {way}` is the way back",
            )
        _give_back(settings, state, last, say)


@contextmanager
def alone(settings: Settings, state: sa.Engine) -> Iterator[None]:
    """With the lease of cutovers. Raises PreflightError while another one has it."""
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        if leases.acquire(LEASE) is None:
            raise PreflightError(
                "another cutover is under way, or one was killed a moment ago",
                hint=f"wait {settings.lease.seconds:g} s after a kill; `migrate status` says where it stands",
            )
        yield


@contextmanager
def _guarded(config: Path) -> Iterator[None]:
    """A process of its own outlives this one, and gives writes back should this one be killed."""
    command = [sys.executable, "-P", "-m", "migrate.ops.guardian", str(config.resolve())]
    guardian = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        if guardian.stdout is None or guardian.stdout.readline() != "ready\n":
            raise ServerError("the process that would give writes back after a kill does not start", hint="see above")
        yield
    finally:
        guardian.communicate()  # it looks, and ends what is still open


def latest(settings: Settings, state: sa.Engine) -> Run | None:
    with state.connect() as connection:
        return cutover.latest(connection, settings.name)


def _end_earlier(settings: Settings, state: sa.Engine, direction: Direction, say: Say) -> bool:
    """End a run that was killed; whether that is all that was asked for."""
    last = latest(settings, state)
    if last is None or not last.open:
        return False
    say(f"run {last.number} was interrupted ({last.outcome})")
    end(settings, state, last, say)
    return last.outcome is Outcome.SWITCHED and last.direction is direction


def end(settings: Settings, state: sa.Engine, run: Run, say: Say) -> None:
    """Before the switch writes are given back, after it what is blocked is released. Raises ServerError; then again."""
    if run.outcome is Outcome.RUNNING:
        _give_back(settings, state, run, say)
    else:
        with closing(Cutover(settings, state, run.direction, say)) as interrupted:
            interrupted.finish(run.number)


def _give_back(settings: Settings, state: sa.Engine, run: Run, say: Say) -> None:
    with closing(Cutover(settings, state, run.direction, say)) as interrupted:
        if not interrupted.give_back(run.number, "it was interrupted"):
            interrupted.finish(run.number)


def _command(direction: Direction) -> str:
    return "cutover" if direction is Direction.THERE else "rollback"
