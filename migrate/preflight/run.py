"""All checks, in order; every one runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from migrate.model.errors import MigrateError, PreflightError
from migrate.model.table import Table, TableId
from migrate.mysql.catalog import base_tables
from migrate.mysql.connection import Connection
from migrate.mysql.foreign_keys import logs_cascades
from migrate.preflight.capacity import copied, loading, retention, row_sizes, space
from migrate.preflight.capacity import volume as volumes
from migrate.preflight.capacity.volume import Volume
from migrate.preflight.result import Result, Verdict, guarded
from migrate.preflight.schema import auto_increment as counters
from migrate.preflight.schema import (
    cascades,
    charsets,
    existing,
    foreign_keys,
    generated,
    groups,
    letter_case,
    mixed_flavours,
    routing,
    session_columns,
    shards,
    tables,
    trial,
    triggers,
    unique_keys,
)
from migrate.preflight.schema import way_back as ways_back
from migrate.preflight.server import (
    binlog,
    clocks,
    connections,
    durability,
    grants,
    packet,
    session,
    state,
    versions,
    web,
    writable,
)
from migrate.preflight.server import sql_mode as modes
from migrate.preflight.server import time_zones as zones
from migrate.preflight.server_checks import Looks, each, once
from migrate.preflight.topics import kafka, stale_topics, topic_settings
from migrate.settings import Server, Settings, Source, TableSettings
from migrate.state.migration import Migration
from migrate.target.routing import Place, Plan, PlannedTable


@dataclass(slots=True)
class Report:
    results: list[Result] = field(default_factory=list)
    tables: dict[TableId, Table] = field(default_factory=dict)
    chosen: list[TableSettings] = field(default_factory=list)
    flavours: dict[str, str] = field(default_factory=dict)  # by source that answers
    away: set[str] = field(default_factory=set)  # servers that do not, as "target 't0'": that is told once

    @property
    def problems(self) -> list[Result]:
        return [result for result in self.results if result.verdict in (Verdict.PROBLEM, Verdict.UNKNOWN)]

    def raise_first(self) -> None:
        """Raise PreflightError for the first problem, saying how many there are."""
        if problems := self.problems:
            more = f" (and {len(problems) - 1} more; see `migrate preflight`)" if len(problems) > 1 else ""
            raise PreflightError(problems[0].message + more, hint=problems[0].mend)

    def looks(self, server: Server, role: str, name: str, *, strict: bool = False) -> Looks:
        return Looks(server, role, name, self.results, self.away, strict=strict)


def run(settings: Settings, *, services: bool = False, way_back: bool = False) -> Report:
    """Look at every source, its tables, and every target.

    services: at the state server and Kafka too, which init need not: it uses them at once; without it ServerError is
    raised when a source does not answer. way_back: the target tables have the rows already, applications write there,
    and a cutover is to come.
    """
    report = Report()
    for source in settings.sources:
        with report.looks(source, "source", source.name, strict=not services) as looks:
            _source(settings, source, report, looks, way_back=way_back and services)
    report.results += tables.unmatched_topics(settings, report.chosen)
    plan, misfits = routing.plan_of(settings, report.tables, told=services)
    report.results += misfits
    report.results += groups.check(plan) if plan is not None else []
    for target in settings.targets:
        with report.looks(target, "target", target.name) as looks:
            _target(settings, target.name, plan, report, looks, way_back=way_back)
    samples: list[trial.Sample] = []
    if services and plan is not None:
        samples = _at_leisure(settings, report, plan, way_back=way_back)
    if services:
        report.results += space.check_here(settings.run_dir)
        report.results += web.check(settings)
        look_at_state = partial(state.check, settings, report.flavours, samples, closed=way_back)
        report.results += guarded("state", "state", look_at_state)
        at_broker = guarded("kafka", "kafka", lambda: kafka.check(settings, _known(settings)))
        if all(one.verdict is not Verdict.UNKNOWN for one in at_broker):
            at_broker += guarded("topic", "topics", lambda: topic_settings.check(settings))
            at_broker += durability.check_kafka(settings.kafka)
            at_broker += guarded("topic", "topics", lambda: stale_topics.check(settings)) if _is_new(settings) else []
        report.results += at_broker
    return report


def _known(settings: Settings) -> Migration | None:
    try:
        return state.known(settings)
    except MigrateError:  # told by the check of the state server
        return None


def _is_new(settings: Settings) -> bool:
    try:
        return state.known(settings) is None
    except MigrateError:  # told by the check of the state server
        return False


def _begun(settings: Settings, plan: Plan) -> frozenset[TableId]:
    """The tables that init takes with rows at their places: it knows them, or one of the group that they join."""
    try:
        known = state.tables(settings)
    except MigrateError:  # told by the check of the state server
        return frozenset(plan.tables)
    joined = (one for one in plan.tables.values() if any(member.table.id in known for member in plan.members(one)))
    return frozenset(one.table.id for one in joined)


def _source(settings: Settings, source: Source, report: Report, looks: Looks, *, way_back: bool) -> None:
    """What init needs to know of a source."""
    wanted = looks.read("table", lambda connection: settings.choose(source.name, base_tables(connection)))
    if wanted is None or looks.flavour is None:
        return
    report.chosen += wanted
    report.flavours[source.name] = looks.flavour
    report.results += tables.unmatched(settings, source.name, wanted)
    looks.at("session", partial(session.check, makes=False))
    looks.at("binlog", binlog.check)
    looks.at("durability", durability.check_source)
    databases = {table.database for table in wanted}
    needs = grants.of_source(looks.flavour, databases)
    needs |= grants.of_cutover(looks.flavour, databases, settings.cutover.stop) if way_back else grants.Needs()
    looks.at("grants", partial(grants.check, needs=needs, told="the user may replicate"))
    looks.at("grants", grants.check_prepared)
    looks.at("binlog", partial(binlog.check_left_out, databases=databases))
    for one in wanted:
        looks.at("table", partial(_table, report, source.name, one), one.name)
    there = [(one.database, one.table) for one in wanted if (source.name, one.database, one.table) in report.tables]
    conditions = {(one.database, one.table): {item.column for item in one.rows} for one in wanted}
    selected = {pair: conditions[pair] for pair in there}
    looks.at("cascades", partial(_cascades, tables=selected))
    looks.at("cascades", partial(cascades.check_outside, tables=selected))
    looks.at("foreign keys", lambda connection: _each(connection, "foreign keys", there, foreign_keys.check))
    looks.at("triggers", partial(triggers.check, tables=there))
    report.results += generated.check(report.tables[source.name, *pair] for pair in there)
    for pair in there:
        table = report.tables[source.name, *pair]
        looks.at("generated", partial(session_columns.check, table=table), table.full_name)


def _table(report: Report, source: str, wanted: TableSettings, connection: Connection) -> list[Result]:
    """Notes the table, if it is there."""
    table, results = tables.check(connection, source, wanted)
    if table is not None:
        report.tables[table.id] = table
    return results


_Pair = tuple[str, str]


def _each(
    connection: Connection,
    check: str,
    there: Sequence[_Pair],
    look: Callable[[Connection, Sequence[_Pair]], Iterable[Result]],
) -> Iterator[Result]:
    """there: databases and tables."""
    return each(connection, check, there, lambda pair: look(connection, [pair]), ".".join)


def _cascades(connection: Connection, tables: cascades.Selected) -> Iterable[Result]:
    look = partial(cascades.check, connection, tables, logged=logs_cascades(connection))
    return once(each(connection, "cascades", [*tables], look, ".".join))


@dataclass(slots=True)
class _Sources:
    """What was seen at the sources together; empty where none of them let it be seen."""

    packet: int = 0  # the largest allowed, in bytes
    modes: list[frozenset[str]] = field(default_factory=list)
    zones: list[zones.Zone] = field(default_factory=list)
    volumes: dict[TableId, Volume] = field(default_factory=dict)  # of the tables that are to be copied
    counters: dict[TableId, counters.Counter | None] = field(default_factory=dict)
    samples: list[trial.Sample] = field(default_factory=list)  # of the tables that init would make


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the checks of a target go by: the sources, the source tables that init has taken, and those whose target
    tables may have rows. Its disk is added, and the ids that its tables would give."""

    sources: _Sources
    disks: dict[str, space.Disk]
    next_ids: dict[Place, int]
    begun: frozenset[TableId]
    filled: frozenset[TableId]
    way_back: bool


