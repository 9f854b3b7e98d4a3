"""Sessions at the target servers: one a server, given for each of its databases."""

from __future__ import annotations

import time

from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.target.in_database import InDatabase
from migrate.target.routing import TargetDatabase

SILENT_SECONDS = 60
"""The server ends a target session that says nothing for so long, and lets go of the fence that a process frozen inside
a transaction held. Longer than anything that is waited for inside one: Kafka, a page of the source."""


def connect_target(settings: Settings, target: str, database: str | None = None, loads: bool = False) -> Connection:
    """A session on a target server, which the server ends after SILENT_SECONDS of silence. Raises ServerError.

    Foreign keys are neither checked in it nor cascade: partitions are written side by side (docs/decisions/0009).
    """
    session = {"wait_timeout": SILENT_SECONDS, "foreign_key_checks": 0}
    return connect(settings.target(target), f"target '{target}'", database=database, session=session, loads=loads)


def connect_database(settings: Settings, database: TargetDatabase) -> Connection:
    """A session of its own in one target database. See `connect_target`."""
    return connect_target(settings, database.target, database.database)


class TargetPool:
    """One session per target server, reopened when it broke or was long unused. Not shared between threads."""

    def __init__(self, settings: Settings, loads: bool = False) -> None:
        """loads: its sessions are for `migrate.target.load` too."""
        self._settings = settings
        self._loads = loads
        self._servers: dict[str, Connection] = {}
        self._open: dict[TargetDatabase, InDatabase] = {}
        self._used: dict[str, float] = {}

    def get(self, database: TargetDatabase) -> Connection:
        """The server's session, in this database. Those of its other databases are the same session: nothing is asked
        in one of them while a transaction or a result is open in another. Raises ServerError."""
        server = self.server(database.target)
        found = self._open.get(database)
        if found is None or found.raw is not server.raw:
            found = self._open[database] = InDatabase(server, database.database)
        with explained(server.name):
            found.enter()
        return found

    def server(self, target: str) -> Connection:
        """The server's session, in whichever of its databases. Raises ServerError."""
        began = time.monotonic()
        if began - self._used.get(target, began) > SILENT_SECONDS / 2:
            self._drop(target)  # the server may have ended it
        server = self._servers.get(target)
        if server is None or not server.open:
            server = self._servers[target] = connect_target(self._settings, target, loads=self._loads)
        self._used[target] = began
        return server

    def drop(self, database: TargetDatabase) -> None:
        """Forget the session of a database's server: its state is unknown."""
        self._drop(database.target)

    def _drop(self, target: str) -> None:
        self._open = {database: session for database, session in self._open.items() if database.target != target}
        if server := self._servers.pop(target, None):
            server.close()

    def close(self) -> None:
        for target in list(self._servers):
            self._drop(target)
