"""What `migrate init` reads of the sources' tables, and notes of them in the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import sqlalchemy as sa

from migrate.commands.table_changes import TableChanges
from migrate.model.table import TableId
from migrate.mysql import definition
from migrate.mysql.connection import connect
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import phase, position, schema_history
from migrate.target.changed_rule import changed_rule
from migrate.target.routing import Plan, PlannedTable


@dataclass(frozen=True, slots=True)
class Definition:
    """How a source makes a table: what its target tables are made by, and statements in its log are tried on later."""

    printed: str
    flavour: str


def read_definitions(settings: Settings, plan: Plan) -> dict[TableId, Definition]:
    """Of every table, each read once."""
    found: dict[TableId, Definition] = {}
    for name in dict.fromkeys(source for source, _, _ in plan.tables):
        with closing(connect(settings.source(name), f"source '{name}'")) as source:
            for key, planned in plan.tables.items():
                if key[0] == name:
                    with explained(f"{source.name}, table {planned.table.full_name}"):
                        printed = definition.printed(source, planned.table.database, planned.table.name)
                        found[key] = Definition(printed, source.flavour)
    return found


def store_definitions(
    connection: sa.Connection, plan: Plan, definitions: Mapping[TableId, Definition], changes: TableChanges
) -> None:
    """As the sources have the tables, where nothing of them was read under another definition."""
    name, found = plan.settings.name, []
    for key, planned in plan.tables.items():
        before = changes.known.get(key)
        if key in changes.behind or before == planned.table:
            continue
        if before is not None:  # nothing of it was read
            schema_history.forget(connection, name, key)
        found.append((planned.table, definition.whole(definitions[key].printed)))
    schema_history.add_first(connection, name, found)


def refuse_rules(connection: sa.Connection, plan: Plan, changes: TableChanges) -> None:
    """Raise ConfigError where `store_rules` would, before anything is changed."""
    _rules(connection, plan, changes, plan.tables.keys() - changes.new)


def store_rules(connection: sa.Connection, plan: Plan, changes: TableChanges) -> None:
    """Remember each table's rule once its source is being read: rows written under one rule stay where it put them."""
    name = plan.settings.name
    rules, other_bases = _rules(connection, plan, changes, plan.tables.keys())
    for planned in other_bases:
        phase.note_base(connection, name, planned.table, planned.base_hash)
    phase.put_rules(connection, name, rules)


def _rules(
    connection: sa.Connection, plan: Plan, changes: TableChanges, of: Collection[TableId]
) -> tuple[dict[TableId, tuple[phase.TablePhase, str]], list[PlannedTable]]:
    """What is to be stored of these tables: phases with their rules and bases; and of which the base alone."""
    name = plan.settings.name
    first, stages = schema_history.first(connection, name), phase.stages(connection, name)
    bases, read = phase.base_hashes(connection, name), set(position.sources(connection, name))
    rules: dict[TableId, tuple[phase.TablePhase, str]] = {}
    other_bases: list[PlannedTable] = []
    for key, now in plan.tables.items():
        if key not in of:
            continue
        planned = replace(now, first=first.get(key))
        before = stages.get(key, phase.UNKNOWN)
        unread = key[0] not in read or key in changes.waiting
        if unread or not before.rule_hash or key in changes.conditions:
            rules[key] = replace(before, rule_hash=planned.rule_hash), planned.base_hash
        elif before.rule_hash != planned.rule_hash:
            raise changed_rule(planned, before.rule_hash)
        elif bases.get(key) != planned.base_hash:
            other_bases.append(planned)
    return rules, other_bases
