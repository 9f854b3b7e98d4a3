"""A statement, tried: a server runs it on an empty table of the same definition, in a database of its own.

What the table is afterwards, the lightest algorithm and lock that the server takes, and whether the compensating
statement gives the definition from before are the server's answers, not this program's. The real table has rows: what a
value of theirs makes the server refuse is seen in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pymysql

from migrate.ddl import losses
from migrate.ddl.definition import Definition, read
from migrate.ddl.inverse import inverse, statement
from migrate.ddl.levels import AT_ONCE, LEVELS, Level
from migrate.ddl.losses import ColumnType
from migrate.ddl.statement import LogicalStatement
from migrate.model.errors import MigrateError, PreflightError, ServerError
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, explain, number, passes, text
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as quoted_table
from migrate.preflight.schema.scratch import scratch
from migrate.publish.schema import row_limits
from migrate.publish.schema.ddl import Verb
from migrate.publish.schema.definitions import other_key

TABLE = "migrate_scratch"
Written = Callable[[Level], str]
"""The statement with an algorithm and lock."""
_COPIED = Level("COPY", "SHARED")
HEAVIER = frozenset({1064, 1221, 1800, 1801, 1845, 1846, 1847, 4092})
"""Said of an algorithm or lock that is not for this statement: not in its grammar, not supported, too many versions."""


@dataclass(frozen=True)
class Trial:
    """What a server made of a statement.

    undo: the clauses of the compensating statement, none where there is nothing to undo; None where there is none, and
    why_not says why. loses, undo_loses: what of the values goes, a line each. refused: what the server said, "" where
    it took the statement. touched: quoted names of columns that are gone, renamed or of another type afterwards.
    reorders: why the changes of a row would come in another order than they were made, or not at all; "" where they
    come as they were made.
    lifts: what kept out rows before and does so no more; "" for nothing.
    """

    before: Definition
    after: Definition
    level: Level
    undo: tuple[str, ...] | None
    why_not: str = ""
    loses: tuple[str, ...] = ()
    undo_loses: tuple[str, ...] = ()
    undo_level: Level = AT_ONCE
    refused: str = ""
    touched: frozenset[str] = frozenset()
    reorders: str = ""
    lifts: str = ""
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the definition tells a table that was altered from one that was not."""
        return self.before.text != self.after.text


@contextmanager
def place_of_trial(connection: Connection, name: str) -> Iterator[None]:
    """The database for trials, for the time of the block. Raises StopError; ServerError where it may not be made."""
    try:
        with scratch(connection, name):
            connection.query(f"USE {quote(name)}")
            connection.query("SET SESSION foreign_key_checks = 0")  # parents are not there
            yield
    except pymysql.MySQLError as error:
        found = explain(error, f"{connection.name}, trying the statement in database {name}")
        if number(error) in ACCESS_DENIED:
            hint = "docs/grants.md, under DDL over shards, has the statement"
            raise ServerError(found.message, hint=hint) from error
        raise found from error


class _Scratch:
    """One table in the database of the trial, made again for each attempt."""

    def __init__(self, connection: Connection, database: str, logical: LogicalStatement, before: Definition) -> None:
        self.connection = connection
        self.database = database
        self.logical = logical
        self.before = before

    def make(self, definition: Definition) -> None:
        self.connection.query(f"DROP TABLE IF EXISTS {quoted_table(self.database, TABLE)}")
        self.connection.query(definition.create(TABLE).replace("%", "%%"))

    def read(self) -> Definition:
        return read(self.connection, self.database, TABLE)

    def types(self) -> dict[str, ColumnType]:
        return losses.types(self.connection, self.database, TABLE)

    def table(self, key: Sequence[str]) -> Table | None:
        """As a stream would know it, with the key of the migration; None where it cannot."""
        try:
            return load_table(self.connection, "", self.database, TABLE, key)
        except MigrateError:
            return None

    @property
    def is_versioned(self) -> bool:
        """Whether it keeps its history (MariaDB's system versioning)."""
        sql = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        return self.connection.one(sql, [self.database, TABLE]) == ("SYSTEM VERSIONED",)

    def run(self, sql: str) -> list[str]:
        return self.connection.execute_noted(sql.replace("%", "%%"))

    @property
    def named(self) -> str:
        return quoted_table(self.database, TABLE)


