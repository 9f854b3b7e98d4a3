"""What is waited for before a statement is sent: a server with few threads running, and replicas that are not late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from migrate.ddl.servers import Servers
from migrate.model.errors import ServerError
from migrate.mysql.capabilities import replica_status
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import text
from migrate.settings import Server

_BEHIND = ("Seconds_Behind_Source", "Seconds_Behind_Master")
_SECONDS = 3.0
POLL_SECONDS = 1.0


def wait(
    servers: Servers, session: Connection, threads: int, lag: float, stop: threading.Event, say: Callable[[str], None]
) -> bool:
    """Until there is room for a statement; False where `stop` was set first.

    session: at the server that is to run it. threads: running at most, 0: any number. lag: of a replica, in seconds, 0:
    any. Raises the driver's error of the session.
    """
    told = ""
    while not stop.is_set():
        reason = _busy(session, threads) or _late(servers.replicas, lag)
        if not reason:
            return True
        if reason != told:
            say(f"waiting: {reason}")
            told = reason
        stop.wait(POLL_SECONDS)
    return False


def _busy(session: Connection, most: int) -> str:
    if not most:
        return ""
    row = session.one("SHOW GLOBAL STATUS LIKE 'Threads_running'")
    running = int(row[1]) if row is not None else 0
    return f"{session.name} has more than {most} threads running" if running > most else ""


def _late(replicas: Iterable[Server], most: float) -> str:
    """A replica that does not answer or does not replicate is taken for late."""
    for replica in replicas if most else ():
        name = f"replica {replica.host}:{replica.port}"
        try:
            short = {"connect_timeout": _SECONDS, "read_timeout": _SECONDS}
            with closing(connect(replica.model_copy(update=short), name)) as session:
                late = _lag(session)
        except (ServerError, pymysql.MySQLError, OSError) as error:
            return f"{name} does not answer: {error.message if isinstance(error, ServerError) else text(error)}"
        if late is None:
            return f"{name} does not replicate"
        if late > most:
            return f"{name} is more than {most:g} s late"
    return ""


def _lag(session: Connection) -> float | None:
    with session.raw.cursor(DictCursor) as cursor:
        cursor.execute(replica_status(session))
        channels: Any = cursor.fetchall()
    late = [next(row[name] for name in _BEHIND if name in row) for row in channels]
    return None if not late or None in late else float(max(late))
