"""`migrate init`: state, topics, target tables. Running it again changes nothing that is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

import sqlalchemy as sa

from migrate.kafka import admin
from migrate.model.errors import ConfigError, MigrateError, PreflightError
from migrate.model.table import Table, TableId
from migrate.model.words import counted
from migrate.mysql import definition
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.mysql.quoting import quote
from migrate.ops import conditions, delayed, groups
from migrate.ops.tables import Changes
from migrate.preflight import leftovers
from migrate.preflight import run as preflight
from migrate.settings import Settings
from migrate.state import database, leading, phase, position, schema_history, switch
from migrate.state import migration as migrations
from migrate.target import chunk_fence
from migrate.target.making import create_own_tables, create_place, refuse_unlike, tables_in
from migrate.target.plan import Place, Plan, PlannedTable, TargetDatabase, connect_database

Say = Callable[[str], None]
_WRITTEN_OUT = re.compile(r"""(password["']?\s*[:=]\s*["']?)(?!["']?\$\{)[^"'\s,}]+""", re.I)


@dataclass(frozen=True, slots=True)
class Initialised:
    migration: migrations.Migration
    tables_created: int
    topics_created: int


def initialise(
    settings: Settings, config: str = "", say: Say = lambda _line: None, *, reverse_of: str = ""
) -> Initialised:
    """Prepare a migration. reverse_of: the one whose way back it is: its target has the rows, and no copy is due.

    1. preflight; 2. the state database, and the one that statements are tried in; 3. the topics; 4. the target
    databases, the service's tables in them, and the physical tables from the source's own definition; 5. the
    migration's row and the tables' definitions.
    Raises: PreflightError, ConfigError, ServerError.
    """
    report = preflight.run(settings, way_back=bool(reverse_of))
    report.raise_first()
    plan = Plan(settings, report.tables)
    with _resumable(say):
        applied = database.create(settings.state)
    say(f"state database {settings.state.database}: {'version ' + str(applied[-1]) if applied else 'up to date'}")
    with database.opened(settings.state) as state, state.connect() as connection:
        for name in filter(None, (settings.name, reverse_of)):
            migrations.refuse_finished(connection, name)
        leading.refuse_in_cutover(connection, reverse_of or settings.name)
    with _resumable(say):
        topics = _create_topics(settings, say)
    with database.opened(settings.state) as state, ExitStack() as until:
        with state.connect() as connection:
            changes = Changes.find(connection, plan)
            phases = phase.every(connection, settings.name)
            groups.refuse_changes(connection, plan, changes)
            if not reverse_of and changes.known and not leading.leads(connection, settings.name):
                _refuse_behind(changes)
        if not changes.known:
            leftovers.refuse(settings)
        changes.stand_in(settings, state, until)
        groups.refuse_early(settings, state, plan, changes)
        filled = {id_ for id_, stage in phases.items() if stage is not phase.Phase.CREATED} - changes.new
        if reverse_of:
            filled = set(plan.tables)
        with _resumable(say):
            created = _create_targets(settings, plan, changes, filled, say)
            if reverse_of:
                _close_copies(settings, plan)
        changes.clear_targets(plan)
        conditions.take_over(settings, state, plan, changes.conditions, say)
        creates = {key: _create_statement(settings, planned.table) for key, planned in plan.tables.items()}
        found = [admin.require(settings.kafka, name, admin.NEW) for name in settings.topics]
        there = tuple(migrations.Topic(topic.name, topic.id, topic.partitions) for topic in found)
        migration = migrations.Migration(settings.name, there)
        with state.begin() as connection:
            leading.hold(connection, reverse_of or settings.name)
            leading.refuse_in_cutover(connection, reverse_of or settings.name)
            migrations.create(connection, migration, masked(config))
            changes.note(connection, plan, say)
            _store_definitions(connection, plan, creates, changes)
            _store_rules(connection, plan, changes)
            if reverse_of:
                migrations.note_reverse(connection, settings.name, reverse_of)
                for planned in plan.tables.values():
                    done = replace(phase.get(connection, settings.name, planned.table), phase=phase.Phase.COPIED)
                    phase.put(connection, settings.name, planned.table, done)
            else:
                switch.make(connection, settings.name)
            migrations.ask_retry(connection, settings.name)  # what stood still may do so for what this made anew
        if changes.known and (sent := delayed.send_again(settings, state, plan, migration)):
            say(f"{counted(sent, 'delayed delete')} that the ledgers wait for sent again")
        return Initialised(migration, created, topics)


@contextmanager
def _resumable(say: Say) -> Iterator[None]:
    """Each thing is made where it is absent, and nothing uses it before the migration's row is there, at the end."""
    try:
        yield
    except MigrateError:
        say("what was made until here stays; once the cause is mended, `migrate init` goes on from there")
        raise


def _refuse_behind(changes: Changes) -> None:
    """Raise PreflightError where rows at the targets would go, or come from the sources, by this."""
    if changes.new or changes.conditions:
        raise PreflightError(
            "tables are added or their row conditions changed, and applications are at the targets",
            hint="leave that of the config as it was; it can be changed after `migrate rollback`",
        )


def _create_topics(settings: Settings, say: Say) -> int:
    """The topics, and for each the delay topics, with as many partitions as it really has."""
    created = 0
    for topic in settings.topics:
        partitions = settings.kafka.partitions
        for name in (topic, *settings.delay_topics(topic)):
            if admin.create_topic(settings.kafka, name, partitions):
                created += 1
                say(f"topic {name}: created with {counted(partitions, 'partition')}")
            found = admin.require(settings.kafka, name, admin.NEW)
            if name == topic:
                partitions = found.partitions
            elif found.partitions != partitions:
                raise PreflightError(
                    f"topic {name} has {counted(found.partitions, 'partition')}, {topic} has {partitions}",
                    hint="delete the delay topic, so that init creates it",
                )
    return created


def masked(config: str) -> str:
    """The config's text with passwords that are written out taken from it; those from the environment stay as names."""
    return _WRITTEN_OUT.sub(r"\1***", config)


def _create_statement(settings: Settings, table: Table) -> str:
    """How the source makes the table: what statements in its log are tried on later."""
    name = f"source '{table.source}'"
    source = connect(settings.source(table.source), name)
    try:
        with explained(f"{name}, table {table.full_name}"):
            return definition.show_create_whole(source, table.database, table.name)
    finally:
        source.close()


def _store_definitions(connection: sa.Connection, plan: Plan, creates: Mapping[TableId, str], changes: Changes) -> None:
    name = plan.settings.name
    for key, planned in plan.tables.items():
        before = changes.known.get(key)
        if key in changes.behind or before == planned.table:
            continue
        if before is not None:  # nothing of it was read
            schema_history.forget(connection, name, key)
        schema_history.add(connection, name, planned.table, schema_history.BEGINNING, creates[key])


def _store_rules(connection: sa.Connection, plan: Plan, changes: Changes) -> None:
    """Remember each table's rule once its source is being read: rows written under one rule stay where it put them."""
    name = plan.settings.name
    first = schema_history.first(connection, name)
    for key, now in plan.tables.items():
        planned = replace(now, first=first.get(key))
        before = phase.get(connection, name, planned.table)
        unread = position.load(connection, name, key[0]) is None or key in changes.waiting
        if unread or not before.rule_hash or key in changes.conditions:
            phase.put(connection, name, planned.table, replace(before, rule_hash=planned.rule_hash))
        elif before.rule_hash != planned.rule_hash:
            raise ConfigError(
                f"{planned.table.full_name}: columns, key, sharding rule, places or group changed since it began",
                hint="restore them, or start a new migration under another name",
            )
        phase.note_base(connection, name, planned.table, planned.base_hash)


# -- targets


def _create_targets(settings: Settings, plan: Plan, changes: Changes, filled: Collection[TableId], say: Say) -> int:
    """filled: the tables whose rows are, or may be, at the target already."""
    for target_database in plan.used_databases:
        _create_database(settings, target_database)
    created = 0
    for key, planned in plan.tables.items():
        if key in changes.back & changes.joining:
            raise PreflightError(
                f"{planned.table.full_name} was taken out, and group '{planned.group}' has other tables now",
                hint="take the whole group out of the config, `migrate init`, empty its target tables, put all of it"
                " back at once, `migrate init`",
            )
        first = key in changes.new.difference(filled) and key not in changes.joining
        is_filled = any(one.table.id in filled for one in plan.members(planned))
        made = _create_places(settings, planned, first, is_filled, say, changes.known.get(key))
        if key in changes.behind:
            told = "the source has another definition than where the publisher stands, which comes to that by itself"
            say(f"{planned.table.full_name}: {told}")
        created += made
        say(f"{planned.table.full_name}: {made} of {len(planned.places)} target tables created")
    return created


def _close_copies(settings: Settings, plan: Plan) -> None:
    """Nothing will be inserted by a copy: a delete that finds no row leaves nothing in the ledger."""
    for planned in plan.tables.values():
        for used in planned.databases:
            with closing(connect_database(settings, used)) as connection, explained(f"target '{used.target}'"):
                chunk_fence.retire(connection, settings.name, planned.table, [(chunk_fence.WHOLE_TABLE, 0)])


def _create_database(settings: Settings, wanted: TargetDatabase) -> None:
    name = f"target '{wanted.target}'"
    connection = connect(settings.target(wanted.target), name)
    try:
        with explained(f"{name}, database {wanted.database}"):
            exists = connection.query(
                "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (wanted.database,)
            )
            if not exists:
                connection.execute(f"CREATE DATABASE {quote(wanted.database)}")
            connection.execute(f"USE {quote(wanted.database)}")
            create_own_tables(connection)
    finally:
        connection.close()


def _create_places(
    settings: Settings, planned: PlannedTable, first: bool, filled: bool, say: Say, known: Table | None
) -> int:
    """known: what was noted of the table, if anything; where that is another definition, targets may be as either."""
    table = planned.table
    source = connect(settings.source(table.source), f"source '{table.source}'")
    try:
        with explained(f"source '{table.source}', table {table.full_name}"):
            statement, flavour = definition.show_create(source, table.database, table.name), source.flavour
    finally:
        source.close()
    created = 0
    by_database: dict[TargetDatabase, list[Place]] = {}
    for place in planned.places:
        by_database.setdefault(place.database, []).append(place)
    for target_database, places in by_database.items():
        connection = connect_database(settings, target_database)
        try:
            present = tables_in(connection)
            for place in places:
                with explained(str(place)):
                    if place.table in present:
                        _refuse_unlike(connection, planned.table, place, flavour, first, known)
                    elif filled:
                        raise PreflightError(
                            f"{place} is gone, and rows of {table.full_name} were copied into it",
                            hint="bring it back with its rows; or have the table copied anew: take it out of the"
                            " config, `migrate init`, empty its target tables, put it back, `migrate init`",
                        )
                    else:
                        for told in create_place(connection, table, place, statement, flavour):
                            say(f"{place}: the server notes: {told}")
                        created += 1
        finally:
            connection.close()
    return created


def _refuse_unlike(
    connection: Connection, table: Table, place: Place, flavour: str, first: bool, known: Table | None
) -> None:
    try:
        refuse_unlike(connection, table, place, flavour, first=first)
    except PreflightError:
        if known is None or known == table or first:
            raise
        refuse_unlike(connection, known, place, flavour, first=first)
