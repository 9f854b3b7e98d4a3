"""The password of a session: from the config, or from a program that is run for each one."""

from __future__ import annotations

import os
import subprocess

from migrate.model.errors import ServerError
from migrate.settings import Server

_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
_HINT = "`password_command` is to print the password, and nothing else, and to end with status 0"


def password_of(server: Server) -> str:
    """What it prints is in no error and no log.

    Raises: ServerError where the program fails, prints nothing, or takes longer than `connect_timeout`.
    """
    if not server.password_command:
        return server.password.get_secret_value()
    program = server.password_command[0]
    where = f"password_command '{program}' for {server.user} at {server.address}"
    try:
        done = subprocess.run(
            server.password_command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(server),
            timeout=server.connect_timeout,
            check=True,
        )
    except OSError as error:
        raise ServerError(f"{where}: {error.strerror}", hint=_HINT) from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"{where}: did not end within {server.connect_timeout:g} s", hint=_HINT) from None
    except subprocess.CalledProcessError as error:
        raise ServerError(f"{where}: exit status {error.returncode}", hint=_HINT) from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise ServerError(f"{where}: printed {len(lines)} lines instead of one", hint=_HINT)
    return lines[0]


def _environment(server: Server) -> dict[str, str]:
    wanted = {*_KEPT, *server.password_environment}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
