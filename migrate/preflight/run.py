"""All checks, in order; every one runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
)
from migrate.preflight import volume as volumes
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
    flavours: dict[str, str] = field(default_factory=dict)  # by source

    @property
    def problems(self) -> list[Result]:
        return [result for result in self.results if result.verdict in (Verdict.PROBLEM, Verdict.UNKNOWN)]

    def raise_first(self) -> None:
        """Raise PreflightError for the first problem, saying how many there are."""
        if problems := self.problems:
            more = f" (and {len(problems) - 1} more; see `migrate preflight`)" if len(problems) > 1 else ""
            raise PreflightError(problems[0].message + more, hint=problems[0].mend)


def run(settings: Settings, *, services: bool = False, filled: bool = False) -> Report:
    """Look at every source, its tables, and every target. Raises ServerError only when a source does not answer.

    services: at the state server and Kafka too, which init need not: it uses them at once. filled: the target tables
    have the rows already, as those of a way back.
    """
    report = Report()
    for source in settings.sources:
        _source(settings, source, report)
    report.results += tables.unmatched_topics(settings, report.chosen)
    plan = _plan(settings, report, told=services and not report.problems)
    report.results += groups.check(plan) if plan is not None else []
    for target in settings.targets:
        look = partial(_target, settings, target.name, plan, report)
        report.results += guarded("target", target.name, look)
    if services and plan is not None:
        _at_leisure(settings, report, plan, filled=filled)
    if services:
        report.results += space.check_here(settings.run_dir)
        report.results += guarded("state", "state", lambda: state.check(settings, report.flavours))
        report.results += guarded("kafka", "kafka", lambda: kafka.check(settings, _known(settings)))
        report.results += guarded("topic", "topics", lambda: topics.check(settings))
    return report


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


def _source(settings: Settings, source: Source, report: Report) -> None:
    name = f"source '{source.name}'"
    connection = connect(source, name)
    try:
        wanted = settings.choose(source.name, base_tables(connection))
        report.chosen += wanted
        report.flavours[source.name] = connection.flavour
        report.results += tables.unmatched(settings, source.name, wanted)
        report.results += binlog.check(connection)
        report.results += grants.check(connection, {table.database for table in wanted})
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
    except pymysql.MySQLError as error:
        raise explain(error, name) from error
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the checks of a target go by: the sources' largest packet in bytes and their modes, bytes needed by target,
    and the source tables whose target tables may have rows."""

    packet: int
    modes: frozenset[str]
    needed: Mapping[str, int]
    begun: frozenset[TableId]


def _at_leisure(settings: Settings, report: Report, plan: Plan, *, filled: bool) -> None:
    """What init would not ask for, or says later: advice, and what takes longer to see."""
    report.results += unique_keys.check(plan)
    packets: list[int] = []
    modes_of: set[str] = set()
    total = Volume()
    for source in settings.sources:
        name = f"source '{source.name}'"
        planned = [one for key, one in plan.tables.items() if key[0] == source.name]
        connection = connect(source, name)
        try:
            report.results += versions.check(connection, _version(connection), source=True)
            report.results += clocks.check(connection)
            packets.append(packet.allowed(connection))
            modes_of |= modes.of(connection)
            volume = volumes.of(connection, (one.table for one in planned))
            total += volume
            report.results += retention.check(connection, volume)
            for one in planned:
                report.results += counters.check(connection, one)
                report.results += shards.check(connection, one)
        except pymysql.MySQLError as error:
            raise explain(error, name) from error
        finally:
            connection.close()
    report.results += retention.check_kafka(settings.kafka.retention_hours, total)
    shares = Counter(place.database.target for one in plan.tables.values() for place in one.places)
    begun = frozenset(plan.tables) if filled else _begun(settings, plan)
    seen = _Seen(max(packets), frozenset(modes_of), space.needed(total, shares), begun)
    for target in settings.targets:
        look = partial(_target_at_leisure, settings, target.name, plan, report, seen)
        report.results += guarded("target", target.name, look)


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
            *grants.check_databases(connection, _needed_at(plan, name, seen.begun)),
            *existing.check_target(connection, plan, name, seen.begun, report.flavours),
            *versions.check(connection, _version(connection)),
            *clocks.check(connection),
            *packet.check_target(connection, seen.packet),
            *modes.check_target(connection, seen.modes),
            *charsets.check_target(connection, tables, report.flavours),
            *space.check_target(connection, seen.needed.get(name, 0)),
        ]
    except pymysql.MySQLError as error:
        raise explain(error, where) from error
    finally:
        connection.close()


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
    """None when the sharding rules do not fit. told: that is a problem of its own; else init says so."""
    try:
        return Plan(settings, report.tables)
    except MigrateError as error:
        if told:
            report.results.append(Result("sharding", "tables", Verdict.PROBLEM, error.message, error.hint))
        return None


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
