"""All checks, in order; every one runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pymysql

from migrate.model.errors import MigrateError, PreflightError
from migrate.model.table import Table, TableId
from migrate.mysql.catalog import base_tables
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explain
from migrate.preflight import (
    binlog,
    cascades,
    charsets,
    clocks,
    counters,
    existing,
    foreign_keys,
    generated,
    grants,
    groups,
    kafka,
    loading,
    mixed,
    modes,
    packet,
    retention,
    shards,
    space,
    state,
    tables,
    topics,
    triggers,
    unique_keys,
    versions,
    zones,
)
from migrate.preflight import volume as volumes
from migrate.preflight import way_back as ways_back
from migrate.preflight.result import Result, Verdict, guarded
from migrate.preflight.volume import Volume
from migrate.settings import Settings, Source, TableSettings
from migrate.state.migration import Migration
from migrate.target.plan import Plan


@dataclass(slots=True)
class Report:
    results: list[Result] = field(default_factory=list)
    tables: dict[TableId, Table] = field(default_factory=dict)
    chosen: list[TableSettings] = field(default_factory=list)
    flavours: dict[str, str] = field(default_factory=dict)  # by source that answers
    away: set[str] = field(default_factory=set)  # targets that do not

    @property
    def problems(self) -> list[Result]:
        return [result for result in self.results if result.verdict in (Verdict.PROBLEM, Verdict.UNKNOWN)]

    def raise_first(self) -> None:
        """Raise PreflightError for the first problem, saying how many there are."""
        if problems := self.problems:
            more = f" (and {len(problems) - 1} more; see `migrate preflight`)" if len(problems) > 1 else ""
            raise PreflightError(problems[0].message + more, hint=problems[0].mend)


def run(settings: Settings, *, services: bool = False, way_back: bool = False) -> Report:
    """Look at every source, its tables, and every target.

    services: at the state server and Kafka too, which init need not: it uses them at once; without it ServerError is
    raised when a source does not answer. way_back: the target tables have the rows already, and a cutover is to come.
    """
    report = Report()
    for source in settings.sources:
        look = partial(_source, settings, source, report, way_back=way_back)
        report.results += guarded("source", source.name, look) if services else look()
    report.results += tables.unmatched_topics(settings, report.chosen)
    plan = _plan(settings, report, told=services)
    report.results += groups.check(plan) if plan is not None else []
    for target in settings.targets:
        report.results += _answered(report, target.name, partial(_target, settings, target.name, plan, report))
    if services and plan is not None:
        _at_leisure(settings, report, plan, way_back=way_back)
    if services:
        report.results += space.check_here(settings.run_dir)
        look_at_state = partial(state.check, settings, report.flavours, closed=way_back)
        report.results += guarded("state", "state", look_at_state)
        at_broker = guarded("kafka", "kafka", lambda: kafka.check(settings, _known(settings)))
        if all(one.verdict is not Verdict.UNKNOWN for one in at_broker):
            at_broker += guarded("topic", "topics", lambda: topics.check(settings))
        report.results += at_broker
    return report


def _answered(report: Report, target: str, look: Callable[[], list[Result]]) -> list[Result]:
    """Look at a target, unless it is known to be away: that is told once."""
    if target in report.away:
        return []
    results = guarded("target", target, look)
    if any(one.check == "target" and one.verdict is Verdict.UNKNOWN for one in results):
        report.away.add(target)
    return results


def _known(settings: Settings) -> Migration | None:
    try:
        return state.known(settings)
    except MigrateError:  # told by the check of the state server
        return None


def _begun(settings: Settings, plan: Plan) -> frozenset[TableId]:
    """The tables that init takes with rows at their places: it knows them, or one of the group that they join."""
    try:
        known = state.tables(settings)
    except MigrateError:  # told by the check of the state server
        return frozenset(plan.tables)
    joined = (one for one in plan.tables.values() if any(member.table.id in known for member in plan.members(one)))
    return frozenset(one.table.id for one in joined)


def _source(settings: Settings, source: Source, report: Report, *, way_back: bool) -> list[Result]:
    """What is not in the report: nothing. Raises ServerError."""
    name = f"source '{source.name}'"
    connection = connect(source, name)
    try:
        wanted = settings.choose(source.name, base_tables(connection))
        report.chosen += wanted
        report.flavours[source.name] = connection.flavour
        report.results += tables.unmatched(settings, source.name, wanted)
        report.results += binlog.check(connection)
        databases = {table.database for table in wanted}
        needs = grants.of_source(connection.flavour, databases)
        needs |= grants.of_cutover(connection.flavour, databases, settings.cutover.stop) if way_back else grants.Needs()
        report.results += grants.check(connection, needs, "the user may replicate")
        for table_settings in wanted:
            table, results = tables.check(connection, source.name, table_settings)
            report.results += results
            if table is not None:
                report.tables[(source.name, table.database, table.name)] = table
        there = [(table.database, table.table) for table in wanted]
        there = [pair for pair in there if (source.name, *pair) in report.tables]
        report.results += cascades.check(connection, there)
        report.results += foreign_keys.check(connection, there)
        report.results += triggers.check(connection, there)
        report.results += generated.check(report.tables[source.name, *pair] for pair in there)
        return []
    except pymysql.MySQLError as error:
        raise explain(error, name) from error
    finally:
        connection.close()


@dataclass(slots=True)
class _Sources:
    """What was seen at the sources together."""

    packet: int = 0  # the largest allowed, in bytes
    modes: set[str] = field(default_factory=set)
    zones: set[zones.Zone] = field(default_factory=set)
    volume: Volume = field(default_factory=Volume)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the checks of a target go by: the sources, bytes needed by target, the source tables that init has taken,
    and those whose target tables may have rows."""

    sources: _Sources
    needed: Mapping[str, int]
    begun: frozenset[TableId]
    filled: frozenset[TableId]
    way_back: bool


