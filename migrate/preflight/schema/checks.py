"""The checks of tables: those of the sources, the rules by which they are taken apart, and those of the targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from migrate.model.table import Table, TableId
from migrate.mysql import definition
from migrate.mysql.catalog import base_tables
from migrate.mysql.foreign_keys import logs_cascades
from migrate.preflight.check import (
    AT_SOURCE,
    AT_SOURCE_PLANNED,
    AT_STATE_READ,
    AT_TARGET_PLANNED,
    CONNECTED,
    PLANNED,
    At,
    Group,
    Need,
    Subjects,
    Visit,
    declare,
    declare_each,
)
from migrate.preflight.result import Result, problems
from migrate.preflight.schema import (
    auto_increment,
    broadcast,
    cascades,
    charsets,
    emptied,
    existing,
    foreign_keys,
    full_text,
    generated,
    groups,
    letter_case,
    misplaced,
    mixed_flavours,
    reverse_stream,
    routing,
    session_columns,
    shards,
    tables,
    trial,
    triggers,
    unique_keys,
    update_time,
)
from migrate.preflight.schema.existing import Existing
from migrate.preflight.server import state, state_trial
from migrate.preflight.server_checks import each, once
from migrate.settings import TableSettings
from migrate.target.home import MirrorTable
from migrate.target.routing import PlannedTable


def _name_of(planned: PlannedTable) -> str:
    return planned.table.full_name


# -- the selected tables of a source, and their definitions


def _choose(visit: Visit) -> Iterable[Result]:
    known, name = visit.known, visit.name
    chosen = list(known.settings.choose(name, base_tables(visit.connection)))
    known.sources.chosen[name] = chosen
    known.sources.flavours[name] = visit.connection.flavour
    return tables.unmatched(known.settings, name, chosen)


def _chosen(visit: Visit) -> Sequence[TableSettings]:
    return visit.known.sources.chosen[visit.name]


def _table(visit: Visit, wanted: TableSettings) -> Iterable[Result]:
    table, results = tables.check(visit.connection, visit.name, wanted)
    if table is not None:
        visit.known.tables[table.id] = table
    return results


def _found(visit: Visit) -> Sequence[Table]:
    """The tables of a source whose definitions could be read, and are usable."""
    ids = [(visit.name, one.database, one.table) for one in _chosen(visit)]
    return [visit.known.tables[id_] for id_ in ids if id_ in visit.known.tables]


def _names(visit: Visit) -> Sequence[tuple[str, str]]:
    return [(table.database, table.name) for table in _found(visit)]


def _selected(visit: Visit) -> Mapping[tuple[str, str], set[str]]:
    conditions = {(one.database, one.table): {item.column for item in one.rows} for one in _chosen(visit)}
    return {name: conditions[name] for name in _names(visit)}


def _cascades(visit: Visit) -> Iterable[Result]:
    connection, selected = visit.connection, _selected(visit)
    mirrors = {(one.database, one.table) for one in _chosen(visit) if isinstance(one, MirrorTable)}
    run = partial(cascades.check, connection, selected, logged=logs_cascades(connection), mirrors=mirrors)
    return once(each(connection, "cascades", [*selected], run, ".".join))


def _cascades_outside(visit: Visit) -> Iterable[Result]:
    return cascades.check_outside(visit.connection, _selected(visit))


def _foreign_keys(visit: Visit) -> Iterable[Result]:
    connection = visit.connection
    return each(
        connection, "foreign keys", _names(visit), lambda name: foreign_keys.check(connection, [name]), ".".join
    )


def _triggers(visit: Visit) -> Iterable[Result]:
    return triggers.check(visit.connection, _names(visit))


def _session_columns(visit: Visit, table: Table) -> Iterable[Result]:
    return session_columns.check(visit.connection, table)


_CHOSEN = Subjects(_chosen, lambda wanted: wanted.name)
_FOUND = Subjects(_found, lambda table: table.full_name)

SELECTED = declare("table", Group.SCHEMA, At.SOURCE, _choose, CONNECTED)
TABLES = declare_each("table", Group.SCHEMA, At.SOURCE, _CHOSEN, _table, AT_SOURCE)
CASCADES = declare("cascades", Group.SCHEMA, At.SOURCE, _cascades, AT_SOURCE)
CASCADES_OUTSIDE = declare("cascades", Group.SCHEMA, At.SOURCE, _cascades_outside, AT_SOURCE)
FOREIGN_KEYS = declare("foreign keys", Group.SCHEMA, At.SOURCE, _foreign_keys, AT_SOURCE)
TRIGGERS = declare("triggers", Group.SCHEMA, At.SOURCE, _triggers, AT_SOURCE)
GENERATED = declare("generated", Group.SCHEMA, At.SOURCE, lambda visit: generated.check(_found(visit)), {Need.TABLES})
SESSION_COLUMNS = declare_each("generated", Group.SCHEMA, At.SOURCE, _FOUND, _session_columns, AT_SOURCE)


# -- the plan


def _unmatched_topics(visit: Visit) -> Iterable[Result]:
    chosen = [table for some in visit.known.sources.chosen.values() for table in some]
    return tables.unmatched_topics(visit.known.settings, chosen)


def _plan(visit: Visit) -> Iterable[Result]:
    """For init, the first rule that does not fit is raised by init itself."""
    known = visit.known
    known.plan, results = routing.plan_of(known.settings, known.tables, told=not known.is_strict)
    return results


def _reverse_stream(visit: Visit) -> Iterable[Result]:
    return [] if visit.known.reverse else reverse_stream.check(visit.plan)


TABLES_OF_TOPICS = declare("table", Group.SCHEMA, At.HERE, _unmatched_topics, ())
RULES = declare("sharding", Group.SCHEMA, At.HERE, _plan, ())
GROUPS = declare("group", Group.SCHEMA, At.HERE, lambda visit: groups.check(visit.plan), PLANNED)
UPDATE_TIMES = declare(update_time.CHECK, Group.SCHEMA, At.HERE, lambda visit: update_time.check(visit.plan), PLANNED)
UNIQUE_KEYS = declare("unique keys", Group.SCHEMA, At.HERE, lambda visit: unique_keys.check(visit.plan), PLANNED)
BROADCAST = declare(broadcast.CHECK, Group.SCHEMA, At.HERE, lambda visit: broadcast.check(visit.plan), PLANNED)
REVERSE_STREAM = declare("reverse stream", Group.SCHEMA, At.HERE, _reverse_stream, PLANNED)


# -- rows of the sources


def _planned(visit: Visit) -> Sequence[PlannedTable]:
    return [one for key, one in visit.plan.tables.items() if key[0] == visit.name]


def _counter(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    """Tells nothing: counters are judged by group, when all are read."""
    visit.known.sources.counters[planned.table.id] = auto_increment.look(visit.connection, planned)
    return []


def _shards(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    return shards.check(visit.connection, planned, visit.known.sources.spread)


def _filled(visit: Visit) -> frozenset[TableId]:
    """The source tables whose target tables may have rows."""
    return frozenset(visit.plan.tables) if visit.known.reverse else visit.known.state.begun


def _to_be_made(visit: Visit) -> Sequence[PlannedTable]:
    filled = _filled(visit)
    return [one for one in _planned(visit) if one.table.id not in filled]


def _sample(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    told = {one.subject for one in problems(visit.known.results) if one.check == "generated"}
    computes = planned.table.full_name not in told
    visit.known.sources.samples.append(trial.sample(visit.connection, planned, computes=computes))
    return []


def _definition(visit: Visit, planned: PlannedTable) -> Iterable[Result]:
    """Of a table whose unique keys have parts without a column's name, for what targets have already."""
    table = planned.table
    if any("" in key for key in table.unique_keys):
        statement = definition.show_create(visit.connection, table.database, table.name)
        visit.known.sources.statements[table.id] = statement
    return []


