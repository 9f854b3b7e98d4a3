"""Whether writes are still stopped at the side that applications have left: a server that was started again has
forgotten `read_only`, unless its option file says so."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pymysql
import sqlalchemy as sa

from migrate.model.errors import MigrateError
from migrate.mysql.connection import connect
from migrate.settings import Settings, Source, Target
from migrate.state import cutover, position
from migrate.state.switch import Side


def ended(settings: Settings, state: sa.Engine, side: Side) -> list[str]:
    """The names of the servers of a side that a cutover made read-only and that are so no more. One that does not
    answer is left out."""
    with state.connect() as connection:
        found = [one for one in cutover.blocked(connection, settings.name, side) if one.method == "read_only"]
    if not found:
        return []
    reached = position.where_read(state, settings)
    servers: Mapping[str, Source | Target] = {
        one.name: one for one in (reached.sources if side is Side.SOURCE else reached.targets)
    }
    return [
        one.server
        for one in found
        if one.server in servers and _writable(servers[one.server], f"{side} '{one.server}'")
    ]


def _writable(server: Source | Target, where: str) -> bool:
    try:
        with closing(connect(server, where)) as connection:
            ((on,),) = connection.query("SELECT @@GLOBAL.read_only")
    except (MigrateError, pymysql.MySQLError, OSError):
        return False
    return str(on) in ("0", "OFF")
