"""Which tables of a target database each stream fills, and whose rows a TRUNCATE that is brought to one would take.

`migrate init` notes its own. What empties a table asks for the others before: at preflight, at init, and once more
before each TRUNCATE, as another migration may have begun since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pymysql

from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, UNKNOWN_DATABASE, number
from migrate.mysql.quoting import printed_table
from migrate.mysql.quoting import table as quoted_table
from migrate.state.migration import REVERSE
from migrate.target.roles import ROLE
from migrate.target.routing import PlannedTable, TargetDatabase

FILLED = "_migrate_filled"
_NONE_YET = frozenset({NO_SUCH_TABLE, UNKNOWN_DATABASE})


class SharedTable(NamedTuple):
    """A target table that would lose rows of another migration: the sentence, and the way out."""

    place: str
    told: str
    mend: str


def note(connection: Connection, migration: str, tables: Mapping[str, bool]) -> None:
    """Write down what a stream fills in the session's database, by name with whether a TRUNCATE at the source empties
    it; what was noted before goes. Raises the driver's error."""
    sql = f"SELECT place, empties FROM {FILLED} WHERE migration = %s"
    if {str(place): bool(empties) for place, empties in connection.query(sql, [migration])} == tables:
        return
    with connection.transaction():
        connection.execute(f"DELETE FROM {FILLED} WHERE migration = %s", [migration])
        for place, empties in sorted(tables.items()):
            connection.execute(f"INSERT INTO {FILLED} VALUES (%s, %s, %s)", [migration, place, empties])


def filled_by(connection: Connection, database: str) -> dict[str, list[str]]:
    """The tables of a database that each stream fills, by the stream's name; none of one whose `migrate init`, of an
    earlier program, noted none. Empty where no migration writes to the database. Raises the driver's error."""
    found: dict[str, list[str]] = {}
    there = connection.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN (%s, %s)",
        [database, ROLE, FILLED],
    )  # an account that may not read a table that is not there would be refused for it
    if (ROLE,) in there:
        found = {
            str(name): [] for (name,) in _rows(connection, f"SELECT migration FROM {quoted_table(database, ROLE)}")
        }
    if (FILLED,) in there:
        for name, place in _rows(connection, f"SELECT migration, place FROM {quoted_table(database, FILLED)}"):
            found.setdefault(str(name), []).append(str(place))
    return found


def empties(migration: str, planned: PlannedTable) -> bool:
    """Whether a stream brings a TRUNCATE of a source table to its target tables: the reverse stream never does."""
    return planned.ddl.truncate == "apply" and not migration.endswith(REVERSE)


def shared(
    connection: Connection, migration: str, used: TargetDatabase, tables: Iterable[PlannedTable]
) -> Iterator[SharedTable]:
    """Each table of a database that a TRUNCATE would empty of rows of another migration, by what either of them brings.

    tables: of the migration. Raises the driver's error.
    """
    others = _others(connection, migration, used)
    untold = _untold(connection, migration, used, {other for some in others.values() for other in some})
    for planned in tables:
        own = empties(migration, planned)
        by_us = f"`ddl: {{truncate: apply}}` of {planned.table.full_name} would empty it"
        for place in (one for one in planned.places if one.database == used):
            for other, theirs in others.get(place.table, {}).items():
                too = f"{place} is filled by migration '{other}' too"
                if own:
                    told, out = f"{too}, and {by_us}", "take `truncate: apply` out"
                elif theirs:
                    told, out = f"{too}, whose `ddl: {{truncate: apply}}` would empty it", _AT_THE_OTHER
                else:
                    continue
                yield SharedTable(str(place), told, f"{out}, or {_APART}; {_over(used, FILLED, other)}")
            for other in untold if own else ():
                told = f"{place} may be filled by migration '{other}' too, of which no tables are noted, and {by_us}"
                out = f"run `migrate init` of '{other}' once more, or take `truncate: apply` out"
                yield SharedTable(str(place), told, f"{out}; {_over(used, ROLE, other)}")


_APART = "give each migration target tables of its own"
_AT_THE_OTHER = "take `truncate: apply` out there and run its `migrate init`"


def _over(used: TargetDatabase, table: str, other: str) -> str:
    named = printed_table(used.database, table)
    return f"where that one is over: DELETE FROM {named} WHERE migration = '{other}'"


def _others(connection: Connection, migration: str, used: TargetDatabase) -> dict[str, dict[str, bool]]:
    """By table the other migrations that fill it, and whether they bring a TRUNCATE to it."""
    found: dict[str, dict[str, bool]] = {}
    sql = f"SELECT migration, place, empties FROM {quoted_table(used.database, FILLED)} ORDER BY migration"
    for other, place, theirs in _rows(connection, sql):
        if not _is_one(str(other), migration):
            found.setdefault(str(place), {})[str(other)] = bool(theirs)
    return found


def _untold(connection: Connection, migration: str, used: TargetDatabase, told: set[str]) -> list[str]:
    """Other migrations that write in the database and have no table noted: an earlier program's `init` made them."""
    rows = _rows(connection, f"SELECT migration FROM {quoted_table(used.database, ROLE)} ORDER BY migration")
    return [str(other) for (other,) in rows if other not in told and not _is_one(str(other), migration)]


def _rows(connection: Connection, sql: str) -> list[tuple[object, ...]]:
    """None where `migrate init` has not made the table."""
    try:
        return connection.query(sql)
    except pymysql.MySQLError as error:
        if number(error) not in _NONE_YET:
            raise
        return []


def _is_one(one: str, other: str) -> bool:
    """Whether two streams are of one migration."""
    return one.removesuffix(REVERSE) == other.removesuffix(REVERSE)