def _at_leisure(settings: Settings, report: Report, plan: Plan, *, way_back: bool) -> None:
    """What init would not ask for, or says later: advice, and what takes longer to see."""
    report.results += unique_keys.check(plan)
    report.results += ways_back.check(plan) if not way_back else []
    all_of = _Sources()
    for source in settings.sources:
        if source.name in report.flavours:
            report.results += guarded("source", source.name, partial(_source_at_leisure, source, plan, all_of))
    total = all_of.volume
    report.results += retention.check_kafka(settings.kafka.retention_hours, total)
    shares = Counter(place.database.target for one in plan.tables.values() for place in one.places)
    begun = _begun(settings, plan)
    seen = _Seen(
        all_of,
        space.needed(total, shares),
        begun,
        frozenset(plan.tables) if way_back else begun,
        way_back,
    )
    for target in settings.targets:
        look = partial(_target_at_leisure, settings, target.name, plan, report, seen)
        report.results += _answered(report, target.name, look)


def _source_at_leisure(source: Source, plan: Plan, all_of: _Sources) -> list[Result]:
    """all_of: what is seen on the way is added to it."""
    name = f"source '{source.name}'"
    planned = [one for key, one in plan.tables.items() if key[0] == source.name]
    connection = connect(source, name)
    try:
        results = versions.check(connection, _version(connection), source=True)
        results += clocks.check(connection)
        all_of.packet = max(all_of.packet, packet.allowed(connection))
        all_of.modes |= modes.of(connection)
        all_of.zones.add(zones.of(connection))
        volume = volumes.of(connection, (one.table for one in planned))
        all_of.volume += volume
        results += retention.check(connection, volume)
        for one in planned:
            results += counters.check(connection, one)
            results += shards.check(connection, one)
        return results
    except pymysql.MySQLError as error:
        raise explain(error, name) from error
    finally:
        connection.close()


def _target_at_leisure(
    settings: Settings,
    name: str,
    plan: Plan,
    report: Report,
    seen: _Seen,
) -> list[Result]:
    where = f"target '{name}'"
    connection = connect(settings.target(name), where)
    tables = [one for one in plan.tables.values() if any(place.database.target == name for place in one.places)]
    try:
        return [
            *_grants(connection, plan, name, seen),
            *existing.check_target(connection, plan, name, seen.filled, report.flavours),
            *versions.check(connection, _version(connection)),
            *clocks.check(connection),
            *packet.check_target(connection, seen.sources.packet),
            *modes.check_target(connection, frozenset(seen.sources.modes)),
            *zones.check_target(connection, frozenset(seen.sources.zones)),
            *charsets.check_target(connection, tables, report.flavours),
            *space.check_target(connection, seen.needed.get(name, 0)),
        ]
    except pymysql.MySQLError as error:
        raise explain(error, where) from error
    finally:
        connection.close()


def _grants(connection: Connection, plan: Plan, target: str, seen: _Seen) -> list[Result]:
    needed = _needed_at(plan, target, seen.begun)
    needs = grants.Needs(databases=needed)
    if seen.way_back:
        needs |= grants.of_cutover(connection.flavour, needed.keys(), plan.settings.cutover.stop)
    told = f"the user may do what is needed in {', '.join(sorted(needed))}"
    return grants.check(connection, needs, told)


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


def _version(connection: Connection) -> str:
    row = connection.one("SELECT VERSION()")
    return str(row[0] if row else "")


def _plan(settings: Settings, report: Report, *, told: bool) -> Plan | None:
    """Of the tables that were found; None where there is nothing to plan.

    told: each rule that does not fit is a result of its own and the others are planned; else init says the first.
    """
    if not report.tables:
        return None
    try:
        return _planned(settings, report.tables)
    except MigrateError:
        if not told:
            return None
    fit = {}
    for id_, table in report.tables.items():
        try:
            _planned(settings, {id_: table})
            fit[id_] = table
        except MigrateError as error:
            report.results.append(Result("sharding", table.full_name, Verdict.PROBLEM, error.message, error.hint))
    return _planned(settings, fit) if fit else None


def _planned(settings: Settings, tables: Mapping[TableId, Table]) -> Plan:
    """Of these alone, whatever else is in the config. Raises ConfigError."""
    there = [
        one for one in settings.tables if one.is_pattern or (settings.source_of(one), one.database, one.table) in tables
    ]
    return Plan(settings.model_copy(update={"tables": tuple(there)}), tables)


def _target(settings: Settings, name: str, plan: Plan | None, report: Report) -> list[Result]:
    where = f"target '{name}'"
    connection = connect(settings.target(name), where)
    try:
        row = connection.one("SELECT VERSION()")
        told = f"{where} answers: {connection.flavour} {row[0] if row else ''}"
        results = [Result("target", name, Verdict.PASS, told)]
        there = existing.find(connection, plan, name) if plan else []
        if plan:
            results += mixed.check_target(connection, plan, name, report.flavours, there)
        for found in there:
            results += foreign_keys.check_target(connection, found)
            results += triggers.check_target(connection, found)
        if settings.copy_.load == "auto":
            results += loading.check_target(connection, name)
        return results
    except pymysql.MySQLError as error:
        raise explain(error, where) from error
    finally:
        connection.close()
