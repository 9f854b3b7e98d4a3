"""Generated columns that look at the session cannot be computed again at a target: they are refused by name."""

from __future__ import annotations

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.generated import dependent, expressions, unique_keys
from migrate.preflight.result import Result, Verdict


def check(connection: Connection, table: Table) -> list[Result]:
    """A problem for each column whose value is kept, in the row or in a key, and for each unique key on an expression,
    that depends on who writes the row."""
    keys = unique_keys(connection, table)
    generated = {column.name for column in table.columns if column.generated}
    if not generated and not keys:
        return []
    found = expressions(connection, table) if generated else []
    kept = _indexed(connection, table)
    judged = [one for one in found if one.stored or one.column in kept]
    unread = sorted(generated - {one.column for one in found})
    place = table.full_name
    results = [
        Result("generated", place, Verdict.UNKNOWN, f"{place}: what {name} is generated from is not read")
        for name in unread
    ]
    results += [
        _problem(
            table,
            f"generated column {column} depends on the session that writes the row ({', '.join(names)}); the target"
            " would compute another value than the source has stored",
            f"make {column} a plain column at the source, which keeps the values (ALTER TABLE … MODIFY COLUMN), or"
            " compute it from what no session changes, as a DATETIME instead of a TIMESTAMP",
        )
        for column, names in dependent(connection, table, judged).items()
    ]
    return results + [
        _problem(
            table,
            f"unique key {name} depends on the session that writes the row ({', '.join(names)}); two rows of the source"
            " could have one value at the target",
            f"drop {name} at the source, or make it of what no session changes, as a DATETIME instead of a TIMESTAMP",
        )
        for name, names in dependent(connection, table, keys).items()
    ]


def _problem(table: Table, why: str, hint: str) -> Result:
    return Result("generated", table.full_name, Verdict.PROBLEM, f"{table.full_name}: {why}", hint)


def _indexed(connection: Connection, table: Table) -> set[str]:
    rows = connection.query(
        "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    return {str(row[0]) for row in rows}