def _at_leisure(settings: Settings, report: Report, plan: Plan, *, way_back: bool) -> list[trial.Sample]:
    """What init would not ask for, or says later: advice, and what takes longer to see. Returns what of the sources is
    tried at other servers."""
    report.results += unique_keys.check(plan)
    report.results += ways_back.check(plan) if not way_back else []
    all_of, done = _Sources(), frozenset(plan.tables) if way_back else copied.tables(settings)
    begun = _begun(settings, plan)
    for source in settings.sources:
        if source.name in report.flavours:
            with report.looks(source, "source", source.name) as looks:
                _source_at_leisure(source.name, plan, all_of, looks, done)
                _to_be_made(source.name, plan, all_of, looks, frozenset(plan.tables) if way_back else begun, report)
    total = sum(all_of.volumes.values(), Volume())
    report.results += retention.check_kafka(settings.kafka.retention_hours, total)
    seen = _Seen(all_of, {}, {}, begun, frozenset(plan.tables) if way_back else begun, way_back)
    for target in settings.targets:
        with report.looks(target, "target", target.name) as looks:
            _target_at_leisure(target.name, plan, report, seen, looks)
    report.results += counters.check(plan, all_of.counters, seen.next_ids)
    report.results += space.check_targets(seen.disks, space.needed(all_of.volumes, plan.tables.values()))
    return all_of.samples


