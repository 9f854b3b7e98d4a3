"""The role of the side that a publisher reads: by its server, and by the state, which decides (invariant standby-only).

The role stands in the server's own log. A server that takes over and lacks the last switch's transaction goes by the
role from before it: what applications write there would be taken for writes by hand, and carried nowhere.
"""

from __future__ import annotations

from collections.abc import Collection

import pymysql
import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.model.errors import MigrateError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, number, text
from migrate.state import leading
from migrate.state import migration as migrations
from migrate.target import roles
from migrate.target.in_database import InDatabase
from migrate.target.roles import Role

log = structlog.get_logger("migrate.publish")
_WAIT_SECONDS = 2
"""For a transaction of the other stream, while nobody can switch."""


class SideRead:
    """The databases of one server that a publisher reads, where the stream the other way may write."""

    def __init__(
        self, server: Connection, migration: str, source: str, databases: Collection[str], *, written: bool = True
    ) -> None:
        """migration: the publisher's. source: the server's name. written: whether the stream the other way writes to
        this server, and not to another one that it replicates."""
        self._server = server
        self._source = source
        self._migration = migration
        self._databases = [InDatabase(server, name) for name in sorted(databases)]
        self._written = written

    def lacks(self, state: sa.Connection) -> Role | None:
        """The role by the state, where a database of the server has one from before it; nobody switches until the
        transaction ends.

        None where all are right, where no stream writes there, and while a cutover is under way, which sets them right.
        """
        if (writer := self._writer(state)) is None:
            return None
        leading.hold(state, writer)
        if leading.is_switching(state, writer):
            return None
        version, role = leading.version(state, writer), roles.of_state(state, writer)
        for there in self._databases:
            try:
                held = roles.look(there, writer)
            except pymysql.MySQLError as error:
                if number(error) != NO_SUCH_TABLE:
                    log.warning("role not known", where=there.name, database=there.database, reason=text(error))
                continue
            if held is not None and held.version <= version and held.role is not role:
                return role
        return None

    def set_right(self, state: sa.Engine) -> None:
        """Every database as the state says, where the server takes writes of its own. What fails is logged: the stream
        that writes there sets it right when it comes to it."""
        try:
            with state.connect() as known:
                if (writer := self._writer(known)) is None or not self._written:
                    return
                role = roles.of_state(known, writer)
            if str(self._server.query("SELECT @@GLOBAL.read_only")[0][0]).upper() not in ("0", "OFF"):
                return  # what a replica writes by itself may end its replication
            for there in self._databases:
                held = roles.look(there, writer)
                if held is not None and held.role is role:
                    continue
                there.execute("SET SESSION innodb_lock_wait_timeout = %s", [_WAIT_SECONDS])
                for _ in range(2):  # what it lost is noted at first
                    with state.begin() as known:
                        roles.set_right(known, there, writer, (self._source, there.database))
        except (MigrateError, pymysql.MySQLError, DBAPIError) as error:
            reason = error.message if isinstance(error, MigrateError) else text(error)
            log.warning("role not set right", where=self._server.name, reason=reason)

    def _writer(self, state: sa.Connection) -> str | None:
        other = migrations.other_way(state, self._migration)
        return other if other in migrations.both_ways(state, self._migration) else None
