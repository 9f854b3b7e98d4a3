"""Generated columns, keys and checks that look at the session come out otherwise at a target: they are refused."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create_whole
from migrate.mysql.generated import Expression, checks, dependent, expressions, unique_keys
from migrate.preflight.result import Result, Verdict

_STABLE = "what no session changes, as a DATETIME instead of a TIMESTAMP"


def check(connection: Connection, table: Table) -> list[Result]:
    """A problem for each column whose value is kept, in the row or in a key, and for each unique key on an expression
    and each CHECK, that depends on who writes the row."""
    statement = show_create_whole(connection, table.database, table.name)
    generated = {column.name for column in table.columns if column.generated}
    found = expressions(statement, table) if generated else []
    kept = _indexed(connection, table) if generated else set()
    place = table.full_name
    unread = [
        Result("generated", place, Verdict.UNKNOWN, f"{place}: what {name} is generated from is not read")
        for name in sorted(generated - {one.column for one in found})
    ]
    return [
        *unread,
        *_dependent(
            connection,
            table,
            [one for one in found if one.stored or one.column in kept],
            "generated column {}",
            "the target would compute another value than the source has stored",
            "make {} a plain column at the source, which keeps the values (ALTER TABLE … MODIFY COLUMN), or compute it"
            f" from {_STABLE}",
        ),
        *_dependent(
            connection,
            table,
            unique_keys(connection, table),
            "unique key {}",
            "two rows of the source could have one value at the target",
            f"drop {{}} at the source, or make it of {_STABLE}",
        ),
        *_dependent(
            connection,
            table,
            checks(statement),
            "check {}",
            "the target would refuse rows that the source took",
            f"drop {{}} at the source, or make it of {_STABLE}",
        ),
    ]


def _dependent(
    connection: Connection, table: Table, of: Sequence[Expression], titled: str, effect: str, mend: str
) -> list[Result]:
    """titled, mend: with {} for the name."""
    return [
        Result(
            "generated",
            table.full_name,
            Verdict.PROBLEM,
            f"{table.full_name}: {titled.format(name)} depends on the session that writes the row ({', '.join(names)});"
            f" {effect}",
            mend.format(name),
        )
        for name, names in (dependent(connection, table, of) if of else {}).items()
    ]


def _indexed(connection: Connection, table: Table) -> set[str]:
    rows = connection.query(
        "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    return {str(row[0]) for row in rows}
