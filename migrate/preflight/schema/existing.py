"""The target tables that are there already: what `init` makes is as the source's table and empty, these may not be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from migrate.model.errors import MigrateError
from migrate.model.table import Table, TableId
from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server_checks import each
from migrate.target.create import refuse_unlike
from migrate.target.place_definition import keys_only_of
from migrate.target.routing import Place, Plan


@dataclass(frozen=True, slots=True)
class Existing:
    """Of one database, its physical name, and of each table in it that takes rows the place and the source table."""

    database: str
    tables: Mapping[str, tuple[Place, Table]]


def find(connection: Connection, plan: Plan, target: str) -> list[Existing]:
    """Of each database of a target that has any."""
    wanted: dict[str, dict[str, tuple[Place, Table]]] = {}
    for planned in plan.tables.values():
        for place in planned.places:
            if place.database.target == target:
                wanted.setdefault(place.database.database, {})[place.table] = place, planned.table
    found = []
    for database, tables in wanted.items():
        sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
        there = {str(row[0]) for row in connection.query(sql, [database])}
        if present := {name: table for name, table in tables.items() if name in there}:
            found.append(Existing(database, present))
    return found


def check_target(
    connection: Connection,
    plan: Plan,
    target: str,
    filled: Collection[TableId],
    kinds: Mapping[str, str],
    statements: Mapping[TableId, str],
) -> Iterator[Result]:
    """A problem for each table that init would refuse, or one line that passes; none where there are no tables yet.

    filled: source tables whose target tables may have rows; kinds: the flavour of each source; statements: the
    definitions of source tables with unique keys on parts of columns or on expressions.
    """
    there = {(one.database, name) for one in find(connection, plan, target) for name in one.tables}
    pairs = [
        (place, planned.table)
        for planned in plan.tables.values()
        for place in planned.places
        if place.database.target == target and (place.database.database, place.table) in there
    ]

    def look(pair: tuple[Place, Table]) -> list[Result]:
        place, table = pair
        try:
            kind, create = kinds[table.source], statements.get(table.id, "")
            found = refuse_unlike(connection, table, place, kind, first=table.id not in filled, create=create)
        except MigrateError as error:
            return [Result("target table", str(place), Verdict.PROBLEM, error.message, error.given)]
        return _looser(place, table, found)

    fine = True
    for one in each(connection, "target table", pairs, look, lambda pair: str(pair[0])):
        fine = False
        yield one
    if there and fine:
        told = f"{connection.name}: {counted(len(there), 'target table')} there already, as the source's"
        yield Result("target table", target, Verdict.PASS, told)


def _looser(place: Place, table: Table, there: Table) -> list[Result]:
    """A note where the target table takes rows that the source's does not: nothing is lost until the switch."""
    if not (missing := keys_only_of(table, there)):
        return []
    told = f"{place} lacks the unique keys {missing} of {table.full_name}: after the switch it accepts a value twice"
    return [Result("target table", str(place), Verdict.NOTE, told, "add them before the switch")]
