"""Tables added while the publisher had a position: each counts from a place in the log (invariant capture-before-copy).

The place is taken as a first position is: whoever reads the table later sees every row that was committed before it.
What the log has of the table before that place, rows and statements, is passed over; behind it the table's definition
is the one it had there. `migrate copy` reads the table once the publisher was at the place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.model.coordinate import Coordinate, file_number, in_log
from migrate.model.errors import Code, StopError
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create_whole
from migrate.mysql.readable import readable_end
from migrate.publish import start_position
from migrate.publish.log.gtid import GtidSet, parse
from migrate.publish.state_writes import StateWrites
from migrate.state import compared, membership, schema_history
from migrate.state.compared import Because
from migrate.state.membership import Member, Stage
from migrate.state.position import Position
from migrate.state.schema_history import Version

log = structlog.get_logger("migrate.publish")
Name = tuple[str, str]


class Joining:
    """The added tables of one source, as the publisher that holds its lease reads and notes them."""

    def __init__(
        self,
        migration: str,
        source: str,
        tables: Mapping[Name, Table],
        state: sa.Engine,
        writes: StateWrites,
        stop: threading.Event,
    ) -> None:
        self._migration = migration
        self._source = source
        self._tables = tables
        self._state = state
        self._writes = writes
        self._stop = stop

    def take_places(self, connection: Connection, position: Position) -> None:
        """Give a place to each table that has none, and to those whose place is in another server's log and was not
        reached there: nothing was copied of them yet.

        Args: connection: to the server that the position is of. Raises: StopError when a table is not what it was at
        init; ServerError.
        """
        with self._state.connect() as state:
            known = self._members(state)
        wanted = {
            name: self._tables[name]
            for name, member in known.items()
            if member.stage is Stage.WAITING or (member.stage is Stage.JOINING and not _same_server(member, position))
        }
        if not wanted:
            return
        place = self._visible(connection, list(wanted), position)
        versions = {name: _version_at(connection, table, place) for name, table in wanted.items()}

        def store(state: sa.Connection) -> None:
            names = ", ".join(sorted(".".join(name) for name in versions))
            compared.forget(state, self._migration, Because.JOINED, names)  # as where a stream begins
            for name, version in versions.items():
                server = f"{place.server_id}/{place.server_uuid}"
                membership.put(state, self._migration, (self._source, *name), place)
                schema_history.put(state, self._migration, self._source, name, version, server)

        self._writes.run(store)
        for table in wanted.values():
            log.info("table added", table=table.full_name, file=place.file, pos=place.pos, gtid_set=place.gtid_set)

    def ahead(self, position: Position, gtids: GtidSet | None, flavour: str) -> Ahead:
        """The tables that are not to be read yet from a position on; those that are from now on, are noted."""

        def look(state: sa.Connection) -> Ahead:
            ahead = Ahead(self._members(state), position, gtids, flavour)
            for name, member in ahead.joined().items():
                membership.put(state, self._migration, (self._source, *name), member)
            return ahead

        return self._writes.run(look)

    def _members(self, state: sa.Connection) -> dict[Name, Member]:
        found = membership.every(state, self._migration)
        return {name: found[self._source, *name] for name in self._tables if (self._source, *name) in found}

    def _visible(self, connection: Connection, tables: list[Name], position: Position) -> Member:
        """A place before which all can be read, and that is not before anything that may have been published.

        What was published may be waiting for semi-sync, and not be readable: rows of the table between such a place and
        that would have coordinates below those of rows that were sent, and be taken for repeats.
        """
        here = readable_end(connection, tables, self._stop)
        gtid_set = here.gtid_set if start_position.offers_gtid(connection) else ""
        server = (position.server_id, position.server_uuid)
        return Member(Stage.JOINING, position.incarnation, here.file, here.pos, gtid_set, *server)


def _version_at(connection: Connection, table: Table, place: Member) -> Version:
    """What the table is from its place on. A statement since then, if there was one, is still ahead in the log."""
    if load_table(connection, *table.id, table.key) != table:
        raise StopError(
            f"{connection.name}: {table.full_name} has another definition than at init",
            hint="run `migrate init` again; drop its target tables first, if they have other columns",
            code=Code.DEFINITION,
        )
    create = show_create_whole(connection, table.database, table.name)
    since = Coordinate(place.incarnation, file_number(place.file), place.pos - 1, 0)  # so that it holds at the place
    return Version(table, create, since=since)


class Ahead:
    """The tables whose place is still ahead, as seen from a position on.

    Their places were reached before, or are in this server's log: by file and position there; in another server's by
    GTID. Where neither can be told (a failover without GTID) the table counts everywhere.

    Args: gtids: what is delivered up to the position, None where that is not known.
    """

    def __init__(self, known: Mapping[Name, Member], position: Position, gtids: GtidSet | None, flavour: str) -> None:
        self._position = position
        self._gtids = gtids.copy() if gtids is not None else None
        self._flavour = flavour
        self._members = dict(known)
        self.names = frozenset(name for name, one in known.items() if self._is_ahead(one, position.file, position.pos))

    def reached(self, file: str, pos: int, gtid: str | None) -> bool:
        """Whether the place of one of the tables is reached at a boundary behind the position."""
        if self._gtids is not None and gtid:
            self._gtids.add(gtid)
        return any(not self._is_ahead(self._members[name], file, pos) for name in self.names)

    def joined(self) -> dict[Name, Member]:
        """Those whose place was ahead until now, and is no more."""
        return {
            name: replace(member, stage=Stage.JOINED)
            for name, member in self._members.items()
            if member.stage is Stage.JOINING and name not in self.names
        }

    def _is_ahead(self, member: Member, file: str, pos: int) -> bool:
        if member.stage is Stage.WAITING:
            return True
        if _same_server(member, self._position):
            return in_log(file, pos) < in_log(member.file, member.pos)
        if not member.gtid_set or self._gtids is None:
            return False
        return not parse(member.gtid_set, self._flavour).within(self._gtids)


def _same_server(member: Member, position: Position) -> bool:
    return (member.server_id, member.server_uuid) == (position.server_id, position.server_uuid)
