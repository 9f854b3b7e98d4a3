"""Statements as tokens, read as the server that executed them read them (its version, and the session's sql_mode)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

ANSI_QUOTES: Final = 0x4
NO_BACKSLASH_ESCAPES: Final = 0x100000
MSSQL: Final = 0x400
"""MariaDB's mode in which names may stand in brackets; no MySQL has them (MariaDB documentation, "SQL_MODE=MSSQL")."""

_PLAIN: Final = r"[A-Za-z0-9_$\u0080-\U0010ffff]+"
_SPACE: Final = re.compile(r"\s+|--(?=\s|$)[^\n]*|#[^\n]*", re.S)
_EXECUTED: Final = re.compile(r"/\*(M?)!(\d{5,6})?", re.I)
_BACKQUOTED: Final = r"`(?:[^`]|``)++`"
_WIDE: Final = re.compile(r"[\U00010000-\U0010ffff]")
"""What MySQL has no place for in a name, and takes for `?`; MariaDB refuses it."""
BRACKETED: Final = r"\[(?:[^\]]|\]\])++\]"
_NAMES: Final = re.compile(rf"({_BACKQUOTED})|({_PLAIN})", re.S)
_NAMES_BRACKETED: Final = re.compile(rf"({_BACKQUOTED}|{BRACKETED})|({_PLAIN})", re.S)
_STRING: Final = {
    quote: re.compile(rf"{quote}(?:[^{quote}\\]|\\.|{quote}{quote})*+{quote}", re.S) for quote in ("'", '"')
}
_STRING_NO_ESCAPES: Final = {quote: re.compile(rf"{quote}(?:[^{quote}]|{quote}{quote})*+{quote}") for quote in "'\""}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement; `text` is a name without its quotes."""

    text: str
    start: int
    end: int
    depth: int  # parentheses around it
    kind: str  # "word", "name" (quoted), "string", "sign"

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign

    @property
    def is_name(self) -> bool:
        """Whether it may be an identifier."""
        return self.kind in ("word", "name")


def executes(marker: re.Match[str], version: int, *, mariadb: bool) -> bool:
    """Whether a server runs what stands in `/*! */`, `/*!NNNNN */` or `/*M!NNNNNN */`.

    ``version``: as in the comment, 101106 for 10.11.6. MariaDB leaves out 50700 to 99999, MySQL's own (knowledge
    base, "Comment Syntax").
    """
    of_mariadb, wanted = bool(marker.group(1)), int(marker.group(2) or 0)
    if of_mariadb and not mariadb:
        return False
    if mariadb and not of_mariadb and 50700 <= wanted <= 99999:
        return False
    return wanted <= version


def tokens(sql: str, mode: int, version: int, *, mariadb: bool) -> list[Token]:
    """The tokens of a statement. Raises ValueError where it cannot be read to its end."""
    return list(_tokens(sql, mode, version, mariadb=mariadb))


def _tokens(sql: str, mode: int, version: int, *, mariadb: bool) -> Iterator[Token]:
    names = _NAMES_BRACKETED if mode & MSSQL and mariadb else _NAMES
    strings = _STRING_NO_ESCAPES if mode & NO_BACKSLASH_ESCAPES else _STRING

    def named(text: str) -> str:
        return text if mariadb or text.isascii() else _WIDE.sub("?", text)

    at, depth, executed = 0, 0, 0
    while at < len(sql):
        if space := _SPACE.match(sql, at):
            at = space.end()
            continue
        if sql.startswith("/*", at):
            marker = _EXECUTED.match(sql, at)
            if marker and executes(marker, version, mariadb=mariadb):
                at, executed = marker.end(), executed + 1
                continue
            end = sql.find("*/", at + 2)
            if end < 0:
                raise ValueError("a comment does not end")
            at = end + 2
            continue
        if executed and sql.startswith("*/", at):
            at, executed = at + 2, executed - 1
            continue
        quote = sql[at]
        if quote in "'\"":
            is_name = quote == '"' and mode & ANSI_QUOTES  # in which a backslash is a letter
            string = (_STRING_NO_ESCAPES if is_name else strings)[quote].match(sql, at)
            if string is None:
                raise ValueError("a quote does not end")
            text = named(string.group()[1:-1].replace('""', '"')) if is_name else string.group()
            yield Token(text, at, string.end(), depth, "name" if is_name else "string")
            at = string.end()
        elif name := names.match(sql, at):
            quoted = name.group(1)
            text = quoted[1:-1].replace(quoted[-1] * 2, quoted[-1]) if quoted else name.group()
            yield Token(named(text), at, name.end(), depth, "name" if quoted else "word")
            at = name.end()
        elif quote == "[" and names is _NAMES_BRACKETED:
            raise ValueError("a bracket does not end")
        else:
            depth -= quote == ")"
            yield Token(quote, at, at + 1, depth, "sign")
            depth += quote == "("
            at += 1


def without_last_semicolon(found: Sequence[Token]) -> Sequence[Token]:
    return found[:-1] if found and found[-1].is_sign(";") else found


def without_settings(found: Sequence[Token]) -> Sequence[Token]:
    """Without MariaDB's SET STATEMENT variable = value, … FOR in front, which may stand there again and again."""
    at = 0
    while at + 1 < len(found) and found[at].is_word("SET") and found[at + 1].is_word("STATEMENT"):
        depth = found[at].depth
        at = next((no for no in range(at, len(found)) if found[no].is_word("FOR") and found[no].depth == depth), at) + 1
        if not found[at - 1].is_word("FOR"):
            return ()
    return found[at:] if at else found
