"""A secret that a program prints: a password, a token. What it prints is in no error and no log."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence

from migrate.model.errors import ServerError

_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})


def printed(command: Sequence[str], variables: Collection[str], seconds: float, where: str, hint: str) -> list[str]:
    """The lines that it prints.

    variables: of the environment, that it gets beside PATH, HOME, LANG and the like. where: what an error begins with.
    Raises: ServerError where it fails, or takes longer than so many seconds.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(variables),
            timeout=seconds,
            check=True,
        )
    except OSError as error:
        raise ServerError(f"{where}: {error.strerror}", hint=hint) from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"{where}: did not end within {seconds:g} s", hint=hint) from None
    except subprocess.CalledProcessError as error:
        raise ServerError(f"{where}: exit status {error.returncode}", hint=hint) from None
    return done.stdout.decode("utf-8", "replace").splitlines()


def _environment(variables: Collection[str]) -> dict[str, str]:
    wanted = {*_KEPT, *variables}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
