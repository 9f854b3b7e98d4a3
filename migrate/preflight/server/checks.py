"""The checks of servers: their settings, and what the accounts may do there."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.errors import MigrateError
from migrate.model.table import TableId
from migrate.mysql.errors import explained
from migrate.preflight.capacity import copied
from migrate.preflight.check import (
    AT_SOURCE,
    AT_SOURCE_PLANNED,
    AT_STATE_READ,
    AT_TARGET_PLANNED,
    CONNECTED,
    PLANNED,
    At,
    Group,
    Visit,
    by_connection,
    declare,
)
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server import (
    binlog,
    channels,
    clocks,
    connections,
    durability,
    grants,
    packet,
    session,
    sql_mode,
    state,
    time_zones,
    versions,
    web,
    writable,
)
from migrate.target.routing import Plan

# -- grants


def _grants_at_source(visit: Visit) -> Iterable[Result]:
    known, flavour = visit.known, visit.connection.flavour
    databases = {table.database for table in known.sources.chosen[visit.name]}
    needs = grants.of_source(flavour, databases)
    if known.reverse and not known.is_strict:  # init does not stop writes
        needs |= grants.cutover_at(visit.connection, databases, known.settings.cutover.stop)
    return grants.check(visit.connection, needs, "the user may replicate")


def _grants_at_target(visit: Visit) -> Iterable[Result]:
    needed = _needed_at(visit.plan, visit.name, visit.known.state.begun)
    needs = grants.Needs(databases=needed)
    if visit.known.reverse:
        needs |= grants.cutover_at(visit.connection, needed.keys(), visit.plan.settings.cutover.stop)
    else:  # statements of the targets are brought to nobody
        needs |= grants.of_applied(visit.known.settings.name, visit.plan, visit.name)
    told = f"the account has the grants that are needed in {', '.join(sorted(needed))}"
    return grants.check(visit.connection, needs, told)


def _needed_at(plan: Plan, target: str, begun: frozenset[TableId]) -> dict[str, tuple[str, ...]]:
    """Grants by database; CREATE only while something is to be made."""
    here = [
        (place.database.database, one.table.id)
        for one in plan.tables.values()
        for place in one.places
        if place.database.target == target
    ]
    needed: dict[str, tuple[str, ...]] = {name: grants.ROWS for name, _ in here}
    needed |= {name: ("CREATE", *grants.ROWS) for name, id_ in here if id_ not in begun}
    return needed


def _grants_at_state(visit: Visit) -> Iterable[Result]:
    known = visit.known
    return state.check_grants(visit.connection, known.settings, known.state.version, closed=known.reverse)


def _ways(visit: Visit) -> Iterable[Result]:
    known = visit.known
    return grants.check_ways(visit.connection, known.settings.cutover.stop) if known.reverse else []


GRANTS_AT_SOURCE = declare("grants", Group.SERVER, At.SOURCE, _grants_at_source, AT_SOURCE)
PREPARED = declare("grants", Group.SERVER, At.SOURCE, by_connection(grants.check_prepared), AT_SOURCE)
WAYS_AT_SOURCE = declare("grants", Group.SERVER, At.SOURCE, _ways, AT_SOURCE)
WAYS_AT_TARGET = declare("grants", Group.SERVER, At.TARGET, _ways, CONNECTED)
GRANTS_AT_TARGET = declare("grants", Group.SERVER, At.TARGET, _grants_at_target, AT_TARGET_PLANNED)
GRANTS_AT_STATE = declare("grants", Group.SERVER, At.STATE, _grants_at_state, AT_STATE_READ)
EXCESS_AT_SOURCE = declare("grants", Group.SERVER, At.SOURCE, by_connection(grants.check_excess), AT_SOURCE)
EXCESS_AT_TARGET = declare("grants", Group.SERVER, At.TARGET, by_connection(grants.check_excess), CONNECTED)
EXCESS_AT_STATE = declare("grants", Group.SERVER, At.STATE, by_connection(grants.check_excess), CONNECTED)


# -- that they answer, their versions and clocks, and what their sessions may be


def _target_answers(visit: Visit) -> Iterable[Result]:
    connection = visit.connection
    told = f"{connection.name} answers: {connection.flavour} {versions.reported(connection)}"
    return [Result("target", visit.name, Verdict.PASS, told)]


def _version_of_source(visit: Visit) -> Iterable[Result]:
    return versions.check(visit.connection, versions.reported(visit.connection), source=True)


def _version_of_target(visit: Visit) -> Iterable[Result]:
    return versions.check(visit.connection, versions.reported(visit.connection), back=visit.known.reverse)


def _connections_at_source(visit: Visit) -> Iterable[Result]:
    settings = visit.plan.settings
    return connections.check(visit.connection, settings, settings.source(visit.name))


def _connections_at_target(visit: Visit) -> Iterable[Result]:
    settings = visit.plan.settings
    return connections.check(visit.connection, settings, settings.target(visit.name))


def _connections_at_state(visit: Visit) -> Iterable[Result]:
    settings = visit.known.settings
    return connections.check(visit.connection, settings, settings.state)


def _session_of_source(visit: Visit) -> Iterable[Result]:
    return session.check(visit.connection, makes=False)


def _session_that_makes_tables(visit: Visit) -> Iterable[Result]:
    return session.check(visit.connection, makes=True)


TARGET = declare("target", Group.SERVER, At.TARGET, _target_answers, CONNECTED)

VERSION_OF_SOURCE = declare("version", Group.SERVER, At.SOURCE, _version_of_source, AT_SOURCE_PLANNED)
VERSION_OF_TARGET = declare("version", Group.SERVER, At.TARGET, _version_of_target, AT_TARGET_PLANNED)

CLOCK_OF_SOURCE = declare("clock", Group.SERVER, At.SOURCE, by_connection(clocks.check), AT_SOURCE_PLANNED)
CLOCK_OF_TARGET = declare("clock", Group.SERVER, At.TARGET, by_connection(clocks.check), AT_TARGET_PLANNED)
CLOCK_OF_STATE = declare("clock", Group.SERVER, At.STATE, by_connection(clocks.check), CONNECTED)

CONNECTIONS_AT_SOURCE = declare("connections", Group.SERVER, At.SOURCE, _connections_at_source, AT_SOURCE_PLANNED)
CONNECTIONS_AT_TARGET = declare("connections", Group.SERVER, At.TARGET, _connections_at_target, AT_TARGET_PLANNED)
CONNECTIONS_AT_STATE = declare("connections", Group.SERVER, At.STATE, _connections_at_state, CONNECTED)

SESSION_AT_SOURCE = declare("session", Group.SERVER, At.SOURCE, _session_of_source, AT_SOURCE)
SESSION_AT_TARGET = declare("session", Group.SERVER, At.TARGET, _session_that_makes_tables, CONNECTED)
SESSION_AT_STATE = declare("session", Group.SERVER, At.STATE, _session_that_makes_tables, CONNECTED)


# -- the binlog, writes, crashes


def _left_out(visit: Visit) -> Iterable[Result]:
    databases = {table.database for table in visit.known.sources.chosen[visit.name]}
    return binlog.check_left_out(visit.connection, databases)


BINLOG = declare("binlog", Group.SERVER, At.SOURCE, by_connection(binlog.check), AT_SOURCE)
LEFT_OUT_OF_BINLOG = declare("binlog", Group.SERVER, At.SOURCE, _left_out, AT_SOURCE)


def _writable_target(visit: Visit) -> Iterable[Result]:
    every = visit.known.settings.databases.values()
    return writable.check(visit.connection, {one.database for one in every if one.target == visit.name})


def _writable_state(visit: Visit) -> Iterable[Result]:
    reached = visit.known.settings.state
    return writable.check(visit.connection, {reached.database, reached.shadow})


WRITABLE_TARGET = declare("writable", Group.SERVER, At.TARGET, _writable_target, CONNECTED)
WRITABLE_STATE = declare("writable", Group.SERVER, At.STATE, _writable_state, CONNECTED)

DURABLE_SOURCE = declare("durability", Group.SERVER, At.SOURCE, by_connection(durability.check_source), AT_SOURCE)
DURABLE_TARGET = declare("durability", Group.SERVER, At.TARGET, by_connection(durability.check_target), CONNECTED)
DURABLE_STATE = declare("durability", Group.SERVER, At.STATE, by_connection(durability.check_state), CONNECTED)
DURABLE_TOPICS = declare(
    "durability",
    Group.SERVER,
    At.KAFKA,
    lambda visit: durability.check_kafka(visit.known.settings.kafka),
    CONNECTED,
    subject="topics",
)


# -- settings of the targets against those of the sources


def _packet_of_source(visit: Visit) -> Iterable[Result]:
    found = visit.known.sources
    found.packet = max(found.packet, packet.allowed(visit.connection))
    return []


def _modes_of_source(visit: Visit) -> Iterable[Result]:
    visit.known.sources.modes.append(sql_mode.of(visit.connection))
    return []


def _zone_of_source(visit: Visit) -> Iterable[Result]:
    visit.known.sources.zones.append(time_zones.of(visit.connection))
    return []


def _packet_of_target(visit: Visit) -> Iterable[Result]:
    largest = visit.known.sources.packet
    return packet.check_target(visit.connection, largest) if largest else []


def _modes_of_target(visit: Visit) -> Iterable[Result]:
    modes = visit.known.sources.modes
    return sql_mode.check_target(visit.connection, frozenset().union(*modes)) if modes else []


def _zone_of_target(visit: Visit) -> Iterable[Result]:
    zones = visit.known.sources.zones
    return time_zones.check_target(visit.connection, frozenset(zones)) if zones else []


PACKET_OF_SOURCE = declare("packet", Group.SERVER, At.SOURCE, _packet_of_source, AT_SOURCE_PLANNED)
PACKET_OF_TARGET = declare("packet", Group.SERVER, At.TARGET, _packet_of_target, AT_TARGET_PLANNED)

MODES_OF_SOURCE = declare("sql_mode", Group.SERVER, At.SOURCE, _modes_of_source, AT_SOURCE_PLANNED)
MODES_OF_TARGET = declare("sql_mode", Group.SERVER, At.TARGET, _modes_of_target, AT_TARGET_PLANNED)

ZONE_OF_SOURCE = declare("time zone", Group.SERVER, At.SOURCE, _zone_of_source, AT_SOURCE_PLANNED)
ZONE_OF_TARGET = declare("time zone", Group.SERVER, At.TARGET, _zone_of_target, AT_TARGET_PLANNED)


# -- the state server


def _what_init_took(visit: Visit) -> Iterable[Result]:
    """Tells nothing: what cannot be read is told by the checks of the state server."""
    known, planned = visit.known, visit.plan.tables
    known.state.copied = frozenset(planned) if known.reverse else copied.tables(known.settings)
    known.state.begun = _begun(visit)
    return []


def _begun(visit: Visit) -> frozenset[TableId]:
    """The tables that init takes with rows at their shard tables: it knows them, or one of the group that they join."""
    plan = visit.plan
    try:
        noted = state.tables(visit.known.settings)
    except MigrateError:
        return frozenset(plan.tables)
    joined = (one for one in plan.tables.values() if any(member.table.id in noted for member in plan.members(one)))
    return frozenset(one.table.id for one in joined)


def _state(visit: Visit) -> Iterable[Result]:
    known = visit.known
    with explained(visit.connection.name):
        known.state.version = state.version_of(known.settings)
        known.state.is_read = True
        return state.check(visit.connection, known.settings, known.state.version, known.sources.flavours)


TAKEN_BY_INIT = declare("state", Group.SERVER, At.HERE, _what_init_took, PLANNED)
STATE = declare("state", Group.SERVER, At.STATE, _state, CONNECTED, subject="state")
ENCRYPTION = declare("encryption", Group.SERVER, At.HERE, lambda visit: channels.check(visit.known.settings), ())
WEB = declare("web", Group.SERVER, At.HERE, lambda visit: web.check(visit.known.settings), ())
