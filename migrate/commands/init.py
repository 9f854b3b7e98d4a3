"""`migrate init`: state, topics, target tables. Running it again changes nothing that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from migrate.commands import delayed_deletes, group_changes, row_filter_changes
from migrate.commands.source_definitions import (
    Definition,
    read_definitions,
    refuse_rules,
    store_definitions,
    store_rules,
)
from migrate.commands.table_changes import TableChanges
from migrate.config_text import masked
from migrate.kafka import admin
from migrate.model.errors import MigrateError, PreflightError
from migrate.model.table import Table, TableId
from migrate.model.words import counted
from migrate.mysql import definition
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.mysql.quoting import quote
from migrate.preflight import run as preflight
from migrate.preflight.topics import stale_topics
from migrate.settings import Settings
from migrate.state import compared, database, leading, phase, since_verification, switch
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.state.switch import Side
from migrate.target import chunk_fence, filled, roles
from migrate.target.create import create_own_tables, create_place, refuse_unlike, tables_in
from migrate.target.lanes import Lanes
from migrate.target.pool import TargetPool
from migrate.target.roles import NotedRole, Role
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase

Say = Callable[[str], None]
_SIDE_BY_SIDE = 4
"""Databases of a server in which tables are made at a time."""


@dataclass(frozen=True, slots=True)
class Initialised:
    migration: migrations.Migration
    tables_created: int
    topics_created: int


def initialise(
    settings: Settings, config: str = "", say: Say = lambda _line: None, *, reverse_of: str = ""
) -> Initialised:
    """Prepare a migration. reverse_of: the one whose reverse stream it is: its target has the rows, and no copy is due.

    1. preflight; 2. the state database, and the one that statements are tried in; 3. the topics; 4. the target
    databases, the service's tables in them, and the physical tables from the source's own definition; 5. the
    migration's row and the tables' definitions.
    Raises: PreflightError, ConfigError, ServerError.
    """
    report = preflight.run(settings, reverse=bool(reverse_of))
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
            changes = TableChanges.find(connection, plan)
            phases = phase.stages(connection, settings.name)
            group_changes.refuse_changes(connection, plan, changes)
            refuse_rules(connection, plan, changes)  # before anything goes that a table needs as long as it is a member
            _refuse_behind(connection, settings, changes, reverse_of)
        if not changes.known:
            stale_topics.refuse(settings)
        changes.stand_in(settings, state, until)
        group_changes.refuse_early(settings, state, plan, changes)
        filled = {id_ for id_, one in phases.items() if one.phase is not phase.Phase.CREATED} - changes.new
        if reverse_of:
            filled = set(plan.tables)
        definitions = read_definitions(settings, plan)
        with _resumable(say):
            created = _create_targets(settings, plan, changes, filled, say, definitions)
            _make_roles(settings, plan, state, changes, reverse_of)
        changes.clear_targets(plan)
        if reverse_of:
            _close_copies(settings, plan, phases)
        row_filter_changes.take_over(settings, state, plan, changes.conditions, say)
        found = [admin.require(settings.kafka, name, admin.NEW) for name in settings.topics]
        there = tuple(migrations.Topic(topic.name, topic.id, topic.partitions) for topic in found)
        migration = migrations.Migration(settings.name, there)
        with state.begin() as connection:
            _hold(connection, settings, changes, reverse_of)
            since_verification.fill(connection)
            migrations.create(connection, migration, masked(config))
            changes.note(connection, plan, say)
            store_definitions(connection, plan, definitions, changes)
            store_rules(connection, plan, changes)
            if reverse_of:
                migrations.note_reverse(connection, settings.name, reverse_of)
                for planned in plan.tables.values():
                    done = replace(phase.get(connection, settings.name, planned.table), phase=phase.Phase.COPIED)
                    phase.put(connection, settings.name, planned.table, done)
            else:
                switch.make(connection, settings.name)
            migrations.ask_retry(connection, settings.name)  # what is stopped may be so for what this made anew
        if changes.known and (sent := delayed_deletes.send_again(settings, state, plan, migration)):
            say(f"{counted(sent, 'delayed delete')} that the ledgers wait for sent again")
        return Initialised(migration, created, topics)


@contextmanager
def _resumable(say: Say) -> Iterator[None]:
    """Each thing is made where it is absent, and nothing uses it before the migration's row is there, at the end."""
    try:
        yield
    except MigrateError:
        say("what was made until here stays; once the cause is fixed, `migrate init` continues from there")
        raise