def tried(
    connection: Connection,
    database: str,
    logical: LogicalStatement,
    before: Definition,
    charset: tuple[str, str],
    key: Sequence[str] = (),
) -> Trial:
    """Run a statement on an empty table of a definition. Within `place_of_trial`.

    charset: character set and collation of the real table's database. key: that the table has in a migration; empty
    where it is in none. Raises PreflightError where the server does not
    make such a table; the driver's error for what passes.
    """
    connection.query(f"ALTER DATABASE {quote(database)} CHARACTER SET {charset[0]} COLLATE {charset[1]}")
    table = _Scratch(connection, database, logical, before)
    try:
        table.make(before)
        made = table.read()
    except pymysql.MySQLError as error:
        if passes(error):
            raise
        raise PreflightError(f"{connection.name}: a scratch table is refused: {text(error)}") from error
    if made.text != before.text:
        raise PreflightError(
            f"{connection.name}: a scratch table becomes another one than the real table is",
            hint="its definition depends on settings that the table was made under; alter the tables by hand",
        )
    if logical.verb is Verb.DROP:
        gone = ("every row of the table",)
        return Trial(before, Definition(""), AT_ONCE, None, "the table and its rows are gone", gone)
    if logical.verb is Verb.TRUNCATE:
        return Trial(before, before, AT_ONCE, None, "the rows are gone", ("every row of the table",))
    return _altered(table, key)


def _altered(table: _Scratch, key: Sequence[str]) -> Trial:
    had, was = table.types(), table.table(key) if key else None
    try:
        level, notes = _lightest(table, table.before, lambda one: table.logical.for_table(table.database, TABLE, one))
    except pymysql.MySQLError as error:
        if passes(error):
            raise
        return Trial(table.before, table.before, AT_ONCE, None, refused=text(error))
    after, has, logical = table.read(), table.types(), table.logical
    reorders = "" if was is None else _reorders(table, was, key)
    level = _really(table, level, table.before, after)
    kept = losses.kept(table.before, after, logical.renamed, logical.dropped)
    loses = [*losses.lost(had, has, kept)]
    loses += [logical.removes_rows] if logical.removes_rows else []
    undo, why_not, undo_level = _compensated(table, after, kept)
    back = {new: old for old, new in kept.items()}
    undo_loses = [*losses.lost(has, had, back)]
    if loses:
        undo, why_not = None, f"{'; '.join(loses)}: no statement brings that back"
    elif logical.counter:
        undo, why_not = None, "the counter that was there before is not in a definition"
    return Trial(
        *(table.before, after, level, undo, why_not, tuple(loses), tuple(undo_loses), undo_level),
        touched=_touched(had, has, kept),
        reorders=reorders,
        lifts=row_limits.lifted(
            *(table.before.text, after.text, table.before.text), mariadb=table.connection.flavour == "mariadb"
        ),
        notes=tuple(notes),
    )


def _compensated(
    table: _Scratch, after: Definition, kept: Mapping[str, str]
) -> tuple[tuple[str, ...] | None, str, Level]:
    """The clauses that were seen to give the definition from before, or why there are none."""
    clauses = inverse(table.before, after, kept)
    if not clauses:
        same = after.text == table.before.text
        return (() if same else None), ("" if same else "no statement is known that takes it back"), AT_ONCE
    own = tuple(one.replace("\ue000", TABLE) for one in clauses)

    def written(level: Level) -> str:
        chosen = [f"ALGORITHM={level.algorithm}"] if level.algorithm else []
        chosen += [f"LOCK={level.lock}"] if level.lock else []
        return statement(own, table.named.replace("%%", "%"), tuple(chosen))

    try:
        level, _ = _lightest(table, after, written)
    except pymysql.MySQLError as error:
        if passes(error):
            raise
        return None, f"the server refuses the statement that would take it back: {text(error)}", AT_ONCE
    if table.read().text != table.before.text:
        return None, "the statement that would take it back leaves another definition than before", AT_ONCE
    return clauses, "", _really(table, level, after, table.before)


def _really(table: _Scratch, level: Level, start: Definition, end: Definition) -> Level:
    """MariaDB takes any algorithm for a statement that partitions a table otherwise, and copies it all the same. Both
    servers add a foreign key by copying where its values are compared with the parent's, as they are not in a trial.
    """
    if start.partitioning != end.partitioning and table.connection.flavour == "mariadb":
        return LEVELS[-1]
    if any(" FOREIGN KEY " in line and name not in start.constraints for name, line in end.constraints.items()):
        return max(level, _COPIED, key=LEVELS.index)
    return level


def _lightest(table: _Scratch, start: Definition, written: Written) -> tuple[Level, list[str]]:
    """Run a statement with the lightest algorithm and lock that the server takes; what it warned of.

    Raises the driver's error where it takes none.
    """
    table.make(start)
    for level in LEVELS:  # refused, the table stays as it is
        try:
            return level, table.run(written(level))
        except pymysql.MySQLError as error:
            if level == LEVELS[-1] or number(error) not in HEAVIER:
                raise
    raise AssertionError("the last level returns or raises")


def _reorders(table: _Scratch, was: Table, key: Sequence[str]) -> str:
    if table.is_versioned:
        return "a table that is system-versioned is not migrated"
    now = table.table(key)
    return "it has its key no more" if now is None else other_key(was, now)


def _touched(had: Mapping[str, ColumnType], has: Mapping[str, ColumnType], kept: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        name for name, column in had.items() if kept.get(name) != name or column.stored != has[name].stored
    )
