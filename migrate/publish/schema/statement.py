"""Statements in the binlog: which of them concern the selected tables.

Judged by words, not by a grammar: what cannot be ruled out counts as concerning (invariant unknown-stops).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from migrate.model.errors import Code, StopError
from migrate.publish.schema.session import (
    ROLLS_ALTER_BACK,
    STARTS_ALTER,
    UNKNOWN,
    UNREADABLE,
    StatementSession,
    decode,
    encode,
    legible,
    read,
)
from migrate.publish.schema.sqltext import BRACKETED, MSSQL, Token, without_settings

_DOUBLE, _SINGLE = r"\"(?:[^\"]|\"\")*+\"", r"'(?:[^'\\]|\\.|'')*+'"
_BACKQUOTED = r"`(?:[^`]|``)*+`"
_UNENDED = r"[`\"'{}].*"
"""A quote that does not end, with all behind it; nothing is looked for in there again, so reading takes linear time."""
_PLAIN = r"[A-Za-z0-9_$\u0080-\uffff]+"


@dataclass(frozen=True, slots=True)
class _Patterns:
    """How names are written in some mode.

    comment: comments, and what is quoted, in which no comment begins; `/*! … */` and `/*M! … */` are executed. One that
    does not end is no comment: its words count. made: a CREATE or ALTER TABLE up to the name of the table that it makes
    or changes.
    """

    comment: re.Pattern[str]
    word: re.Pattern[str]
    made: re.Pattern[str]


@cache  # compiled where a statement needs them: most processes meet no brackets, and many no statement
def _patterns(brackets: bool) -> _Patterns:
    """brackets: whether names may stand in them, as in mode MSSQL."""
    name, more = (rf"{_BACKQUOTED}|{BRACKETED}", r"\[") if brackets else (_BACKQUOTED, "")
    one, unended = rf"({name}|{_DOUBLE}|{_PLAIN})", _UNENDED.format(more)
    return _Patterns(
        re.compile(
            rf"({name}|{_DOUBLE}|{_SINGLE}|{unended})"
            r"|/\*(?!!|M!).*?\*/|(/\*(?!!|M!).*)|--(?=\s|$)[^\n]*|#[^\n]*",
            re.S,
        ),
        re.compile(rf"({name}|{_DOUBLE})|({_SINGLE})|({_PLAIN})|({unended})", re.S),
        re.compile(
            r"\s*(?:CREATE(?:\s+OR\s+REPLACE)?(?:\s+TEMPORARY)?|ALTER(?:\s+ONLINE)?(?:\s+IGNORE)?)\s+TABLE\s+"
            rf"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{one}(?:\s*\.\s*{one})?",
            re.I,
        ),
    )


_SAVEPOINT = re.compile(
    rf"\s*(?:SAVEPOINT|ROLLBACK\s+(?:WORK\s+)?TO(?:\s+SAVEPOINT)?)\s+({_BACKQUOTED}|{_DOUBLE}|{_PLAIN})\s*+;?\s*+$",
    re.I,
)
"""As the server writes it, which has no brackets."""
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
        "XA",
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
        "LIBRARY",
        "INSTANCE",  # ALTER INSTANCE ROTATE INNODB MASTER KEY
        "REFERENCE",  # SPATIAL REFERENCE SYSTEM
    ]
)
_OBJECTS = _HARMLESS_OBJECTS | frozenset({"TABLE", "DATABASE", "SCHEMA", "INDEX"})


@dataclass(frozen=True, slots=True)
class Statement:
    """database: the session's default. sql: the text; bytes of it that are no characters stand as lone surrogates.

    exact: whether its characters beyond ASCII are those that the server read. codec: how Python writes its bytes.
    temporary: whether it may be about a temporary table, whatever name it has.
    """

    database: str
    sql: str
    session: StatementSession = UNKNOWN
    exact: bool = True
    codec: str = "utf-8"
    temporary: bool = False

    @property
    def is_part(self) -> bool:
        """Whether it only announces an ALTER, or takes that back; the whole statement comes again with its commit
        (MariaDB's binlog_alter_two_phase)."""
        return bool(self.session.phases & (STARTS_ALTER | ROLLS_ALTER_BACK))

    @property
    def legible(self) -> str:
        """The text, with U+FFFD for what may be another character."""
        return legible(self.sql, exact=self.exact)

    def encoded(self, sql: str) -> bytes | None:
        """A text made of this one's as the session wrote it; None where its character set has no such letters."""
        return encode(sql, self.codec)


def parse_query(body: bytes, charsets: Mapping[int, str] | None = None, *, temporary: bool = False) -> Statement:
    """A QUERY_EVENT (MySQL source documentation, Query_event). Raises StopError.

    ``charsets``: character set by collation id. ``temporary``: as `Statement` has it.
    """
    try:
        _, _, name_length, _, status_length = struct.unpack_from("<IIBHH", body)
        start = 13 + status_length
        database = body[start : start + name_length].decode("utf-8")
        session = read(body[13:start])
        charset = (charsets or {}).get(session.client or 0, "utf8mb4")
        text = decode(body[start + name_length + 1 :], charset)
        return Statement(database, text.sql, session, text.exact, text.codec, temporary)
    except (struct.error, UnicodeDecodeError) as error:
        raise StopError(f"a query event cannot be read: {error}", code=Code.LOG) from None


def is_begin(body: bytes) -> bool:
    """Whether a QUERY_EVENT is a bare BEGIN, as nearly every one is; other forms of it are found by `parse_query`."""
    return body[-6:] == b"\0BEGIN" and len(body) == 19 + body[8] + int.from_bytes(body[11:13], "little")


def first_word(sql: str) -> str:
    match = re.match(r"[\s(]*([A-Za-z]+)", _without_comments(sql))
    return match.group(1).upper() if match else ""


def savepoint_of(sql: str) -> str:
    """The name, as it is written, in SAVEPOINT s and ROLLBACK [WORK] TO [SAVEPOINT] s; "" for a whole ROLLBACK."""
    found = _SAVEPOINT.match(_without_comments(sql))
    return _name(found.group(1)).lower() if found else ""


def concerned(statement: Statement, tables: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """The first selected (database, table) a statement may change, or None when it changes none of them."""
    patterns = _of(statement)
    sql = _without_comments(statement.legible, patterns)
    words = list(_words(sql, patterns))
    if not words or _is_harmless(words):
        return None
    first = words[0][0].upper()
    doubt = _in_doubt(words)
    if first in ("CREATE", "ALTER") and not doubt and (made := patterns.made.match(sql)) is not None:
        database, table = _unquoted(made, statement.database)
        if (database, table) in {(one.lower(), other.lower()) for one, other in tables}:
            return next(pair for pair in tables if (pair[0].lower(), pair[1].lower()) == (database, table))
        if not {"rename", "exchange", "convert"} & {word.lower() for word, _ in words}:
            return None
    whole_database = first in ("DROP", "ALTER", "CREATE") and _object(words) in ("DATABASE", "SCHEMA")

    may_mean = _may_mean(words)
    for database, table in tables:
        if whole_database and first == "DROP" and may_mean(database):
            return database, table
        named = statement.database.lower() == database.lower() or may_mean(database)
        if not whole_database and named and may_mean(table):
            return database, table
    return None


def named(statement: Statement, tables: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """The first selected (database, table) whose name a statement may contain."""
    patterns = _of(statement)
    may_mean = _may_mean(list(_words(_without_comments(statement.legible, patterns), patterns)))
    here = statement.database.lower()
    return next((one for one in tables if (one[0].lower() == here or may_mean(one[0])) and may_mean(one[1])), None)


def fires_for(statement: Statement, tables: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those (database, table) that a trigger may be on: whose name a CREATE TRIGGER may contain, or whose database a
    DROP TRIGGER may be of; none for any other statement."""
    patterns = _of(statement)
    words = list(_words(_without_comments(statement.legible, patterns), patterns))
    first = next((word.upper() for word, _ in words if not word.isdecimal()), "")  # `/*!50003 CREATE*/ …`
    if first not in ("CREATE", "DROP") or _object(words) != "TRIGGER":
        return []
    may_mean = _may_mean(words)
    here = statement.database.lower()
    there = [(one, table) for one, table in tables if one.lower() == here or may_mean(one)]
    return there if first == "DROP" else [(one, table) for one, table in there if may_mean(table)]


def behind_settings(statement: Statement, found: Sequence[Token]) -> Statement:
    """The statement without SET STATEMENT … FOR; found: its tokens."""
    rest = without_settings(found)
    return replace(statement, sql=statement.sql[rest[0].start :]) if rest and rest is not found else statement


def _of(statement: Statement) -> _Patterns:
    return _patterns(bool(statement.session.mode & MSSQL))


def _without_comments(sql: str, patterns: _Patterns | None = None) -> str:
    """patterns: the usual ones where none are given."""
    patterns = patterns or _patterns(False)
    return patterns.comment.sub(lambda match: match.group(1) or match.group(2) or " ", sql)


def _words(sql: str, patterns: _Patterns) -> Iterator[tuple[str, bool]]:
    """Each name or keyword, and whether it was quoted.

    Where a quote ends depends on the session's sql_mode; words that another mode would see outside count too.
    """
    for quoted, text, plain, unended in patterns.word.findall(sql):
        if plain:
            yield plain, False
            continue
        if quoted:
            yield _name(quoted), True
        if unended or quoted.startswith('"') or "\\'" in text:
            yield from ((word, True) for word in re.findall(_PLAIN, unended or quoted or text))


def _in_doubt(words: Iterable[tuple[str, bool]]) -> bool:
    """Whether some of these have characters that cannot be read."""
    return any(UNREADABLE in word for word, _ in words)


def _may_mean(words: Collection[tuple[str, bool]]) -> Callable[[str], bool]:
    """Whether a name may be among these words."""
    used, doubt = {word.lower() for word, _ in words}, _in_doubt(words)
    return lambda name: name.lower() in used or (doubt and not name.isascii())


def _is_harmless(words: list[tuple[str, bool]]) -> bool:
    first = words[0][0].upper()
    if first == "SET" and len(words) > 1 and words[1][0].upper() == "STATEMENT":  # MariaDB: SET STATEMENT … FOR …
        return False
    if first in ("CREATE", "ALTER", "DROP", "RENAME"):
        return _object(words) in _HARMLESS_OBJECTS
    return first in _HARMLESS


def _unquoted(named: re.Match[str], default: str) -> tuple[str, str]:
    """Database and table, in lower case, of a match of `_Patterns.made`."""
    parts = [_name(part).lower() for part in named.groups() if part is not None]
    return (parts[0], parts[1]) if len(parts) == 2 else (default.lower(), parts[0])


def _name(written: str) -> str:
    """A name without its quotes."""
    quote = written[-1]
    return written[1:-1].replace(quote * 2, quote) if quote in '`"]' else written


def _object(words: list[tuple[str, bool]]) -> str:
    """What kind of object a CREATE, ALTER or DROP is about: the first word that names one."""
    for word, quoted in words[1:]:
        if not quoted and word.upper() in _OBJECTS:
            return word.upper()
    return ""