def _hold(connection: sa.Connection, settings: Settings, changes: TableChanges, reverse_of: str) -> None:
    """Nobody switches until the transaction ends, and what was asked at the beginning is so yet: a cutover may have
    come and gone since. Raises PreflightError."""
    leading.hold(connection, reverse_of or settings.name)
    leading.refuse_in_cutover(connection, reverse_of or settings.name)
    _refuse_behind(connection, settings, changes, reverse_of)


def _refuse_behind(connection: sa.Connection, settings: Settings, changes: TableChanges, reverse_of: str) -> None:
    """Raise PreflightError where rows at the targets would go, or come from the sources, by this; or stay there alone,
    as the reverse stream no longer carries what applications write to a table."""
    if reverse_of or not changes.known or leading.leads(connection, settings.name):
        return
    if changes.new or changes.gone or changes.conditions:
        raise PreflightError(
            "tables are added or taken out, or their row conditions changed, and applications are at the targets",
            hint="restore that part of the config; change it after `migrate rollback`",
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


# -- targets


def _create_targets(
    settings: Settings,
    plan: Plan,
    changes: TableChanges,
    filled: Collection[TableId],
    say: Say,
    definitions: Mapping[TableId, Definition],
) -> int:
    """The databases of a server side by side: a server takes longer to answer than to make a table.

    filled: the tables whose rows are, or may be, at the target already.
    """
    _refuse_back(plan, changes)
    made: Counter[TableId] = Counter()
    wanted: dict[TargetDatabase, list[tuple[_Wanted, Place]]] = {used: [] for used in plan.used_databases}
    for key, planned in plan.tables.items():
        new, is_filled = _is_new(key, changes, filled), _is_filled(plan, planned, filled)
        one = _Wanted(key, planned, definitions[key], new, is_filled)
        for place in planned.places:
            wanted[place.database].append((one, place))
    for target in dict.fromkeys(one.target for one in plan.used_databases):
        here = [one for one in plan.used_databases if one.target == target]
        lanes = Lanes(settings, min(len(here), _SIDE_BY_SIDE, settings.connections.per_server))
        with closing(connect(settings.target(target), f"target '{target}'")) as connection:
            _create_databases(connection, here)
        with closing(lanes):
            futures = [
                lanes.submit(partial(_create_here, name=settings.name, used=used, wanted=wanted[used], changes=changes))
                for used in here
            ]
            wait(futures)
            for counts, notes in (future.result() for future in futures if future.exception() is None):
                made += counts
                for told in notes:
                    say(told)
            if failed := next((future for future in futures if future.exception() is not None), None):
                failed.result()  # raises
    for key, planned in plan.tables.items():
        if key in changes.behind:
            told = "the source's definition is newer than the publisher's position; the publisher follows by itself"
            say(f"{planned.table.full_name}: {told}")
        say(f"{planned.table.full_name}: {made[key]} of {len(planned.places)} target tables created")
    return made.total()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A table, and what init goes by where its places are there already, or not."""

    key: TableId
    planned: PlannedTable
    how: Definition
    first: bool
    filled: bool


def _is_new(key: TableId, changes: TableChanges, filled: Collection[TableId]) -> bool:
    return key in changes.new.difference(filled) and key not in changes.joining


def _is_filled(plan: Plan, planned: PlannedTable, filled: Collection[TableId]) -> bool:
    return any(one.table.id in filled for one in plan.members(planned))


def _refuse_back(plan: Plan, changes: TableChanges) -> None:
    for key in changes.back & changes.joining:
        planned = plan.tables[key]
        raise PreflightError(
            f"{planned.table.full_name} was taken out, and group '{planned.group}' has other tables now",
            hint="take the whole group out of the config, `migrate init`, empty its target tables, put all of it"
            " back at once, `migrate init`",
        )


def _make_roles(settings: Settings, plan: Plan, state: sa.Engine, changes: TableChanges, reverse_of: str) -> None:
    """Each database has the role that the state gives its side. Nobody switches meanwhile.

    Raises: StopError where a database is ahead of the state; PreflightError.
    """
    with closing(TargetPool(settings)) as pool:
        wanted = list(plan.used_databases)
        for _ in range(2):  # what one lost of a switch is noted at first
            with state.begin() as connection:
                _hold(connection, settings, changes, reverse_of)
                now = switch.get(connection, reverse_of or settings.name)
                role = Role.STANDBY if now.side is (Side.TARGET if reverse_of else Side.SOURCE) else Role.ACTIVE
                held = NotedRole(role, now.version)
                wanted = [one for one in wanted if not _has_role(settings, connection, pool, one, held)]


def _has_role(
    settings: Settings, state: sa.Connection, pool: TargetPool, used: TargetDatabase, held: NotedRole
) -> bool:
    with explained(f"target '{used.target}', database {used.database}"):
        there = pool.get(used)
        if roles.make(there, settings.name, held.role, held.version) and leading.frozen(state, settings.name):
            # It is new, or came back from before its first one.
            compared.forget(state, settings.name, Because.ROLE, used.database)
        return roles.set_to(state, there, settings.name, (used.target, used.database), held)


def _close_copies(settings: Settings, plan: Plan, phases: Mapping[TableId, phase.TablePhase]) -> None:
    """Nothing will be inserted by a copy: a delete that finds no row leaves nothing in the ledger."""
    with closing(TargetPool(settings)) as pool:
        for planned in plan.tables.values():
            for used in planned.databases:
                with explained(f"target '{used.target}'"):
                    run = phases[planned.table.id].attempt if planned.table.id in phases else 0
                    whole = [(chunk_fence.WHOLE_TABLE, max(run - 1, 0))]  # a table that was taken out has had one
                    chunk_fence.retire(pool.get(used), settings.name, planned.table, whole)


def _create_databases(connection: Connection, wanted: Sequence[TargetDatabase]) -> None:
    """Those of one server."""
    with explained(connection.name):
        there = {str(row[0]) for row in connection.query("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")}
        for one in wanted:
            if one.database not in there:
                connection.execute(f"CREATE DATABASE {quote(one.database)}")


def _create_here(
    pool: TargetPool, name: str, used: TargetDatabase, wanted: Sequence[tuple[_Wanted, Place]], changes: TableChanges
) -> tuple[Counter[TableId], list[str]]:
    """The service's tables in one database, and every place in it. Returns how many places of each table were made, and
    what the server notes of them."""
    made: Counter[TableId] = Counter()
    notes: list[str] = []
    connection = pool.get(used)
    with explained(f"{connection.name}, database {used.database}"):
        create_own_tables(connection)
        filled.note(connection, name, {place.table: filled.empties(name, one.planned) for one, place in wanted})
        present = tables_in(connection)
    for one, place in wanted:
        with explained(str(place)):
            if place.table in present:
                known = changes.known.get(one.key)
                _refuse_unlike(connection, one, place, known)
            elif one.filled:
                raise PreflightError(
                    f"{place} is gone, and rows of {one.planned.table.full_name} were copied into it",
                    hint="bring it back with its rows; or have the table copied anew: take it out of the"
                    " config, `migrate init`, empty its target tables, put it back, `migrate init`",
                )
            else:
                statement, flavour = definition.strip(one.how.printed), one.how.flavour
                told = create_place(connection, one.planned.table, place, statement, flavour)
                notes += [f"{place}: the server notes: {line}" for line in told]
                present.add(place.table)
                made[one.key] += 1
    return made, notes


def _refuse_unlike(connection: Connection, one: _Wanted, place: Place, known: Table | None) -> None:
    table, flavour, first = one.planned.table, one.how.flavour, one.first
    try:
        refuse_unlike(connection, table, place, flavour, first=first, create=definition.strip(one.how.printed))
    except PreflightError:
        if known is None or known == table or first:
            raise
        refuse_unlike(connection, known, place, flavour, first=first)
