"""Full-text keys that find other rows at a target: each server cuts texts into words by settings of its own.

MySQL manual, "Fine-Tuning MySQL Full-Text Search"; MariaDB documentation, "InnoDB System Variables". The variables
`ft_…` count for tables of MyISAM and Aria alone, which are not migrated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from migrate.model.table import Table, TableId
from migrate.model.words import some
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create
from migrate.mysql.errors import passes
from migrate.mysql.quoting import table as quoted
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan

_ENABLED = "innodb_ft_enable_stopword"
_SERVER_TABLE, _USER_TABLE = "innodb_ft_server_stopword_table", "innodb_ft_user_stopword_table"
_SIZES = ("innodb_ft_min_token_size", "innodb_ft_max_token_size")
_NGRAM = "ngram_token_size"
_BUILT_IN, _NONE = "the built-in list", "none"


@dataclass(frozen=True, slots=True)
class FullText:
    """How a server cuts texts. sizes: variables that say which words are left out by their length, or how long the
    pieces are; stop_words: the list of words that are left out, in words; words: those of a table, None where the list
    is built in, or cannot be read."""

    sizes: Mapping[str, str]
    stop_words: str
    words: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Indexed:
    """The source tables of a server that have full-text keys; pieces: those of which a key cuts texts into pieces of
    equal length (MySQL's parser ngram)."""

    how: FullText
    tables: frozenset[TableId]
    pieces: frozenset[TableId]


def read(connection: Connection) -> FullText:
    """As indexes are made in sessions that begin now. Raises the driver's error."""
    found = show_variables(connection, *_SIZES, _NGRAM, _ENABLED, _SERVER_TABLE, _USER_TABLE)
    sizes = {name: found[name] for name in (*_SIZES, _NGRAM) if name in found}
    if found.get(_ENABLED, "ON") not in ("ON", "1"):
        return FullText(sizes, _NONE, None)
    place = found.get(_USER_TABLE) or found.get(_SERVER_TABLE) or ""
    return FullText(sizes, f"table {place}" if place else _BUILT_IN, _words(connection, place) if place else None)


def _words(connection: Connection, place: str) -> frozenset[str] | None:
    try:
        rows = connection.query(f"SELECT value FROM {quoted(*place.split('/', 1))}")
    except (pymysql.MySQLError, TypeError) as error:
        if isinstance(error, pymysql.MySQLError) and passes(error):
            raise
        return None
    return frozenset(str(word).lower() for (word,) in rows)


def look(connection: Connection, tables: Sequence[Table]) -> Indexed | None:
    """tables: of the source; None where none of them has such a key. Raises the driver's error."""
    rows = connection.query(
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_TYPE = 'FULLTEXT'"
    )
    names = {(str(database), str(name)) for database, name in rows}
    found = [table for table in tables if (table.database, table.name) in names]
    if not found:
        return None
    how = read(connection)
    pieces = [
        table.id
        for table in found
        if _NGRAM in how.sizes and "WITH PARSER `ngram`" in show_create(connection, table.database, table.name)
    ]
    return Indexed(how, frozenset(table.id for table in found), frozenset(pieces))


def check_target(connection: Connection, plan: Plan, target: str, sources: Mapping[str, Indexed]) -> Iterator[Result]:
    """As `compared`. Raises the driver's error."""
    return compared(connection.name, plan, target, sources, lambda: read(connection))


def compared(
    where: str, plan: Plan, target: str, sources: Mapping[str, Indexed], of_target: Callable[[], FullText]
) -> Iterator[Result]:
    """A note for each setting by which keys find other rows at a target; one that passes where there is none; nothing
    where no table comes there that has such a key. where: as messages name it; sources: by name, of those with such
    keys."""
    here: FullText | None = None
    fine = True
    for name, indexed in sources.items():
        places = {
            id_
            for id_ in indexed.tables
            if id_ in plan.tables and any(one.database.target == target for one in plan.tables[id_].places)
        }
        if not places:
            continue
        here = here or of_target()
        for which, told in _differing(indexed.how, here, name):
            if tables := sorted(places & indexed.pieces if which == _NGRAM else places):
                fine = False
                yield _note(where, target, tables, told)
    if here is not None and fine:
        told = f"{where}: full-text keys take texts apart as at the source"
        yield Result("full text", target, Verdict.PASS, told)


def _differing(there: FullText, here: FullText, source: str) -> Iterator[tuple[str, str]]:
    """The variable, and both values in words."""
    for name in there.sizes.keys() & here.sizes.keys():
        if there.sizes[name] != here.sizes[name]:
            yield name, f"{name} is {here.sizes[name]}, and {there.sizes[name]} at source '{source}'"
    if there.words is not None and here.words is not None:
        if there.words != here.words:
            lacks, more = len(there.words - here.words), len(here.words - there.words)
            told = f"lacks {lacks} of those at source '{source}', and has {more} others"
            yield "", f"{here.stop_words} of stop words {told}"
    elif there.stop_words != here.stop_words:
        yield "", f"stop words are {here.stop_words}, and {there.stop_words} at source '{source}'"
    elif here.stop_words not in (_BUILT_IN, _NONE):
        yield "", f"{here.stop_words} of stop words cannot be read, here or at source '{source}', and may differ"


def _note(where: str, target: str, tables: Iterable[TableId], told: str) -> Result:
    of = some([f"{database}.{name}" for _, database, name in tables], 3)
    return Result(
        "full text",
        target,
        Verdict.NOTE,
        f"{where}: {told}: after the switch searches find other rows by the full-text keys of {of}",
        "set it as at the source before `migrate init` makes the tables; drop and add again a key that is there",
    )
