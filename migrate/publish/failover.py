"""Another server behind a source's address: where to go on there, and when not (invariant sources-never-compare).

With GTID it must have everything that we have; then it says itself what comes next. Without, the place is found by
time. Either way file names start over, so a new incarnation begins.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import structlog

from migrate.model.errors import Code, StopError
from migrate.model.log_position import Place
from migrate.mysql.catalog import ServerFacts, server_facts, show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.readable import log_end
from migrate.publish.configured_start import StartFinder
from migrate.publish.log.locate import Locator
from migrate.publish.log.logfiles import OtherLog
from migrate.publish.start_position import offers_gtid
from migrate.publish.unacknowledged import UnacknowledgedTransactions
from migrate.settings import Source
from migrate.state.failover import AGAIN, GTID, TIME, NotedFailover
from migrate.state.position import Position
from migrate.state.schema_history import ByTime

log = structlog.get_logger("migrate.publish")
_MARIADB_GTID = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")


class LacksTransactions(OtherLog):
    """The server behind the address does not have what we have; it may still be applying it."""


class Purged(OtherLog):
    """Its log does not reach back to where we are."""


def switch(
    connection: Connection, source: Source, stored: Position, back_seconds: int, published: UnacknowledgedTransactions
) -> tuple[Position, NotedFailover, ByTime | None]:
    """Where to go on, on the server behind `connection`, not the one that wrote `stored`; what to note; and how the
    place was found, if by time.

    Args: `source` as it is reached there; how far to go back without GTID; what the topic has beyond `stored`.
    Raises: LacksTransactions, naming them; Purged; OtherLog when there is no safe place for another reason; StopError
    when it is no server to read; ServerError.
    """
    with explained(connection.name):
        facts = server_facts(connection)
        _check_kind(connection, facts, stored)
        _check_logs(connection, facts)
    try:
        return _switch(connection, facts, source, stored, back_seconds, published)
    except OtherLog:
        raise
    except StopError as error:  # of those who look for the place: its log does not reach back to it
        raise Purged(error.message, hint=error.given) from error


def _switch(
    connection: Connection,
    facts: ServerFacts,
    source: Source,
    stored: Position,
    back_seconds: int,
    published: UnacknowledgedTransactions,
) -> tuple[Position, NotedFailover, ByTime | None]:
    """As `switch`, on a server that may be read."""
    with explained(connection.name):
        if stored.gtid_set and offers_gtid(connection):
            check_gtids(connection, stored.gtid_set, published.gtids)
            here = StartFinder(source, stored.replica_id, connection).find(Place(gtid_set=stored.gtid_set))
            # What is in the topic beyond the position may be there in part only: all of it comes again.
            again = published.gtids or published.newest
            file, pos, scheme, why = here.file, here.pos, AGAIN if again else GTID, ""
            by_time = None
        else:
            ((told,),) = connection.query("SELECT UNIX_TIMESTAMP()")
            now = int(str(told))
            last = _last_time(connection.name, facts, stored, back_seconds, now)
            own = facts.server_id if facts.server_id != stored.server_id else None
            locator = Locator(source, stored.replica_id, connection)
            latest = max(last, now) + back_seconds
            found = locator.find(last - back_seconds, own=own, known=last + back_seconds, latest=latest)
            file, pos, scheme = found.file, found.pos, TIME
            by_time = ByTime(last - back_seconds, stored.coordinate, found.statements, found.since)
            why = doubt(max(last, published.newest), found.reached if own is not None else 0, back_seconds)
        end = log_end(connection)
    position = replace(
        stored,
        address=source.address,
        server_id=facts.server_id,
        server_uuid=facts.uuid,
        incarnation=stored.incarnation + 1,
        file=file,
        pos=pos,
        gtid_set="" if scheme == TIME else stored.gtid_set,
        file_created=0,
    )
    note = NotedFailover(
        stored.source, position.incarnation, who(stored), who(position), scheme, why, end.file, end.pos
    )
    _tell(note, position)
    return position, note, by_time


def _tell(note: NotedFailover, position: Position) -> None:
    log.warning(
        "another server is behind the source",
        source=note.source,
        was=note.from_server,
        now=note.to_server,
        incarnation=note.incarnation,
        by=note.scheme,
        file=position.file,
        pos=position.pos,
    )
    if note.doubt:
        log.warning("back to catching up until a verification is clean", source=note.source, reason=note.doubt)


def _check_kind(connection: Connection, facts: ServerFacts, stored: Position) -> None:
    if bool(facts.uuid) != bool(stored.server_uuid):
        raise StopError(
            f"{connection.name} was {'MySQL' if stored.server_uuid else 'MariaDB'} and is {facts.flavour} now",
            hint="start a new migration: the two write values and GTIDs differently",
            code=Code.POSITION,
        )


def _check_logs(connection: Connection, facts: ServerFacts) -> None:
    names = ("log_bin", "log_slave_updates", "log_replica_updates")
    settings = show_variables(connection, *names)
    if any(settings.get(name, "ON").upper() in ("OFF", "0") for name in names):
        raise OtherLog(
            f"{connection.name} is another server now ({_facts(facts)}), and does not log what it replicates",
            hint="without log_bin and log_slave_updates (MySQL: log_replica_updates) its log has gaps;"
            " bring the old server back, or start a new migration",
        )


# -- GTID


def check_gtids(connection: Connection, ours: str, published: Collection[str] = ()) -> None:
    """What we have must be a subset of what the server has, and what it purged a subset of what we have.

    Args: what is delivered, and what is in the topic beyond that, perhaps in part only.
    Raises: LacksTransactions, Purged.
    """
    have = ",".join([ours, *sorted(published)])
    lacks = _lacking_mariadb(connection, have) if connection.flavour == "mariadb" else _subtract(connection, have, None)
    if lacks:
        raise LacksTransactions(
            f"{connection.name} is another server now and lacks transactions that were published: {lacks[:500]}",
            hint="bring the server back that has them, or let this one replicate them; or start a new migration",
        )
    purged = "" if connection.flavour == "mariadb" else _subtract(connection, None, ours)
    if purged:
        raise Purged(
            f"{connection.name} is another server now and purged transactions that were not published: {purged[:500]}",
            hint="take a server that still has them in its binlog, or start a new migration and copy again",
        )


def _subtract(connection: Connection, ours: str | None, theirs: str | None) -> str:
    """MySQL: `ours` without what it executed, or what it purged without `theirs`."""
    if ours is not None:
        row = connection.one("SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", (ours,))
    else:
        row = connection.one("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, %s)", (theirs,))
    return str(row[0] or "").replace("\n", "") if row else ""


def _lacking_mariadb(connection: Connection, ours: str) -> str:
    """`gtid_binlog_state` has the last number of each domain and server: a number alone may be another history's."""
    row = connection.one("SELECT @@GLOBAL.gtid_binlog_state")
    return ", ".join(lacking_mariadb(ours, str(row[0] or "") if row else ""))


