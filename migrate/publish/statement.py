"""Statements in the binlog: which of them concern the selected tables.

Judged by words, not by a grammar: what cannot be ruled out counts as concerning (rule 13).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from migrate.model.errors import StopError

_BACKQUOTED, _DOUBLE, _SINGLE = r"`(?:[^`]|``)+`", r"\"(?:[^\"]|\"\")+\"", r"'(?:[^'\\]|\\.|'')*'"
_PLAIN = r"[A-Za-z0-9_$\u0080-\uffff]+"
_COMMENT = re.compile(rf"({_BACKQUOTED}|{_DOUBLE}|{_SINGLE})|/\*(?!!|M!).*?\*/|--(?=\s|$)[^\n]*|#[^\n]*", re.S)
"""Comments, and what is quoted, in which no comment begins; `/*! … */` and `/*M! … */` are executed."""
_WORD = re.compile(rf"({_BACKQUOTED}|{_DOUBLE})|({_SINGLE})|({_PLAIN})", re.S)
_NAME = rf"({_BACKQUOTED}|{_DOUBLE}|{_PLAIN})"
_UNREADABLE = "\ufffd"
_NAMED_TABLE = re.compile(
    r"\s*(?:CREATE(?:\s+OR\s+REPLACE)?(?:\s+TEMPORARY)?|ALTER(?:\s+ONLINE)?(?:\s+IGNORE)?)\s+TABLE\s+"
    rf"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_NAME}(?:\s*\.\s*{_NAME})?",
    re.I,
)
"""A CREATE or ALTER TABLE up to the name of the table that it makes or changes."""
_HARMLESS = frozenset(
    [
        "SAVEPOINT",
        "RELEASE",
        "FLUSH",
        "GRANT",
        "REVOKE",
        "ANALYZE",
        "OPTIMIZE",
        "REPAIR",
        "CHECK",
        "SET",
        "USE",
        "DO",
        "KILL",
        "LOCK",
        "UNLOCK",
        "INSTALL",
        "UNINSTALL",
    ]
)
_HARMLESS_OBJECTS = frozenset(
    [
        "USER",
        "ROLE",
        "VIEW",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "UNDO",
        "RESOURCE",
        "SEQUENCE",
        "PACKAGE",
    ]
)
_OBJECTS = _HARMLESS_OBJECTS | frozenset({"TABLE", "DATABASE", "SCHEMA", "INDEX"})


@dataclass(frozen=True, slots=True)
class Statement:
    database: str
    sql: str


def parse_query(body: bytes) -> Statement:
    """A QUERY_EVENT's default database and text (MySQL source documentation, Query_event). Raises StopError."""
    try:
        _, _, name_length, _, status_length = struct.unpack_from("<IIBHH", body)
        start = 13 + status_length
        database = body[start : start + name_length].decode("utf-8")
        return Statement(database, body[start + name_length + 1 :].decode("utf-8", "replace"))
    except (struct.error, UnicodeDecodeError) as error:
        raise StopError(f"a query event cannot be read: {error}") from None


def is_begin(body: bytes) -> bool:
    """Whether a QUERY_EVENT is a bare BEGIN, as nearly every one is; other forms of it are found by `parse_query`."""
    return body[-6:] == b"\0BEGIN" and len(body) == 19 + body[8] + int.from_bytes(body[11:13], "little")


def first_word(sql: str) -> str:
    match = re.match(r"[\s(]*([A-Za-z]+)", _without_comments(sql))
    return match.group(1).upper() if match else ""


def concerned(statement: Statement, tables: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """The first selected (database, table) a statement may change, or None when it changes none of them."""
    sql = _without_comments(statement.sql)
    words = list(_words(sql))
    if not words or _is_harmless(words):
        return None
    first = words[0][0].upper()
    used = {word.lower() for word, _ in words}
    doubt = any(_UNREADABLE in word for word in used)
    if first in ("CREATE", "ALTER") and not doubt and (made := _NAMED_TABLE.match(sql)) is not None:
        database, table = _unquoted(made, statement.database)
        if (database, table) in {(one.lower(), other.lower()) for one, other in tables}:
            return next(pair for pair in tables if (pair[0].lower(), pair[1].lower()) == (database, table))
        if not {"rename", "exchange"} & used:
            return None
    whole_database = first in ("DROP", "ALTER", "CREATE") and _object(words) in ("DATABASE", "SCHEMA")

    def may_mean(name: str) -> bool:
        return name.lower() in used or (doubt and not name.isascii())

    for database, table in tables:
        if whole_database and first == "DROP" and may_mean(database):
            return database, table
        named = statement.database.lower() == database.lower() or may_mean(database)
        if not whole_database and named and may_mean(table):
            return database, table
    return None


def _without_comments(sql: str) -> str:
    return _COMMENT.sub(lambda match: match.group(1) or " ", sql)


def _words(sql: str) -> Iterator[tuple[str, bool]]:
    """Each name or keyword, and whether it was quoted.

    Where a quote ends depends on the session's sql_mode; words that another mode would see outside count too.
    """
    for quoted, text, plain in _WORD.findall(sql):
        if plain:
            yield plain, False
            continue
        if quoted:
            yield _name(quoted), True
        if quoted.startswith('"') or "\\'" in text:
            yield from ((word, True) for word in re.findall(_PLAIN, quoted or text))


def _is_harmless(words: list[tuple[str, bool]]) -> bool:
    first = words[0][0].upper()
    if first == "SET" and len(words) > 1 and words[1][0].upper() == "STATEMENT":  # MariaDB: SET STATEMENT … FOR …
        return False
    if first in ("CREATE", "ALTER", "DROP", "RENAME"):
        return _object(words) in _HARMLESS_OBJECTS
    return first in _HARMLESS


def _unquoted(named: re.Match[str], default: str) -> tuple[str, str]:
    """Database and table, in lower case, of a match of `_NAMED_TABLE`."""
    parts = [_name(part).lower() for part in named.groups() if part is not None]
    return (parts[0], parts[1]) if len(parts) == 2 else (default.lower(), parts[0])


def _name(written: str) -> str:
    """A name without its quotes."""
    quote = written[0]
    return written[1:-1].replace(quote * 2, quote) if quote in '`"' else written


def _object(words: list[tuple[str, bool]]) -> str:
    """What kind of object a CREATE, ALTER or DROP is about: the first word that names one."""
    for word, quoted in words[1:]:
        if not quoted and word.upper() in _OBJECTS:
            return word.upper()
    return ""
