"""When a server was started: what it wrote while it ran before, with another log or with none, no log of now shows."""

from __future__ import annotations

from migrate.model.errors import ServerError
from migrate.mysql.connection import Connection

_ROUNDS = 20


def started(connection: Connection) -> int:
    """Seconds since 1970, by the server's clock as it was at its start: the same as long as it runs.

    `Uptime` is the time of its statement less that start, in whole seconds (`show_starttime` in the sources of MySQL
    and MariaDB), so a clock that is set moves both; and they are taken within one second. Raises the driver's error;
    ServerError where that never comes off.
    """
    for _ in range(_ROUNDS):
        before = _now(connection)
        ((_, uptime),) = connection.query("SHOW GLOBAL STATUS LIKE 'Uptime'")
        if _now(connection) == before:
            return before - int(uptime)
    raise ServerError(
        f"{connection.name} took longer than a second for each of {_ROUNDS} questions for its uptime",
        hint="it is tried again",
    )


def _now(connection: Connection) -> int:
    ((seconds,),) = connection.query("SELECT UNIX_TIMESTAMP()")
    return int(seconds)
