"""Whether a statement that the log has instead of its rows leaves the selected tables alone (docs/decisions/0031).

The statement says which table it changes and which it reads (`dml`). What else it may reach is in the source's catalog:
triggers, views, foreign keys that cascade. The catalog is as it is now, and the statement is as old as the log that is
read: so the log in between, up to where it ended at that look, must hold nothing that took a trigger or a view away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing

import pymysql

from migrate.model.coordinate import in_log
from migrate.mysql import grants
from migrate.mysql.connection import Connection
from migrate.mysql.errors import PASSING, explained, number, text
from migrate.mysql.readable import log_end
from migrate.publish.schema import dml
from migrate.publish.schema.ddl import Name
from migrate.publish.schema.definitions import full
from migrate.publish.schema.session import UNREADABLE
from migrate.publish.schema.sqltext import ORACLE, Token
from migrate.publish.schema.statement import Statement, first_word, words

Place = tuple[str, int]
"""File and position in the log."""

_PAGE = 5000
_MOST_SECONDS = 60.0
"""Of reading what the log has behind a statement; the server reads some 100,000 events a second."""
_FIRST = 4  # place of a file's first event
_QUERIES = (b"Query", b"Query_compressed")
_USE = re.compile(r"use `(?:[^`]|``)*`; ", re.I)
_ENDS = frozenset(["DROP", "ALTER", "RENAME", "SET"])
"""First words of statements that may take a trigger or a view away; SET of MariaDB's SET STATEMENT … FOR."""


class Bystanders:
    """For one source; not shared between threads."""

    def __init__(self, connect: Callable[[], Connection], known: Callable[[], Collection[Name]]) -> None:
        """connect: opens a session on the source. known: tables that no such statement may change."""
        self._connect = connect
        self._known = known
        self._clear: dict[Name, tuple[tuple[int, int], tuple[int, int]]] = {}
        """Tables by name that a statement between these two places may change and read."""

    def reached(self, statement: Statement, found: Sequence[Token], behind: Place) -> str:
        """Why the statement may change a known table; "" when it does not. Raises ServerError when nobody can say now.

        found: its tokens. behind: where it ends in the log.
        """
        if statement.session.mode & ORACLE:
            return "it was written in sql_mode ORACLE"
        if not statement.exact and not statement.sql.isascii():
            return "its character set is not read exactly"
        try:
            read = dml.parse(found, statement.database)
        except ValueError as error:
            return str(error)
        if _folded(read.changes) in {_folded(one) for one in self._known()}:
            return f"it changes {full(read.changes)}"
        names = [read.changes, *read.reads]
        at = in_log(*behind)
        if all(self._is_clear(name, at) for name in names):
            return ""
        with closing(self._connect()) as connection, explained(connection.name):
            try:
                return self._look(connection, read, names, behind)
            except pymysql.MySQLError as error:
                if number(error) in PASSING:
                    raise
                return f"the source does not say what it reaches: {text(error)}"

    def _is_clear(self, name: Name, at: tuple[int, int]) -> bool:
        since, until = self._clear.get(name, ((0, 0), (0, 0)))
        return since <= at <= until

    def _look(self, connection: Connection, read: dml.Dml, names: Sequence[Name], behind: Place) -> str:
        for name in names:
            if why := _is_no_table(connection, name):
                return why
        if why := _triggers(connection, read.changes) or _cascades(connection, read):
            return why
        end = log_end(connection)
        until = in_log(end.file, end.pos)
        if why := _changed_since(connection, names, behind, until):
            return why
        self._clear |= dict.fromkeys(names, (in_log(*behind), until))
        return ""


def _folded(name: Name) -> Name:
    return name[0].casefold(), name[1].casefold()


def _is_no_table(connection: Connection, name: Name) -> str:
    rows = connection.query(
        "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", name
    )
    if not rows:
        return f"whether {full(name)} is a table this account cannot see"
    ((kind,),) = rows
    return "" if kind in ("BASE TABLE", "SYSTEM VERSIONED") else f"{full(name)} is a {str(kind).lower()}"


def _triggers(connection: Connection, name: Name) -> str:
    held = grants.read(connection)
    if held.lacking(name[0], ["TRIGGER"]) or held.unclear(name[0], ["TRIGGER"]):
        return f"whether {full(name)} has triggers this account cannot see: {held.mend(name[0], ['TRIGGER'])}"
    rows = connection.query(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s",
        name,
    )
    return f"{full(name)} has the trigger {rows[0][0]}" if rows else ""


def _cascades(connection: Connection, read: dml.Dml) -> str:
    """Those of a selected table stand in no log, whatever its format; all others are refused here."""
    rows = connection.query(
        "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE UNIQUE_CONSTRAINT_SCHEMA = %s"
        " AND REFERENCED_TABLE_NAME = %s AND NOT (UPDATE_RULE IN ('RESTRICT', 'NO ACTION')"
        " AND DELETE_RULE IN ('RESTRICT', 'NO ACTION'))",
        read.changes,
    )
    return f"the foreign key {rows[0][0]} cascades from {full(read.changes)}" if rows else ""


def _changed_since(connection: Connection, names: Sequence[Name], behind: Place, until: tuple[int, int]) -> str:
    """Why the catalog may not be as it was at a place in the log, by what stands between there and the log's end."""
    for sql in _statements(connection, behind, until):
        if sql is None:
            return "too much stands behind it in the log to say what the source's catalog was"
        if takes_away(sql, names):
            return f"a statement behind it may have taken a trigger or a view away: {' '.join(sql.split())[:200]}"
    return ""


def _statements(connection: Connection, behind: Place, until: tuple[int, int]) -> Iterator[str | None]:
    """The log's statements between two places; None when there is no end of it."""
    deadline = time.monotonic() + _MOST_SECONDS
    file, pos = behind
    while in_log(file, pos) < until:
        rows = connection.query_bytes(f"SHOW BINLOG EVENTS IN '{file}' FROM {int(pos)} LIMIT {_PAGE}")
        if not rows or time.monotonic() > deadline:
            yield None
            return
        for _, _, kind, _, end, info in rows:
            if kind in _QUERIES:
                yield _USE.sub("", bytes(info).decode("utf-8", "replace"), count=1)
            if kind == b"Rotate":
                file, pos = bytes(info).decode().partition(";")[0], _FIRST
                break
            pos = int(end)
            if in_log(file, pos) >= until:
                return


def takes_away(sql: str, names: Collection[Name]) -> bool:
    """Whether a statement may have taken away a trigger, or a view with one of these names."""
    first = first_word(sql)
    found = {word.lower() for word in words(sql)}
    if first and first not in _ENDS and not (first == "CREATE" and "replace" in found):
        return False
    if not first or "trigger" in found or any(UNREADABLE in word for word in found):
        return True
    return any(part.lower() in found for name in names for part in (name[1], *_whole(found, name)))


def _whole(found: Collection[str], name: Name) -> Sequence[str]:
    """The database's name, where a whole one is dropped."""
    return [name[0]] if {"database", "schema"} & set(found) else []