def _full_text(visit: Visit) -> Iterable[Result]:
    found = full_text.look(visit.connection, [one.table for one in _planned(visit)])
    if found is not None:
        visit.known.sources.full_text[visit.name] = found
    return []


_PLANNED = Subjects(_planned, _name_of)
_TO_BE_MADE = Subjects(_to_be_made, _name_of)

COUNTERS_OF_SOURCE = declare_each("counters", Group.SCHEMA, At.SOURCE, _PLANNED, _counter, AT_SOURCE_PLANNED)
SHARDS = declare_each("sharding", Group.SCHEMA, At.SOURCE, _PLANNED, _shards, AT_SOURCE_PLANNED)
MISPLACED = declare_each(
    misplaced.CHECK,
    Group.SCHEMA,
    At.SOURCE,
    _PLANNED,
    lambda visit, planned: misplaced.check(visit.connection, planned),
    AT_SOURCE_PLANNED,
)
FILLED_AT_NODES = declare_each(
    broadcast.CHECK,
    Group.SCHEMA,
    At.SOURCE,
    _PLANNED,
    lambda visit, planned: broadcast.check_filled(visit.connection, planned),
    AT_SOURCE_PLANNED,
)
DEFINITIONS = declare_each("table", Group.SCHEMA, At.SOURCE, _PLANNED, _definition, AT_SOURCE_PLANNED)
SAMPLES = declare_each("trial", Group.SCHEMA, At.SOURCE, _TO_BE_MADE, _sample, AT_SOURCE_PLANNED)
PARTITIONED = emptied.PARTITIONED
FULL_TEXT_AT_SOURCE = declare("full text", Group.SCHEMA, At.SOURCE, _full_text, AT_SOURCE_PLANNED)


# -- the tables of a target


def _find_existing(visit: Visit) -> Iterable[Result]:
    visit.known.targets.existing[visit.name] = existing.find(visit.connection, visit.plan, visit.name)
    return []


