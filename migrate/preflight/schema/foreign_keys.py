"""Foreign keys: they stay behind at the source's side, and are switched off in our sessions at the target's (0009)."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.mysql import foreign_keys
from migrate.mysql.connection import Connection
from migrate.mysql.definition import printed
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.existing import Existing


def check(connection: Connection, tables: Iterable[tuple[str, str]]) -> list[Result]:
    """A note for each selected table of a source that has any."""
    results = []
    for schema, table in tables:
        if names := [key.name for key in foreign_keys.foreign_keys(printed(connection, schema, table), schema)]:
            told = f"{schema}.{table}: foreign keys are not created at the target: {', '.join(names)}"
            mend = "between tables of one shard they can be made after the switch"
            results.append(Result("foreign keys", f"{schema}.{table}", Verdict.NOTE, told, mend))
    return results


def check_target(connection: Connection, existing: Existing) -> list[Result]:
    """A note for each target table that is there, and has some or is referred to by some."""
    rows = connection.query(
        "SELECT CONSTRAINT_NAME, CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME"
        " FROM information_schema.REFERENTIAL_CONSTRAINTS"
        " WHERE CONSTRAINT_SCHEMA = %s OR UNIQUE_CONSTRAINT_SCHEMA = %s ORDER BY CONSTRAINT_NAME",
        [existing.database, existing.database],
    )
    found: dict[str, list[str]] = {}
    for name, schema, child, parent_schema, parent in rows:
        ends = {table for base, table in ((schema, child), (parent_schema, parent)) if base == existing.database}
        for table in sorted(ends & existing.tables.keys()):
            found.setdefault(table, []).append(f"{name} ({child} refers to {parent})")
    return [
        Result(
            "foreign keys",
            str(existing.tables[table][0]),
            Verdict.NOTE,
            f"{existing.tables[table][0]}: foreign keys are neither checked nor cascade for what the service writes:"
            f" {', '.join(names)}",
            "drop them and make them again after the switch, or look then for rows that they would not have let in",
        )
        for table, names in found.items()
    ]
