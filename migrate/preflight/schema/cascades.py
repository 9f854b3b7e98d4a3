"""Foreign keys whose cascades the source's log does not have: which of them the stream follows, and which it cannot."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from migrate.mysql.connection import Connection
from migrate.mysql.definition import printed
from migrate.mysql.foreign_keys import ForeignKey, foreign_keys
from migrate.preflight.result import Result, Verdict

Name = tuple[str, str]
"""Database and table."""
Selected = Mapping[Name, Collection[str]]
"""Tables of a source, each with the columns that its `rows:` conditions look at."""

_TOLD = "rows that this foreign key changes by itself are in no log, and cannot be followed"
_HOW = (
    "drop the cascade, and change such child rows by statements of your own; or, where applications never delete or"
    " change the parents while the migration runs, set cutover.cascades: [{table}]; a cutover refuses otherwise"
)


def unfollowed(
    connection: Connection, tables: Selected, name: Name, mirrors: Collection[Name] = ()
) -> list[tuple[str, str]]:
    """What to say of each foreign key of a table that no marker can follow, and the way out; of a server whose log does
    not have what foreign keys change. mirrors: those of the tables that are a broadcast table's further nodes."""
    table, keys = ".".join(name), foreign_keys(printed(connection, *name), name[0])
    return [
        (f"{table}: {_TOLD}: {key.name} ({key.rules}): {why[0]}", f"{why[1]}{_HOW.format(table=table)}")
        for key in keys
        if key.cascades and (why := _why_not(connection, key, tables, name, mirrors))
    ]


def check(
    connection: Connection, tables: Selected, name: Name, *, logged: bool, mirrors: Collection[Name] = ()
) -> list[Result]:
    """A note for each foreign key of a table that cannot be followed. logged: whether the log has what they change;
    mirrors: as in `unfollowed`."""
    found = [] if logged else unfollowed(connection, tables, name, mirrors)
    if not found:
        how = "are in the log" if logged else "outside the log are followed"
        return [Result("cascades", connection.name, Verdict.PASS, f"{connection.name}: cascades {how}")]
    return [Result("cascades", ".".join(name), Verdict.NOTE, told, way) for told, way in found]


def check_outside(connection: Connection, tables: Selected) -> list[Result]:
    """A note for each table outside of the migration that changes with its rows, as far as this account may see it."""
    databases = sorted({database for database, _ in tables})
    if not databases:
        return []
    rows = connection.query(
        "SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME"
        " FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA IN"
        f" ({', '.join(['%s'] * len(databases))}) AND (DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')"
        " OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')) ORDER BY 3, 4, 5",
        databases,
    )
    results = []
    for parent_database, parent, database, child, key in rows:
        if (str(parent_database), str(parent)) in tables and (str(database), str(child)) not in tables:
            name, of = f"{database}.{child}", f"{parent_database}.{parent}"
            told = f"{name} is not in the migration, and its foreign key {key} changes rows there with those of {of}"
            results.append(Result("cascades", name, Verdict.NOTE, told, "add it to 'tables' where it is to move too"))
    return results


def _why_not(
    connection: Connection, key: ForeignKey, tables: Selected, name: Name, mirrors: Collection[Name]
) -> tuple[str, str] | None:
    """Why a foreign key cannot be followed, and what changes that."""
    parent = ".".join(key.parent)
    if key.parent not in tables:
        return f"its parent {parent} is not in the migration", f"add {parent} to 'tables'; or "
    of_mirror = key.parent in mirrors and name not in mirrors  # a mirror's rows are followed at the first node
    if (tables[key.parent] or of_mirror) and any(
        one.cascades for one in foreign_keys(printed(connection, *key.parent), key.parent[0])
    ):
        why = "its `rows:` conditions leave some of them out"
        if of_mirror:
            why = "it is a node of a broadcast table, whose rows are followed at the first node alone"
        return f"rows of {parent} go by a foreign key too, and {why}", ""
    judged = sorted({*tables[name]} & {*key.columns})
    if judged and "SET NULL" in (key.on_delete, key.on_update):
        return f"it sets {', '.join(judged)} to NULL, which the `rows:` conditions of the table look at", ""
    return None
