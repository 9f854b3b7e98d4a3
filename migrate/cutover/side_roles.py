"""The roles of both sides in a cutover: frozen before its switch, then as the state says (invariant standby-only).

In the freeze every database of both sides becomes `frozen`: neither stream writes then, so nothing that comes late
meets the application's first writes. The state's switch decides. A database that does not answer afterwards is set
right by the stream that writes there, when it comes to it (`migrate.target.roles.set_right`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import closing

import pymysql
import sqlalchemy as sa

from migrate.cutover.left_server import side_by_side
from migrate.model.errors import Code, MigrateError, PreflightError, StopError
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained, text
from migrate.settings import Settings
from migrate.target import roles
from migrate.target.in_database import InDatabase
from migrate.target.pool import connect_target
from migrate.target.roles import NoRole, NotedRole, Role
from migrate.target.routing import Plan, TargetDatabase

_SOON = 3.0  # seconds for a server to say what it has, while applications may wait
Say = Callable[[str], None]
Lacks = Callable[[Connection, TargetDatabase], Sequence[object]]
"""What a database lost that it had committed, as the state knows."""


class WrittenDatabases:
    """The databases that one stream writes to, by server."""

    def __init__(self, stream: Settings, plan: Plan, without: Collection[str] = ()) -> None:
        """without: addresses of servers that are gone, in lower case."""
        self._stream = stream
        self.plan = plan
        self._servers: dict[str, list[TargetDatabase]] = {}
        for used in plan.used_databases:
            if stream.target(used.target).address.lower() not in without:
                self._servers.setdefault(used.target, []).append(used)

    @property
    def servers(self) -> Sequence[str]:
        """Their names."""
        return list(self._servers)

    def freeze(self, server: str, version: int, lacks: Lacks, seconds: float) -> None:
        """In one transaction of a server; waits so long for a transaction of the stream in flight.

        Raises: ServerError, StopError where a database has no role, or lost what it had committed: after a look at it,
        a server that loses anything ends the session, and later its role lacks this switch.
        """
        with closing(connect_target(self._stream, server)) as connection, explained(connection.name):
            connection.execute("SET SESSION innodb_lock_wait_timeout = %s", [max(1, round(seconds))])
            for used in self._servers[server]:
                if lost := lacks(InDatabase(connection, used.database), used):
                    raise StopError(f"{lost[0]}", hint="`migrate status` names what settles it", code=Code.TARGET)
            with connection.transaction():
                for used in self._servers[server]:
                    roles.put(connection, self._stream.name, Role.FROZEN, version, used.database)

    def set_right(self, server: str, state: sa.Engine) -> None:
        """As the state says, unless a cutover is under way. Raises as `freeze`; the state's error."""
        with closing(connect_target(self._stream, server)) as connection, explained(connection.name):
            wanted = self._servers[server]
            for _ in range(2):  # what one lost is noted at first
                with state.begin() as known:  # which holds the switch: not while a server is waited for
                    wanted = [used for used in wanted if not self._is_right(known, connection, used)]

    def _is_right(self, known: sa.Connection, connection: Connection, used: TargetDatabase) -> bool:
        there, name = InDatabase(connection, used.database), (used.target, used.database)
        return roles.set_right(known, there, self._stream.name, name) is not None

    def later(self, server: str, version: int) -> list[NotedRole]:
        """Roles of a later version of the switch; of a server that does not say so soon: none."""
        reached = self._stream.target(server).model_copy(update={"connect_timeout": _SOON, "read_timeout": _SOON})
        try:
            with closing(connect(reached, f"target '{server}'")) as connection:
                there = [InDatabase(connection, one.database) for one in self._servers[server]]
                found = [roles.look(one, self._stream.name) for one in there]
        except (MigrateError, pymysql.MySQLError, OSError):
            return []
        return [one for one in found if one is not None and one.version > version]

    def lacking(self, server: str) -> list[str]:
        """Its databases that have no role. Raises ServerError."""
        found = []
        with closing(connect_target(self._stream, server)) as connection, explained(connection.name):
            for used in self._servers[server]:
                there = InDatabase(connection, used.database)
                try:
                    with there.transaction():
                        roles.read(there, self._stream.name)
                except NoRole:
                    found.append(f"{server}, database {used.database}")
        return found


def _servers(sides: Sequence[WrittenDatabases]) -> list[tuple[WrittenDatabases, str]]:
    return [(side, server) for side in sides for server in side.servers]


def has_switched(entered: WrittenDatabases, left: WrittenDatabases, version: int) -> bool:
    """Whether databases know that applications went to the side that one stream writes, and the state, which is at this
    version of the switch, does not: it lost that. All servers at a time, for some seconds at most.

    Raises NoRole where they know something else that is later.
    """
    sides = [(entered, server) for server in entered.servers] + [(left, server) for server in left.servers]
    found = side_by_side(lambda one: one[0].later(one[1], version), sides)
    later = [(of is entered, role) for (of, _), some in zip(sides, found, strict=True) for role in some]
    for is_entered, role in later:
        if (role.role, role.version) != (Role.ACTIVE if is_entered else Role.STANDBY, version + 1):
            raise NoRole(
                f"a role is of version {role.version} of the switch, and the state is at {version}: the state database"
                " lost a switch",
                hint="restore the newest state of the state database; docs/foreign-writes.md explains the roles",
            )
    return bool(later)


def refuse_lacking(sides: Sequence[WrittenDatabases]) -> None:
    """Raise PreflightError for databases without a role, before a freeze meets them; ServerError."""
    lacking = side_by_side(lambda one: one[0].lacking(one[1]), _servers(sides))
    if named := [name for some in lacking for name in some]:
        raise PreflightError(
            f"no role in {', '.join(named)}: they were made by an earlier version",
            hint="stop both streams, `migrate init`, `migrate --reverse init`, and start them again",
        )


def freeze(sides: Sequence[WrittenDatabases], version: int, lacks: Sequence[Lacks], seconds: float) -> None:
    """Freeze both sides, all servers at a time. lacks: of each side.

    Raises as `WrittenDatabases.freeze`; some are frozen then.
    """
    servers = [(side, server, look) for side, look in zip(sides, lacks, strict=True) for server in side.servers]
    side_by_side(lambda one: one[0].freeze(one[1], version, one[2], seconds), servers)


def align(sides: Sequence[WrittenDatabases], state: sa.Engine) -> None:
    """Before a run: every database as the state says. Raises ServerError; NoRole where one is ahead of the state."""
    for written, server in _servers(sides):
        written.set_right(server, state)


def set_right(sides: Sequence[WrittenDatabases], state: sa.Engine, say: Say) -> None:
    """After a run: every database as the state says. What fails is reported; the streams do it when they come to it."""
    for written, server in _servers(sides):
        try:
            written.set_right(server, state)
        except (MigrateError, pymysql.MySQLError, OSError, sa.exc.DBAPIError) as error:
            told = error.message if isinstance(error, MigrateError) else text(error)
            say(f"{server}: its roles are set right once the stream comes to it: {told}")
