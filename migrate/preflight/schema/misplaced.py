"""Rows that stand at a source table where they do not belong by the sources' own rule (docs/decisions/0044)."""

from __future__ import annotations

import pymysql

from migrate.model.change import key_json
from migrate.model.errors import MigrateError
from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.preflight.limits import TOO_LONG, limited
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.shards import sample
from migrate.target.groups import name_of
from migrate.target.home import named
from migrate.target.routing import PlannedTable

CHECK = "misplaced"
_MEND = "move each to where it belongs, by its application; a copy or the stream stops at such a row"


def check(connection: Connection, planned: PlannedTable) -> list[Result]:
    """Count them in the whole table, as far as the server comes in its time, and name one from its ends."""
    if planned.home is None:
        return []
    subject = name_of(planned)
    rows = sample(connection, planned)
    strays, first = 0, ""
    for row in rows:
        try:
            (belongs,) = planned.misplaced([row])
        except MigrateError as error:
            belongs, where = None, error.message
        else:
            where = "" if belongs is None else f"belongs in {named(belongs)}"
        if where:
            strays += 1
            first = first or f"key {key_json(tuple(str(row[name]) for name in planned.table.key))} {where}"
    counted_all = _count(connection, planned)
    found = max(strays, counted_all or 0)
    told = f"{subject}: {counted(found, 'row')} of {'all' if counted_all is not None else f'{len(rows):,} looked at'}"
    if found:
        example = f": {first}" if first else ", not among the first and last by key"
        told += f" {'does' if found == 1 else 'do'} not belong there by `home`{example}"
        return [Result(CHECK, subject, Verdict.PROBLEM, told, _MEND)]
    seen = "every row" if counted_all is not None else f"each of {counted(len(rows), 'row')} looked at"
    return [Result(CHECK, subject, Verdict.PASS, f"{subject}: {seen} belongs there by `home`")]


def _count(connection: Connection, planned: PlannedTable) -> int | None:
    """None where no server computes the rule, or not within its time."""
    if (here := planned.own_rows) is None:
        return None
    table = planned.table
    where, arguments = and_rows(f"NOT COALESCE({here}, FALSE)", [], planned.rows)
    sql = f"SELECT COUNT(*) FROM {full_name(table.database, table.name)} WHERE {where}"
    try:
        row = connection.one(limited(connection, sql), arguments)
    except pymysql.MySQLError as error:
        if number(error) not in TOO_LONG:
            raise
        return None
    return int(row[0]) if row is not None else None