def _source_at_leisure(name: str, plan: Plan, all_of: _Sources, looks: Looks, done: Collection[TableId]) -> None:
    """all_of: what is seen on the way is added to it. done: the tables whose rows are at the targets."""
    planned = [one for key, one in plan.tables.items() if key[0] == name]
    looks.at("version", lambda connection: versions.check(connection, _version(connection), source=True))
    looks.at("clock", clocks.check)
    looks.at("connections", partial(connections.check, settings=plan.settings, server=plan.settings.source(name)))
    all_of.packet = max(all_of.packet, looks.read("packet", packet.allowed) or 0)
    if (modes_here := looks.read("sql_mode", modes.of)) is not None:
        all_of.modes.append(modes_here)
    if (zone := looks.read("time zone", zones.of)) is not None:
        all_of.zones.append(zone)
    to_copy = [one.table for one in planned if one.table.id not in done]
    found = {table.id: looks.read("space", partial(volumes.of, table=table), table.full_name) for table in to_copy}
    there = {id_: volume for id_, volume in found.items() if volume is not None}
    all_of.volumes |= there
    looks.at("retention", partial(retention.check, volume=sum(there.values(), Volume())))
    looks.at("row size", partial(row_sizes.check, tables=planned, settings=plan.settings))
    for one in planned:
        looks.at("counters", partial(_counted, all_of, one), one.table.full_name)
        looks.at("sharding", partial(shards.check, planned=one), one.table.full_name)


def _to_be_made(
    name: str, plan: Plan, all_of: _Sources, looks: Looks, begun: Collection[TableId], report: Report
) -> None:
    told = {one.subject for one in report.problems if one.check == "generated"}
    for key, planned in plan.tables.items():
        if key[0] == name and key not in begun:
            whole = planned.table.full_name
            look = partial(trial.sample, planned=planned, computes=whole not in told)
            found = looks.read("trial", look, whole)
            all_of.samples += [found] if found is not None else []


def _counted(all_of: _Sources, planned: PlannedTable, connection: Connection) -> list[Result]:
    """They are judged by group, when all are seen."""
    all_of.counters[planned.table.id] = counters.look(connection, planned)
    return []


def _target_at_leisure(name: str, plan: Plan, report: Report, seen: _Seen, looks: Looks) -> None:
    sources = seen.sources
    here = [one for one in plan.tables.values() if any(place.database.target == name for place in one.places)]
    looks.at("grants", lambda connection: _grants(connection, plan, name, seen))
    looks.at(
        "target table",
        lambda connection: existing.check_target(connection, plan, name, seen.filled, report.flavours),
    )
    if not seen.way_back:
        looks.at("trial", lambda connection: trial.check_target(connection, plan, name, sources.samples))
    looks.at("version", lambda connection: versions.check(connection, _version(connection)))
    looks.at("clock", clocks.check)
    looks.at("connections", partial(connections.check, settings=plan.settings, server=plan.settings.target(name)))
    if sources.packet:
        looks.at("packet", partial(packet.check_target, sources=sources.packet))
    if sources.modes:
        looks.at("sql_mode", partial(modes.check_target, sources=frozenset().union(*sources.modes)))
    if sources.zones:
        looks.at("time zone", partial(zones.check_target, sources=frozenset(sources.zones)))
    looks.at("charset", lambda connection: charsets.check_target(connection, here, report.flavours))
    counting = [one for one in here if sources.counters.get(one.table.id)]
    places = {place for one in counting for place in one.places if place.database.target == name}
    seen.next_ids.update(looks.read("counters", partial(counters.next_ids, places=places)) or {})
    if (disk := looks.read("space", space.look)) is not None:
        seen.disks[name] = disk


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


def _target(settings: Settings, name: str, plan: Plan | None, report: Report, looks: Looks, *, way_back: bool) -> None:
    looks.at("version", partial(_answers, name))
    looks.at("session", partial(session.check, makes=True))
    looks.at("writable", writable.check)
    looks.at("durability", durability.check_target)
    there = (looks.read("target table", lambda connection: existing.find(connection, plan, name)) or []) if plan else []
    if plan:
        looks.at("names", partial(letter_case.check_target, plan=plan, target=name))
        looks.at(
            "flavour", lambda connection: mixed_flavours.check_target(connection, plan, name, report.flavours, there)
        )
    for found in there:
        looks.at("foreign keys", partial(foreign_keys.check_target, existing=found), found.database)
        looks.at("triggers", partial(triggers.check_target, existing=found, way_back=way_back), found.database)
    if settings.copy_.load == "auto":
        looks.at("loading", partial(loading.check_target, name=name))


def _answers(name: str, connection: Connection) -> list[Result]:
    told = f"{connection.name} answers: {connection.flavour} {_version(connection)}"
    return [Result("target", name, Verdict.PASS, told)]
