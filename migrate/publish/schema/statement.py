"""Statements in the binlog: which of them concern the selected tables.

Judged by words, not by a grammar: what cannot be ruled out counts as concerning (rule 13).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from migrate.model.errors import StopError

_BACKQUOTED, _DOUBLE, _SINGLE = r"`(?:[^`]|``)+`", r"\"(?:[^\"]|\"\")+\"", r"'(?:[^'\\]|\\.|'')*'"
_PLAIN = r"[A-Za-z0-9_$\u0080-\uffff]+"
_COMMENT = re.compile(rf"({_BACKQUOTED}|{_DOUBLE}|{_SINGLE})|/\*(?!!|M!).*?\*/|--(?=\s|$)[^\n]*|#[^\n]*", re.S)
"""Comments, and what is quoted, in which no comment begins; `/*! … */` and `/*M! … */` are executed."""
_WORD = re.compile(rf"({_BACKQUOTED}|{_DOUBLE})|({_SINGLE})|({_PLAIN})", re.S)
_NAME = rf"({_BACKQUOTED}|{_DOUBLE}|{_PLAIN})"
UNREADABLE = "\ufffd"
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
    mode: int = 0  # sql_mode as bits
    client: int | None = None  # collation id of the text's character set
    database_collation: int | None = None
    phases: int = 0  # MariaDB's binlog_alter_two_phase: see `is_part`

    @property
    def is_part(self) -> bool:
        """Whether it only announces an ALTER, or takes that back; the whole statement comes again with its commit."""
        return bool(self.phases & (_STARTS_ALTER | _ROLLS_ALTER_BACK))


def parse_query(body: bytes, charsets: Mapping[int, str] | None = None) -> Statement:
    """A QUERY_EVENT (MySQL source documentation, Query_event). Raises StopError.

    ``charsets``: character set by collation id. A text in one that Python does not read as the server does keeps
    its ASCII only, and what is not ASCII becomes U+FFFD.
    """
    try:
        _, _, name_length, _, status_length = struct.unpack_from("<IIBHH", body)
        start = 13 + status_length
        database = body[start : start + name_length].decode("utf-8")
        session = _session(body[13:start])
        charset = (charsets or {}).get(session.get(_CLIENT, 0), "utf8mb4")
        text = body[start + name_length + 1 :].decode(_CODECS.get(charset, "ascii"), "replace")
        return Statement(
            database,
            text,
            session.get(_SQL_MODE, 0),
            session.get(_CLIENT),
            session.get(_CHARSET_DATABASE),
            session.get(_PHASES, 0),
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise StopError(f"a query event cannot be read: {error}") from None


def is_begin(body: bytes) -> bool:
    """Whether a QUERY_EVENT is a bare BEGIN, as nearly every one is; other forms of it are found by `parse_query`."""
    return body[-6:] == b"\0BEGIN" and len(body) == 19 + body[8] + int.from_bytes(body[11:13], "little")


_SQL_MODE, _CLIENT, _CHARSET_DATABASE, _PHASES = 1, 4, 8, 130
_STARTS_ALTER, _COMMITS_ALTER, _ROLLS_ALTER_BACK = 2, 4, 8  # MariaDB's log_event.h, FL_START_ALTER_E1 and so on
_CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252", "binary": "utf-8"}
_SIZES = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1, 128: 3, 129: 8}
_TEXTS = {2: (1, 1), 5: (1, 0), 6: (1, 0), 11: (2, 0)}
"""Status variables that are texts with a length byte: how many, and bytes behind."""
_NUMBERS = {_SQL_MODE: 8, _CLIENT: 2, _CHARSET_DATABASE: 2}


def _session(status: bytes) -> dict[int, int]:
    """The session's variables that matter here; those behind one of unknown size are not found (Query_event)."""
    found: dict[int, int] = {}
    at = 0
    while at < len(status):
        code, at = status[at], at + 1
        if code in _SIZES:
            if code in _NUMBERS:
                found[code] = int.from_bytes(status[at : at + _NUMBERS[code]], "little")
            at += _SIZES[code]
        elif code == _PHASES and at < len(status):
            found[code] = status[at]
            at += 9 if status[at] & (_COMMITS_ALTER | _ROLLS_ALTER_BACK) else 1
        elif code in _TEXTS:
            count, behind = _TEXTS[code]
            for _ in range(count):
                at += 1 + (status[at] if at < len(status) else 0)
            at += behind
        else:
            break
    return found


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
    doubt = any(UNREADABLE in word for word in used)
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
