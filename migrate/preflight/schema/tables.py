"""The selected tables: there, InnoDB, with a usable key and known types."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.model.errors import MigrateError
from migrate.model.table import Kind, Table
from migrate.mysql import periods
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings, TableSettings
from migrate.settings.tables import is_pattern, like


def unmatched(settings: Settings, source: str, chosen: Sequence[TableSettings]) -> list[Result]:
    """The patterns that take no table of the source."""
    names = [(table.database, table.table) for table in chosen]
    return [
        Result(
            "table",
            pattern.name,
            Verdict.PROBLEM,
            f"source '{source}' has no table like {pattern.name}",
            "fix the pattern; * stands for any letters, ? for one",
        )
        for pattern in settings.tables
        if pattern.is_pattern and settings.source_of(pattern) == source
        if not any(pattern.matches(*name) for name in names)
    ]


def unmatched_topics(settings: Settings, chosen: Sequence[TableSettings]) -> list[Result]:
    """The names and patterns under kafka.topics that take no table of the migration.

    A pattern may wait for tables that come later; a name that fits nothing is mistyped.
    """
    return [
        Result(
            "table",
            pattern,
            Verdict.NOTE if is_pattern(pattern) else Verdict.PROBLEM,
            f"kafka.topics: {pattern}, for topic {topic}, matches no table of the migration",
            "fix it: write database.table; * stands for any letters, ? for one",
        )
        for topic, patterns in settings.kafka.topics.items()
        for pattern in patterns
        if not any(like(pattern, table.name) for table in chosen)
    ]


def check(connection: Connection, source: str, wanted: TableSettings) -> tuple[Table | None, list[Result]]:
    """The table as the catalog has it, and what was found about it."""
    try:
        table = load_table(connection, source, wanted.database, wanted.table, wanted.key)
    except MigrateError as error:
        return None, [Result("table", wanted.name, Verdict.PROBLEM, error.message, error.given)]
    if key := _without_overlaps(connection, table):
        told = f"{wanted.name}: {key} {periods.WHY}"
        mend = "drop the key at the source, or leave the table out"
        return None, [Result("table", wanted.name, Verdict.PROBLEM, told, mend)]
    if documents := _unread_documents(connection, table):
        told = f"{wanted.name}: this server cannot tell the types inside of JSON documents ({', '.join(documents)})"
        mend = "a source of MySQL 8.0.4 or later can; or leave the table out"
        return None, [Result("table", wanted.name, Verdict.PROBLEM, told, mend)]
    if not table.one_partition:
        return table, [Result("table", wanted.name, Verdict.PASS, f"{wanted.name}: key ({', '.join(table.key)})")]
    why = "further unique keys" if table.key_is_exact else "a key that only the server can compare"
    message = f"{wanted.name}: key ({', '.join(table.key)}); with {why} all its changes travel in one partition"
    return table, [Result("table", wanted.name, Verdict.NOTE, message)]


def _unread_documents(connection: Connection, table: Table) -> list[str]:
    """Binary JSON columns of a server that has no JSON_TABLE, by which the copy reads them."""
    if connection.flavour != "mysql" or can(connection, Capability.JSON_TABLE):
        return []
    return [column.name for column in table.stored if column.kind is Kind.JSON]


def _without_overlaps(connection: Connection, table: Table) -> str:
    """A key WITHOUT OVERLAPS, as it is defined; "" for none."""
    if connection.flavour != "mariadb" or not periods.may_be_exclusive(table):
        return ""
    return next(iter(periods.exclusive(show_create(connection, table.database, table.name))), "")
