"""Where a publisher starts: at its stored position, or at the source's current one (invariant capture-before-copy)."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass

import structlog

from migrate.model.coordinate import in_log
from migrate.model.errors import ServerError
from migrate.mysql.catalog import ServerFacts, server_facts, show_variables
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.mysql.readable import BinlogPosition, binlog_gtid_pos, log_end, visible_position
from migrate.publish.log import gtid
from migrate.publish.log.gtid import GtidSet
from migrate.settings import Settings, Source
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a source's log ends, and on which server (id, UUID)."""

    at: BinlogPosition
    server: tuple[int, str]

    def reached_by(self, where: Position) -> bool:
        """Whether a position is at this end, or behind it; elsewhere the files are others."""
        return self.is_of(where) and in_log(where.file, where.pos) >= in_log(self.at.file, self.at.pos)

    def refuse_earlier(self, source: str, before: Position | None) -> None:
        """before: a position from before this end was asked for. Raises ServerError where it is behind the end: the
        log is another one by now (RESET BINARY LOGS AND GTIDS), and that position says nothing of it."""
        at = self.at
        if before and self.is_of(before) and in_log(before.file, before.pos) > in_log(at.file, at.pos):
            raise ServerError(
                f"the log of source '{source}' ends at {at.file}:{at.pos}, and was published up to"
                f" {before.file}:{before.pos}: it is another log now",
                hint="`migrate status` says more",
            )

    def is_of(self, where: Position) -> bool:
        """Whether a position is in the log of the same server."""
        return (where.server_id, where.server_uuid) == self.server


def source_end(source: Source) -> SourceEnd:
    """Where the source's log ends now. Raises ServerError."""
    name = f"source '{source.name}'"
    connection = connect(source, name)
    try:
        with explained(name):
            facts = server_facts(connection)
            return SourceEnd(log_end(connection), (facts.server_id, facts.uuid))
    finally:
        connection.close()


def replica_id(settings: Settings, source: Source) -> int:
    """Our id towards the source: configured, or derived from the names so that it stays the same and rarely clashes."""
    return source.server_id or _derived(f"{settings.name}/{source.name}")


def beside(source: Source, replica_id: int) -> int:
    """Another id, for what reads the log beside a publisher: the server ends the stream of the one who read under it
    before. As of `replica_id`."""
    return _derived(f"{source.name}/{replica_id}/ahead")


def _derived(name: str) -> int:
    return 1_000_000_000 + zlib.crc32(name.encode()) % 3_000_000_000


def offers_gtid(connection: Connection) -> bool:
    """Whether every transaction the source commits now has a GTID, and it can send its log by them."""
    return connection.flavour == "mariadb" or show_variables(connection, "gtid_mode").get("gtid_mode") == "ON"


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """How to go on from a position."""

    by_gtid: bool
    gtids: GtidSet | None  # what is delivered up to there; None when that is not known

    def at(self, position: Position, flavour: str) -> ResumePlan:
        """The same for a later position of the same run."""
        if not position.gtid_set:
            return ResumePlan(False, None)
        return ResumePlan(self.by_gtid, gtid.parse(position.gtid_set, flavour))


def resume(connection: Connection, position: Position) -> ResumePlan:
    """In the scheme the position was written in, as long as the source still offers it.

    A position by file gets a set as well where the source can say which one belongs to it.
    """
    offered = offers_gtid(connection)
    if position.gtid_set:
        return ResumePlan(offered, gtid.parse(position.gtid_set, connection.flavour))
    if not offered:
        return ResumePlan(False, None)
    if connection.flavour == "mariadb":
        known = binlog_gtid_pos(connection, position.file, position.pos)
        return ResumePlan(False, None if known is None else gtid.parse(known, "mariadb"))
    end = log_end(connection)
    at_end = (end.file, end.pos) == (position.file, position.pos)
    return ResumePlan(False, gtid.parse(end.gtid_set, "mysql") if at_end else None)


def first_position(
    connection: Connection,
    settings: Settings,
    source: Source,
    tables: list[tuple[str, str]],
    stop: threading.Event,
) -> Position:
    """The position of a publisher that never ran."""
    facts = server_facts(connection)
    found = visible_position(connection, tables, stop)
    return Position(
        source=source.name,
        address=source.address,
        server_id=facts.server_id,
        server_uuid=facts.uuid,
        replica_id=replica_id(settings, source),
        incarnation=1,
        file=found.file,
        pos=found.pos,
        gtid_set=found.gtid_set if offers_gtid(connection) else "",
    )


def is_server(facts: ServerFacts, stored: Position) -> bool:
    """Whether the stored file and position mean something on this server."""
    return (facts.server_id, facts.uuid) == (stored.server_id, stored.server_uuid)
