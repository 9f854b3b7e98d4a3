"""Unique keys as a definition prints them, with the parts that the catalog has no column's name for: prefixes and
expressions. A key that keeps out rows which no key of another table keeps out is found by them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from migrate.mysql.expressions import closing, quoted_to

_KEY = re.compile(r"^\s*(?:PRIMARY KEY|UNIQUE KEY `(?:[^`]|``)+`) \(")
_COLUMN = re.compile(r"(`(?:[^`]|``)+`)(?:\((\d+)\))?(?: (?:ASC|DESC))?")
_WHOLE: Final = 1 << 32
"""More than any prefix: the whole value counts."""

Parts = Mapping[str, int]
"""By a column's name in backquotes, or an expression, how many of its characters, or bytes, count."""


def unique_keys(create: str) -> dict[str, Parts]:
    """The primary key and the unique keys, by their lists of parts as SHOW CREATE TABLE prints them."""
    found: dict[str, Parts] = {}
    for line in create.split("\n"):
        if (opened := _KEY.match(line)) is not None:
            listed = line[opened.end() : closing(line, opened.end())]
            found[listed] = dict(map(_part, _split(listed)))
    return found


def only_of(one: str, other: str) -> list[str]:
    """The keys of one definition that may refuse rows which the other one's take: not those by which a key of the other
    tells rows apart already, by the same parts or less of them."""
    theirs = unique_keys(other).values()
    return [
        listed
        for listed, parts in unique_keys(one).items()
        if not any(all(parts.get(name, 0) >= size for name, size in key.items()) for key in theirs)
    ]


def _part(text: str) -> tuple[str, int]:
    column = _COLUMN.fullmatch(text)
    if column is None:
        return re.sub(r" (?:ASC|DESC)$", "", text), _WHOLE
    return column[1], int(column[2] or _WHOLE)


def _split(listed: str) -> list[str]:
    """At the commas between its parts."""
    found, start, at = [], 0, 0
    while at < len(listed):
        if listed[at] == "(":
            at = closing(listed, at + 1)
        elif listed[at] in "'`\"":
            at = quoted_to(listed, at)
        elif listed[at] == ",":
            found.append(listed[start:at])
            start = at + 1
        at += 1
    return [*found, listed[start:]]
