"""Sessions a worker process keeps from one task to the next. Not shared between threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

from migrate.mysql.connection import Connection, connect
from migrate.settings import Server, Settings
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable

_SLOW_WRITER_SECONDS = 3600
"""A chunk is read as fast as the targets take it; the server's default would end the session after 60 s."""

_kept = threading.local()


def _kind(connection: Connection) -> str:
    if connection.before_mysql_8:
        return "mysql 5"
    if connection.flavour == "mariadb":  # 10.5.23 and 11.4.5 keep a floating-point -0, 10.11.18 and 11.8.9 store 0
        return f"mariadb {'.'.join(map(str, connection.version))}"
    return connection.flavour


class Sessions:
    """The source sessions and the target sessions of one migration."""

    def __init__(self, settings: Settings, where_read: Callable[[], Settings] | None = None) -> None:
        """where_read: asked for where the sources are read now, with each session; without it, as the settings are."""
        self._where_read = where_read or (lambda: settings)
        self._sources: dict[str, Connection] = {}
        self.targets = TargetPool(settings, loads=settings.copy_.load != "insert")

    def source(self, name: str) -> Connection:
        """A session that gives the server's own bytes. Raises ServerError."""
        connection = self._sources.get(name)
        if connection is None or not connection.open:
            connection = open_source(self._where_read(), name)
            self._sources[name] = connection
        return connection

    def flavours(self, tables: Sequence[PlannedTable]) -> frozenset[str]:
        """Of all servers of tables that share their places: mysql, "mysql 5" for one before MySQL 8, which computes
        less and is compared as another flavour, and MariaDB's by their versions. Raises ServerError."""
        names = dict.fromkeys(database.target for database in tables[0].databases)
        targets = (self.targets.server(name) for name in names)
        every = (*(self.source(name) for one in tables for name in one.read_at), *targets)
        return frozenset(map(_kind, every))

    def mixed(self, tables: Sequence[PlannedTable]) -> bool:
        """Whether those servers are of more than one flavour. Raises ServerError."""
        return len(self.flavours(tables)) > 1

    def close(self) -> None:
        """Forget every session: the state of one is unknown, or they are not needed any more."""
        while self._sources:
            self._sources.popitem()[1].close()
        self.targets.close()


def open_source(settings: Settings, name: str) -> Connection:
    """A session on a source that gives the server's own bytes and bears a slow reader. Raises ServerError."""
    server = settings.source(name)
    session = {"net_write_timeout": _SLOW_WRITER_SECONDS}
    return connect(server, f"source '{name}'", raw_results=True, session=session)


def kept(settings: Settings) -> Sessions:
    """This thread's sessions for these settings, opened by an earlier task or now."""
    key = (settings.name, *map(_identity, (*settings.sources, *settings.targets)), repr(settings.databases))
    if getattr(_kept, "key", None) != key:
        forget()
        _kept.key, _kept.sessions = key, Sessions(settings)
    sessions: Sessions = _kept.sessions
    return sessions


def forget() -> None:
    """Close what `kept` holds."""
    if (sessions := getattr(_kept, "sessions", None)) is not None:
        sessions.close()
    _kept.key = None


def _identity(server: Server) -> Hashable:
    of_account = server.user, server.password.get_secret_value(), server.password_command
    return server.host, server.port, *of_account, repr(server.tls), server.server
