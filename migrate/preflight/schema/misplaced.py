"""Rows that stand at a source table where they do not belong by the sources' own rule (docs/decisions/0044)."""

from __future__ import annotations

import pymysql

from migrate.model.change import key_json
from migrate.model.errors import MigrateError
from migrate.model.message import Row
from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.preflight.limits import TOO_LONG, limited
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.shards import first, sample
from migrate.target.groups import name_of
from migrate.target.home import named
from migrate.target.routing import PlannedTable

CHECK = "misplaced"
_MEND = "move each to where it belongs, by its application; a copy or the stream stops at such a row"


def check(connection: Connection, planned: PlannedTable) -> list[Result]:
    """Count them in the whole table, as far as the server comes in its time, and name one."""
    if planned.home is None:
        return []
    subject = name_of(planned)
    rows = sample(connection, planned)
    told = [where for row in rows if (where := _elsewhere(planned, row))]
    counted_all, example = _counted(connection, planned)
    found = max(len(told), counted_all or 0)
    of = f"{counted(found, 'row')} of {'all' if counted_all is not None else f'{len(rows):,} looked at'}"
    if found:
        one = next(filter(None, [*told, example]), "it moved, or was not found in time")
        said = f"{subject}: {of} {'does' if found == 1 else 'do'} not belong there by `home`: {one}"
        return [Result(CHECK, subject, Verdict.PROBLEM, said, _MEND)]
    seen = "every row" if counted_all is not None else f"each of {counted(len(rows), 'row')} looked at"
    return [Result(CHECK, subject, Verdict.PASS, f"{subject}: {seen} belongs there by `home`")]


def _elsewhere(planned: PlannedTable, row: Row) -> str:
    """A row's key and where it belongs instead; "" for one that belongs where it is."""
    try:
        (belongs,) = planned.misplaced([row])
    except MigrateError as error:
        where = error.message
    else:
        if belongs is None:
            return ""
        where = f"belongs in {named(belongs)}"
    return f"key {key_json(tuple(str(row[name]) for name in planned.table.key))} {where}"


def _counted(connection: Connection, planned: PlannedTable) -> tuple[int | None, str]:
    """How many, and the first of them; None where no server computes the rule, and both only as far as the server comes
    in its time."""
    if (here := planned.own_rows) is None:
        return None, ""
    table, strays, count = planned.table, f"NOT COALESCE({here}, FALSE)", None
    where, arguments = and_rows(strays, [], planned.rows)
    sql = f"SELECT COUNT(*) FROM {full_name(table.database, table.name)} WHERE {where}"
    try:
        count = int((connection.one(limited(connection, sql), arguments) or (0,))[0])
        stray = first(connection, planned, strays) if count else None
    except pymysql.MySQLError as error:
        if number(error) not in TOO_LONG:
            raise
        stray = None
    return count, "" if stray is None else _elsewhere(planned, stray)