def lacking_mariadb(ours: str, state: str) -> list[str]:
    """Which last transactions of ours, by domain, are not in a `gtid_binlog_state`."""
    logged = {(domain, server): int(number) for domain, server, number in _MARIADB_GTID.findall(state)}
    return [
        f"{domain}-{server}-{number}"
        for domain, server, number in _MARIADB_GTID.findall(ours)
        if logged.get((domain, server), -1) < int(number)
    ]


# -- time


def _last_time(name: str, facts: ServerFacts, stored: Position, back_seconds: int, now: int) -> int:
    """When the last published event was, by the clock of the server that wrote it. now: by the new server's; both in
    seconds since 1970."""
    if stored.event_time is None:
        raise OtherLog(
            f"{name} is another server now ({_facts(facts)}), without GTID, and no time is known",
            hint="nothing was published since the start; bring the old server back, or start a new migration",
        )
    last = stored.event_seconds
    if last > now + back_seconds:
        raise OtherLog(
            f"{name} is another server now ({_facts(facts)}), without GTID, and its clock is"
            f" {last - now} s behind the last published event",
            hint="times cannot be compared: set its clock right, or publish again from a place you name",
        )
    return last


def doubt(last: int, reached: int, back_seconds: int) -> str:
    """Why the new server may lack what was published; empty when its log shows that it went further.

    A replica applies in commit order, so one that has a newer transaction than our last has our last too. Newer by the
    interval: header times do not rise with the log.

    Args: times in seconds since 1970: of the last published event, and the newest that the new server has replicated (0
    when that is not known).
    """
    if reached > last + back_seconds:
        return ""
    if not reached:
        return "without GTID, how far the new server had replicated is not known"
    lag = f"{last - reached} s older than" if reached < last else f"{reached - last} s newer than"
    return (
        f"without GTID, the newest transaction that the new server replicated is {lag} the last one published;"
        " whether it has all that was published is not known"
    )


def who(position: Position) -> str:
    """The server that a position is of, as it is noted and shown."""
    return f"{position.address} ({position.server_id}{' ' * bool(position.server_uuid)}{position.server_uuid})"


def _facts(facts: ServerFacts) -> str:
    return f"server_id {facts.server_id}{' ' * bool(facts.uuid)}{facts.uuid}"
