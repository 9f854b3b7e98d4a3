"""A source of one flavour and a target of the other: what the target cannot have as it is, named before it is met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pymysql

from migrate.model.table import Column, Table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.mysql.flavours import collation_on, only_here, sorts_alike
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.existing import Existing
from migrate.target.routing import Plan, PlannedTable

_NO_CHARSET = 1115
_UNKNOWN = frozenset({_NO_CHARSET, 1253, 1273})
"""No such character set, no such collation of it, no such collation."""


def check_target(
    connection: Connection, plan: Plan, target: str, flavours: Mapping[str, str], existing: Sequence[Existing]
) -> list[Result]:
    """flavours: of the sources. existing: the target tables that are there; what they lack is told by `existing`."""
    there = {(one.database, name) for one in existing for name in one.tables}
    found: list[Result] = []
    for planned in plan.tables.values():
        source = flavours[planned.table.source]
        places = [place for place in planned.places if place.database.target == target]
        if source == connection.flavour or not places:
            continue
        found += _problems(planned.table, connection.flavour)
        if any((place.database.database, place.table) not in there for place in places):
            found += _missing(connection, planned, source)
    return found


def _problems(table: Table, target: str) -> Iterator[Result]:
    for column in table.key_columns:
        if not sorts_alike(column):
            told = f"{table.full_name}: {column.titled} is part of the key, and {target} would sort it differently"
            mend = "name another unique key in tables[].key; a key of the table that is CHAR or BINARY will do"
            yield Result("flavour", table.full_name, Verdict.PROBLEM, told, mend)


def _missing(connection: Connection, planned: PlannedTable, source: str) -> Iterator[Result]:
    """What a table would have that the target has not, and what it gets instead."""
    table, target = planned.table, connection.flavour
    by_hand = "create its target tables by hand, with"
    for column in table.columns:
        if instead := only_here(column, source):
            told = f"{table.full_name}: column {column.name} is {column.shown_type}, which {target} does not have"
            yield Result("flavour", table.full_name, Verdict.PROBLEM, told, f"{by_hand} {column.name} {instead}")
        elif column.charset and (code := _refused(connection, column)):
            told = f"{table.full_name}: column {column.name} is in {column.collation}, which {target} does not have"
            mend = f"{by_hand} {column.name} in another collation of {column.charset}"
            if code == _NO_CHARSET:
                mend = f"{target} has no character set {column.charset}: give {column.name} utf8mb4 at the source"
            yield Result("flavour", table.full_name, Verdict.PROBLEM, told, mend)
    others = {
        str(column.collation): collation_on(target, column.collation) for column in table.columns if column.charset
    }
    if changed := [f"{theirs} for {mine}" for mine, theirs in others.items() if mine != theirs]:
        told = f"{table.full_name}: collations that {target} does not have: it gets {', '.join(changed)}"
        yield Result("flavour", table.full_name, Verdict.NOTE, told)


def _refused(connection: Connection, column: Column) -> int:
    """The error by which the target lacks a column's character set, or its collation's counterpart; 0 when it has both.

    Names are the catalog's.
    """
    try:
        connection.query(
            f"SELECT CONVERT('' USING {column.charset}) COLLATE {collation_on(connection.flavour, column.collation)}"
        )
    except pymysql.MySQLError as error:
        if number(error) not in _UNKNOWN:
            raise
        return number(error)
    return 0
