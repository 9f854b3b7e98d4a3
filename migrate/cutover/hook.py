"""Executables of the user's that stop writes and give them back: one at a time, and none outlives its time."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from migrate import private
from migrate.cutover.left_server import settled
from migrate.model.errors import ServerError

_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})


def run(
    command: Sequence[str],
    seconds: float,
    lock: Path,
    environment: Collection[str] = (),
    facts: Mapping[str, str] | None = None,
) -> None:
    """Run one to its end; after an earlier one that a killed process left running. Raises ServerError, ConfigError.

    lock: a file. Whoever runs has it locked, and the hook inherits that; it is of use on one machine only.
    environment: names of further variables that it gets of ours, which have the servers' passwords among them.
    facts: variables that it gets besides.
    """
    shown = " ".join(command)
    private.directory(lock.parent)
    with os.fdopen(private.opened(lock), "w") as held:
        if not settled(lambda: _locked(held), seconds):
            raise ServerError(f"hook {shown}: an earlier one still runs after {seconds:g} s")
        try:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=_environment(environment) | dict(facts or {}),
                pass_fds=[held.fileno()],
            )
        except OSError as error:
            raise ServerError(f"hook {shown}: {error}") from error
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all that it started
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ServerError(f"hook {shown}: did not end within {seconds:g} s") from error
            raise
        finally:
            fcntl.flock(held, fcntl.LOCK_UN)  # also where something that it left running has the file open
    if process.returncode:
        told = (err or out).strip().splitlines()
        raise ServerError(f"hook {shown}: exit status {process.returncode}{': ' + told[-1] if told else ''}")


def _environment(names: Collection[str]) -> dict[str, str]:
    wanted = {*_KEPT, *names}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
