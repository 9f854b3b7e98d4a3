"""Generated columns that look at the session cannot be computed again at a target: they are refused by name."""

from __future__ import annotations

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.generated import dependent, expressions
from migrate.preflight.result import Result, Verdict


def check(connection: Connection, table: Table) -> list[Result]:
    """A problem for each column whose value is kept, in the row or in a key, and depends on who writes the row."""
    if not any(column.generated for column in table.columns):
        return []
    found = expressions(connection, table)
    kept = _indexed(connection, table)
    judged = [one for one in found if one.stored or one.column in kept]
    return [
        Result(
            "generated",
            table.full_name,
            Verdict.PROBLEM,
            f"{table.full_name}: generated column {column} depends on the session that writes the row"
            f" ({', '.join(names)}); the target would compute another value than the source has stored",
            f"make {column} a plain column at the source, which keeps the values (ALTER TABLE … MODIFY COLUMN), or"
            " compute it from what no session changes, as a DATETIME instead of a TIMESTAMP",
        )
        for column, names in dependent(connection, table, judged).items()
    ]


def _indexed(connection: Connection, table: Table) -> set[str]:
    rows = connection.query(
        "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    return {str(row[0]) for row in rows}
