"""The password of a session: from the config, or from a program that is run for each one."""

from __future__ import annotations

from migrate.model.errors import ServerError
from migrate.secret_program import printed
from migrate.settings import Server

_HINT = "`password_command` is to print the password, and nothing else, and to end with status 0"


def password_of(server: Server) -> str:
    """What it prints is in no error and no log.

    Raises: ServerError where the program fails, prints nothing, or takes longer than `connect_timeout`.
    """
    if not server.password_command:
        return server.password.get_secret_value()
    where = f"password_command '{server.password_command[0]}' for {server.user} at {server.address}"
    lines = printed(server.password_command, server.password_environment, server.connect_timeout, where, _HINT)
    if len(lines) != 1 or not lines[0]:
        raise ServerError(f"{where}: printed {len(lines)} lines instead of one", hint=_HINT)
    return lines[0]
