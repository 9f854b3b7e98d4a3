"""Changed row conditions (`tables[].rows`) are taken over by `migrate init`: by everyone stopped, and all drained.

The publisher goes on by the new conditions from its stored position. Rows at the target that do not meet them are
deleted here; rows that meet them now and did not before come with the copy, which is due again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from functools import partial

import sqlalchemy as sa

from migrate.commands import repartition
from migrate.model.errors import PreflightError
from migrate.model.table import TableId
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained
from migrate.mysql.quoting import quote
from migrate.mysql.readable import readable_end
from migrate.mysql.rowfilter import and_rows
from migrate.settings import Settings
from migrate.state import chunks, phase, position, schema_history
from migrate.state import migration as migrations
from migrate.target import chunk_fence, ledger, non_strict
from migrate.target.pool import connect_database
from migrate.target.routing import Plan, PlannedTable

_CHANGING = "changing"  # in place of a rule's hash: every command refuses until an init has ended
_BATCH = 5000


def changed(connection: sa.Connection, plan: Plan) -> set[TableId]:
    """Tables whose source is being read, and whose conditions alone are not those that were noted."""
    name = plan.settings.name
    first = schema_history.first(connection, name)
    hashes, bases = phase.rule_hashes(connection, name), phase.base_hashes(connection, name)
    found = set()
    for id_, now in plan.tables.items():
        planned = replace(now, first=first.get(id_))
        if hashes.get(id_, planned.rule_hash) == planned.rule_hash or bases.get(id_) != planned.base_hash:
            continue
        if position.load(connection, name, id_[0]) is not None:
            found.add(id_)
    return found


def take_over(
    settings: Settings, state: sa.Engine, plan: Plan, ids: Collection[TableId], say: Callable[[str], None]
) -> None:
    """Make state and targets fit the new conditions; the caller holds every lease, and notes the new rule afterwards.

    Killed half-way, every command refuses, and the next init does it again. Raises PreflightError when anything that
    was published waits, or may be sent again: by the new conditions it would be other rows with the same coordinates.
    """
    if not ids:
        return
    with state.connect() as connection:
        known = migrations.get(connection, settings.name)
    repartition.refuse_unless_drained(settings, state, known, plan)
    for source in sorted({source for source, _, _ in ids}):
        _wait_until_readable(settings, state, source, [id_[1:] for id_ in ids if id_[0] == source])
    with state.begin() as connection:
        for id_ in ids:
            phase.reset(connection, settings.name, plan.tables[id_].table, _CHANGING)
            chunks.void(connection, settings.name, plan.tables[id_].table)
    for id_ in sorted(ids):
        planned = plan.tables[id_]
        deleted = sum(_fit(settings, planned, number) for number in range(len(planned.databases)))
        say(
            f"{planned.table.full_name}: its row conditions changed: {deleted} rows that do not meet them are deleted"
            " at the target; `migrate copy` brings those that meet them now"
        )


def _wait_until_readable(settings: Settings, state: sa.Engine, source: str, tables: list[tuple[str, str]]) -> None:
    """Until the copy can read what the publisher passed over by the old conditions (invariant capture-before-copy)."""
    found = position.where_read(state, settings).source(source)
    if not found.server:
        raise PreflightError(f"the publisher of source '{source}' never ran")
    with closing(connect(found, f"source '{source}'")) as server, explained(f"source '{source}'"):
        readable_end(server, tables, threading.Event())


def _fit(settings: Settings, planned: PlannedTable, number: int) -> int:
    """In one target database: no earlier copy may write, and rows that do not meet the conditions go. What the ledger
    has of deletes is of rows that left by the old ones, and may meet those of today."""
    database = planned.databases[number]
    deleted = 0
    with closing(connect_database(settings, database)) as target, explained(f"target '{database.target}'"):
        with target.transaction():
            chunk_fence.supersede(target, settings.name, planned.table)
            if planned.noted_as is planned.table:  # of a group there are other tables' too
                ledger.forget(target, settings.name, planned.table.id)
        for place in planned.places:
            if place.database == database:
                deleted += delete_others(target, settings.name, planned, place.table)
    return deleted


def delete_others(target: Connection, migration: str, planned: PlannedTable, place: str) -> int:
    """Delete the rows of a place that do not meet the table's conditions; returns how many. Raises the driver's error.

    Fenced: the stream the other way would take the deletes for an application's, and carry them to the source."""
    if planned.rows is None:
        return 0
    meets, values = and_rows("TRUE", [], planned.rows)
    statement = f"DELETE FROM {quote(place)} WHERE NOT COALESCE(({meets}), FALSE) LIMIT {_BATCH}"
    deleted, count = 0, 1
    while count:
        with target.transaction():
            chunk_fence.touch(target, migration, planned.table)
            count = non_strict.delete(target, planned.table, partial(target.execute, statement, values), _BATCH)
        deleted += count
    return deleted
