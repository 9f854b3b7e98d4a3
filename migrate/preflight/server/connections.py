"""Sessions: what all processes of a migration may open at a server, against what it allows.

Counted is what each process opens at most by its own bounds, each process once. A further consumer, or another
migration, comes on top.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable

from migrate.copy.governor import WAVES
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.settings import Connections, Server, Settings
from migrate.state.database import SESSIONS

_ROOM = 10
"""That a limit which is mended leaves to others, at least."""
_COMMAND = 5
"""Of one command at a source or target: init makes tables over four, a cutover locks, compares and watches."""


def needed(settings: Settings, server: Server, user: str | None = None) -> Counter[str]:
    """How many sessions each process may open at a server, whatever it is to the migration: source, target, state.

    user: only those of this account.
    """
    found: Counter[str] = Counter()
    for role, one in _roles(settings):
        if _address(one) == _address(server) and user in (None, one.user):
            found.update(_of_role(settings, role, one))
    return found


def _address(server: Server) -> tuple[str, int]:
    return server.host.lower(), server.port


def _roles(settings: Settings) -> Iterable[tuple[str, Server]]:
    yield "state", settings.state
    yield from (("source", one) for one in settings.sources)
    yield from (("target", one) for one in settings.targets)


def _of_role(settings: Settings, role: str, server: Server) -> dict[str, int]:
    copy, verify = _tasks(settings, settings.copy_.master), _tasks(settings, settings.verify.master)
    if role == "source":
        publish = 4  # the dump, the catalog, where the log goes on, another address
        # A task reads a row that is too large for one value by another session; the driver plans, measures and waits.
        return {"publish": publish, "consume": 1, "check": 2, "copy": 2 * copy + 3, "verify": verify + 2, **_COMMANDS}
    if role == "target":
        here = sum(settings.target(one.target) is server for one in settings.databases.values())
        consume = min(here, settings.connections.per_server)
        return {"consume": consume, "commit": 1, "check": 1, "copy": copy + 2, "verify": verify + 1, **_COMMANDS}
    publish = SESSIONS + 1  # one tries the log's statements
    each = dict.fromkeys(("consume", "commit", "requeue", "check", "copy"), SESSIONS)
    if settings.alarms.to:
        each["alarms"] = SESSIONS
    return {
        "publish": publish * len(settings.sources),
        **each,
        "verify": SESSIONS + 1,
        "web": 2 * SESSIONS + 5,
        **_COMMANDS,
    }


_COMMANDS = {"a command": _COMMAND}


def _tasks(settings: Settings, master: str) -> int:
    """That run at a time: on this machine as many as it has cores, or as `local[N]` says."""
    most = settings.connections.per_server
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if local is None:
        return most
    said = local.group(1)
    return min(most, (os.cpu_count() or most) if said == "*" else int(said or 1))


def check(connection: Connection, settings: Settings, server: Server) -> list[Result]:
    """A problem where a limit is below what may be opened; a note where it may not suffice beside what is open now."""
    where = connection.name
    allowed = int(show_variables(connection, "max_connections")["max_connections"])
    wanted = needed(settings, server)
    total, told = wanted.total(), ", ".join(f"{process} {count}" for process, count in wanted.items())
    message = f"{where}: all processes together may open {total} sessions ({told}), and max_connections is {allowed}"
    used = _connected(connection)
    if total > allowed:
        mend = f"SET GLOBAL max_connections = {total + max(_ROOM, used)}, for good"
        return [_problem(where, message, mend, _fitting(settings, server, allowed - _ROOM))]
    own, mine = _own_limit(connection), needed(settings, server, server.user).total()
    if 0 < own < mine:
        message = f"{where}: all processes together may open {mine} sessions as {server.user}, and it may have {own}"
        mend = f"raise max_user_connections, the account's own or the global one, to {mine}"
        return [_problem(where, message, mend, _fitting(settings, server, own, server.user))]
    if total + used > allowed:
        mend = f"SET GLOBAL max_connections = {total + used + _ROOM}, for good, unless they are this migration's"
        return [Result("connections", where, Verdict.NOTE, f"{message}; {used} are open now", mend)]
    return [Result("connections", where, Verdict.PASS, message)]


def _problem(where: str, message: str, mend: str, fits: int) -> Result:
    less = f"; or connections.per_server: {fits}" if fits else ""
    return Result("connections", where, Verdict.PROBLEM, message, mend + less)


def _fitting(settings: Settings, server: Server, limit: int, user: str | None = None) -> int:
    """The highest `connections.per_server` that keeps within a limit; 0 where none does."""
    least = WAVES * settings.copy_.chunks_at_once
    for most in range(settings.connections.per_server - 1, least - 1, -1):
        less = settings.model_copy(update={"connections": Connections(per_server=most)})
        if needed(less, server, user).total() <= limit:
            return most
    return 0


def _own_limit(connection: Connection) -> int:
    """Of the account, by its own or the global limit; 0: none."""
    row = connection.one("SELECT @@SESSION.max_user_connections")
    return int(row[0]) if row else 0


def _connected(connection: Connection) -> int:
    """The sessions that there are besides this one."""
    row = connection.one("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    return max(0, int(row[1]) - 1) if row else 0
