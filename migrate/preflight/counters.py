"""AUTO_INCREMENT: ids are carried over, no server gives any while rows are brought."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict


def check(connection: Connection, tables: Sequence[tuple[str, str]]) -> list[Result]:
    """A note for each selected table whose ids the source's server gives."""
    results = []
    for schema, table in tables:
        row = connection.one(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND EXTRA LIKE %s",
            [schema, table, "%auto_increment%"],
        )
        if row is not None:
            told = f"{schema}.{table}: {row[0]} is AUTO_INCREMENT: its values are carried over as they are"
            mend = (
                "each target table counts on from its own highest one, so two would give the same: at the cutover set"
                " every counter above the source's, or have the application make ids"
            )
            results.append(Result("counters", f"{schema}.{table}", Verdict.NOTE, told, mend))
    return results