def _existing(visit: Visit) -> Sequence[Existing]:
    return visit.known.targets.existing.get(visit.name, [])


def _letter_case(visit: Visit) -> Iterable[Result]:
    return letter_case.check_target(visit.connection, visit.plan, visit.name)


def _mixed_flavours(visit: Visit) -> Iterable[Result]:
    flavours = visit.known.sources.flavours
    return mixed_flavours.check_target(visit.connection, visit.plan, visit.name, flavours, _existing(visit))


def _foreign_keys_at_target(visit: Visit, there: Existing) -> Iterable[Result]:
    return foreign_keys.check_target(visit.connection, there)


def _triggers_at_target(visit: Visit, there: Existing) -> Iterable[Result]:
    return triggers.of_tables(visit.connection, there, reverse=visit.known.reverse)


def _events(visit: Visit, there: Existing) -> Iterable[Result]:
    return triggers.events(visit.connection, there, reverse=visit.known.reverse)


def _hidden(visit: Visit, there: Existing) -> Iterable[Result]:
    return triggers.hidden(visit.connection, there, reverse=visit.known.reverse)


def _existing_tables(visit: Visit) -> Iterable[Result]:
    flavours = visit.known.sources.flavours
    statements = visit.known.sources.statements
    return existing.check_target(visit.connection, visit.plan, visit.name, _filled(visit), flavours, statements)


def _trial(visit: Visit) -> Iterable[Result]:
    if visit.known.reverse:
        return []
    return trial.check_target(visit.connection, visit.plan, visit.name, visit.known.sources.samples)


def _at_target(visit: Visit) -> Sequence[PlannedTable]:
    return [
        one for one in visit.plan.tables.values() if any(place.database.target == visit.name for place in one.places)
    ]


def _charsets(visit: Visit) -> Iterable[Result]:
    return charsets.check_target(visit.connection, _at_target(visit), visit.known.sources.flavours)


def _full_text_at_target(visit: Visit) -> Iterable[Result]:
    return full_text.check_target(visit.connection, visit.plan, visit.name, visit.known.sources.full_text)


def _next_ids(visit: Visit) -> Iterable[Result]:
    counting = [one for one in _at_target(visit) if visit.known.sources.counters.get(one.table.id)]
    places = {place for one in counting for place in one.places if place.database.target == visit.name}
    visit.known.targets.next_ids |= auto_increment.next_ids(visit.connection, places)
    return []


def _counters(visit: Visit) -> Iterable[Result]:
    return auto_increment.check(visit.plan, visit.known.sources.counters, visit.known.targets.next_ids)


_EXISTING = Subjects(_existing, lambda there: there.database)

EXISTING = declare("target table", Group.SCHEMA, At.TARGET, _find_existing, AT_TARGET_PLANNED)
EXISTING_TABLES = declare("target table", Group.SCHEMA, At.TARGET, _existing_tables, AT_TARGET_PLANNED)
SHARED = emptied.SHARED
LETTER_CASE = declare("names", Group.SCHEMA, At.TARGET, _letter_case, AT_TARGET_PLANNED)
MIXED_FLAVOURS = declare("flavour", Group.SCHEMA, At.TARGET, _mixed_flavours, AT_TARGET_PLANNED)
FOREIGN_KEYS_AT_TARGET = declare_each(
    "foreign keys", Group.SCHEMA, At.TARGET, _EXISTING, _foreign_keys_at_target, AT_TARGET_PLANNED
)
TRIGGERS_AT_TARGET = declare_each(
    "triggers", Group.SCHEMA, At.TARGET, _EXISTING, _triggers_at_target, AT_TARGET_PLANNED
)
EVENTS = declare_each("events", Group.SCHEMA, At.TARGET, _EXISTING, _events, AT_TARGET_PLANNED)
HIDDEN_TRIGGERS = declare_each("triggers", Group.SCHEMA, At.TARGET, _EXISTING, _hidden, AT_TARGET_PLANNED)
TRIAL = declare("trial", Group.SCHEMA, At.TARGET, _trial, AT_TARGET_PLANNED)
CHARSETS = declare("charset", Group.SCHEMA, At.TARGET, _charsets, AT_TARGET_PLANNED)
FULL_TEXT = declare("full text", Group.SCHEMA, At.TARGET, _full_text_at_target, AT_TARGET_PLANNED)
NEXT_IDS = declare("counters", Group.SCHEMA, At.TARGET, _next_ids, AT_TARGET_PLANNED)
COUNTERS = declare("counters", Group.SCHEMA, At.HERE, _counters, PLANNED)


# -- the definitions at the state server


def _trial_at_state(visit: Visit) -> Iterable[Result]:
    known = visit.known
    makes = known.state.version is None or known.state.version < state.newest_version()
    return state_trial.check(visit.connection, known.settings, known.sources.samples, makes=makes)


TRIAL_AT_STATE = declare("trial", Group.SCHEMA, At.STATE, _trial_at_state, AT_STATE_READ)
