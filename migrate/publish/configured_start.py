"""Where a publisher begins: stored position, configured start, the source's current position.

What a running publisher has acknowledged and not stored yet comes before all of them; the publisher itself knows that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import structlog

from migrate.model.coordinate import file_number, in_log
from migrate.model.errors import Code, StopError
from migrate.model.log_position import Place, parse_place
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.readable import BinlogPosition, log_end
from migrate.publish import start_position
from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader
from migrate.publish.log.gtid import GtidSet, parse
from migrate.publish.log.gtid_event import gtid_of, gtids_before
from migrate.publish.log.locate import Groups, Locator
from migrate.settings import Settings, Source
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")
_HEARTBEAT_SECONDS = 1.0
_FIRST_EVENT = 4
_IDLE = frozenset({binlog.HEARTBEAT, binlog.HEARTBEAT_V2})
_HEAD = frozenset({binlog.FORMAT_DESCRIPTION, binlog.PREVIOUS_GTIDS, binlog.GTID_LIST, binlog.START_ENCRYPTION})
_GTIDS = frozenset({binlog.GTID, binlog.ANONYMOUS_GTID, binlog.GTID_TAGGED, binlog.MARIADB_GTID})


def first(
    connection: Connection,
    settings: Settings,
    source: Source,
    tables: Sequence[tuple[str, str]],
    stop: threading.Event,
) -> Position:
    """The first position: the configured start, or where the source is now (invariant capture-before-copy).

    A configured start may not lie behind what a SELECT sees: the copy would miss what is between. Raises StopError.
    """
    here = start_position.first_position(connection, settings, source, list(tables), stop)
    if source.start is None:
        return here
    place = parse_place(source.start)
    found = StartFinder(source, here.replica_id, connection).find(place)
    if in_log(found.file, found.pos) > in_log(here.file, here.pos):
        raise StopError(
            f"{connection.name}: the configured start {place} is after {here.file}:{here.pos}, up to which its rows"
            " can be read",
            hint="choose an earlier start, or none",
            code=Code.POSITION,
        )
    log.info("starting as configured", source=source.name, start=str(place), file=found.file, pos=found.pos)
    return replace(here, file=found.file, pos=found.pos, gtid_set=found.gtid_set)


def check_definition(connection: Connection, table: Table) -> None:
    """A statement between init and the first position is not in the log that is read, so look at what it would leave.

    Raises StopError.
    """
    now = load_table(connection, *table.id, table.key)
    if now != table:
        raise StopError(
            f"{connection.name}: {table.full_name} has another definition than at init",
            hint="alter its target tables to match where they lack something, then run `migrate init` again",
            code=Code.POSITION,
        )


@dataclass(frozen=True, slots=True)
class StartFinder:
    """Turns a place that a person wrote into a boundary between transactions of this server's log."""

    source: Source
    replica_id: int
    connection: Connection

    def find(self, place: Place) -> BinlogPosition:
        """The last boundary at or before the place, and the GTID set there if the source offers GTIDs.

        Raises: StopError when the server's log does not have it, naming the place; ServerError.
        """
        with explained(self.connection.name):
            if place.gtid_set:
                return self._by_gtid(parse(place.gtid_set, self.connection.flavour))
            if place.time:
                located = Locator(self.source, self.replica_id, self.connection).find(place.time)
                return self._by_file(located.file, located.pos)
            return self._by_file(place.file, place.pos)

    def _by_file(self, file: str, pos: int) -> BinlogPosition:
        sizes = {str(row[0]): int(row[1]) for row in self.connection.query("SHOW BINARY LOGS")}
        if file not in sizes:
            there = f"{min(sizes, key=file_number)} to {max(sizes, key=file_number)}" if sizes else "none"
            raise StopError(
                f"{self.connection.name} has no {file}, which {file}:{pos} is in; it has {there}",
                hint="name a file that it has, as `SHOW BINARY LOGS` lists them",
                code=Code.POSITION,
            )
        if pos > sizes[file]:
            raise StopError(
                f"{self.connection.name}: {file} ends at {sizes[file]}, before {pos}",
                hint=f"name a place up to {file}:{sizes[file]}",
                code=Code.POSITION,
            )
        groups, opened = Groups(file), ""
        known = parse("", self.connection.flavour) if start_position.offers_gtid(self.connection) else None
        with closing(self._reader(file, None)) as reader:
            for event in reader.events():
                made_up = event.flags & binlog.FLAG_ARTIFICIAL
                if event.type in _IDLE or (event.type == binlog.ROTATE and not made_up):
                    break
                before = gtids_before(event.type, event.body) if known is not None else None
                if before is not None:
                    known = parse(before, self.connection.flavour)
                if event.end > pos and not made_up:
                    if event.type in _HEAD:
                        continue
                    break  # it ends behind the place, and so does the transaction that it belongs to
                if event.type in _GTIDS:
                    opened = gtid_of(event.type, event.server_id, event.body)
                if groups.feed(event) is not None and known is not None:
                    if opened:
                        known.add(opened)
                    else:
                        known = None  # an anonymous transaction: no set can say that it was here
        return BinlogPosition(file, max(groups.boundary[1], _FIRST_EVENT), "" if known is None else str(known))

    def _by_gtid(self, gtids: GtidSet) -> BinlogPosition:
        """Where the first transaction that is not in the set begins."""
        if not start_position.offers_gtid(self.connection):
            raise StopError(
                f"{self.connection.name} does not offer GTIDs",
                hint="set gtid_mode=ON, or name a file",
                code=Code.POSITION,
            )
        self._refuse_unknown(gtids)
        end = log_end(self.connection)
        file = ""
        with closing(self._reader("", gtids)) as reader:
            for event in reader.events():
                if event.type == binlog.ROTATE:
                    file = event.body[8:].decode("ascii")
                elif event.type in _GTIDS and not event.flags & binlog.FLAG_ARTIFICIAL:
                    return BinlogPosition(file, event.end - event.size, str(gtids))
                elif event.type in _IDLE and in_log(file, event.end) >= in_log(end.file, end.pos):
                    return BinlogPosition(file, event.end, str(gtids))
        raise AssertionError("the stream ends only by an error")

    def _refuse_unknown(self, gtids: GtidSet) -> None:
        """MySQL would wait for what another server's transactions are said to be, and skip them when they come.

        MariaDB refuses them, in words that fit a purged log as well.
        """
        mariadb = self.connection.flavour == "mariadb"
        row = self.connection.one(f"SELECT @@GLOBAL.{'gtid_binlog_pos' if mariadb else 'gtid_executed'}")
        executed = str(row[0]).replace("\n", "") if row else ""
        if not gtids.within(parse(executed, self.connection.flavour)):
            raise StopError(
                f"{self.connection.name} does not have all of {gtids}; it has {executed or 'nothing'}",
                hint="name a set that it has, or a file and position of its log",
                code=Code.POSITION,
            )

    def _reader(self, file: str, gtids: GtidSet | None) -> BinlogReader:
        reader = BinlogReader(self.source, self.replica_id, _HEARTBEAT_SECONDS, file, _FIRST_EVENT, gtids)
        reader.open()
        return reader
