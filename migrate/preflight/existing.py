"""The target tables that are there already: what `init` makes has no foreign keys and triggers, these may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.target.plan import Place, Plan


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
