"""Which rows a table's definition keeps out besides by columns and whole keys: by CHECK constraints, periods,
partitions, and unique keys over beginnings of columns or over expressions.

Target tables have those that the source had when they were made (`migrate.mysql.definition`): once the source keeps out
less, they refuse rows that it takes (3819 and 4025; 1526), or rows make way for each other that it has both (1062).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from migrate.mysql import key_parts
from migrate.publish.schema.session import codec_of
from migrate.publish.schema.sqltext import Token, tokens

_ALL_VERSIONS: Final = 999999
_CONVERTED: Final = re.compile(r"[?\u0080-\U0010ffff]+")
_REST: Final = ("MAXVALUE", "DEFAULT", ",")
"""What the bounds of a partition consist of that takes what the others do not; DEFAULT is MariaDB's, of LIST."""


def lifted(before: str, after: str, made: str, *, mariadb: bool) -> str:
    """What of the first definition kept out rows that the second may take, and the targets do not; "" for nothing.

    The texts of SHOW CREATE TABLE; unknown ("") keeps out nothing. made: what the target tables were made by.
    """
    if before == after:
        return ""
    try:
        old, new, there = (tokens(one, 0, _ALL_VERSIONS, mariadb=mariadb) for one in (before, after, made))
    except ValueError as error:
        return f"which rows it takes cannot be read: {error}"
    for what, of in (("CHECK", _checks), ("PERIOD", _periods)):
        if set(of(old)) & set(of(there)) - set(of(new)):
            return f"a {what} that the target tables have is lifted"
    if {*key_parts.only_of(made, after)} - {*key_parts.only_of(made, before)}:
        return "a unique key that the target tables have tells other rows apart"
    bounds = _bounds(old) if _bounds(there) else ()
    return "its partitions take other rows than those of the target tables" if bounds and bounds != _bounds(new) else ""


def added(before: str, after: str, had: Collection[str], *, mariadb: bool) -> str:
    """What the second definition keeps out by columns of before, and the first one takes; "" for nothing.

    The texts of SHOW CREATE TABLE. had: the names of those columns. What only new columns say keeps out no row that
    comes without them: the source has such rows too, with the same values there.
    """
    try:
        old, new = (tokens(one, 0, _ALL_VERSIONS, mariadb=mariadb) for one in (before, after))
    except ValueError as error:
        return f"which rows it takes cannot be read: {error}"
    names = {name.lower() for name in had}
    for what, of in (("CHECK", _checks), ("PERIOD", _periods)):
        if any(not names.isdisjoint(text.lower() for text in one) for one in set(of(new)) - set(of(old))):
            return f"it adds a {what} over columns that are there"
    return ""


def _checks(found: Sequence[Token]) -> list[tuple[str, ...]]:
    """The conditions that are enforced, of the table and, on MariaDB, of single columns."""
    kept = []
    for at, token in enumerate(found):
        if not (token.is_word("CHECK") and at + 1 < len(found) and found[at + 1].is_sign("(")):
            continue
        end = _closing(found, at + 1)
        if _texts(found[end + 1 : end + 3]) != ("NOT", "ENFORCED"):
            kept.append(_condition(found[at + 2 : end]))
    return kept


def _periods(found: Sequence[Token]) -> list[tuple[str, ...]]:
    """The columns of each period of application time: the first is below the second (`migrate.mysql.periods`)."""
    places = [at for at, token in enumerate(found) if token.is_word("PERIOD") and found[at + 1].is_word("FOR")]
    return [_texts(found[at + 4 : _closing(found, at + 3)]) for at in places if found[at + 3].is_sign("(")]


def _condition(found: Sequence[Token]) -> tuple[str, ...]:
    """A condition's tokens without what MySQL prints otherwise after the next ALTER of any kind: it converts literals
    to the column's character set, and _utf8mb4'é' becomes _latin1 X'e9' (`definition.readable`)."""
    kept: list[str] = []
    for token in found:
        if token.kind == "string":
            text = token.text
            if len(kept) > 1 and kept[-1] == "X" and kept[-2].startswith("_"):
                kept.pop()
                coded = bytes.fromhex(text[1:-1])
                text = f"'{coded.decode(codec_of(kept[-1][1:]), 'replace')}'"
            if kept and kept[-1].startswith("_"):
                kept.pop()
            kept.append(_CONVERTED.sub("?", text))
        else:
            kept.append(token.text)
    return tuple(kept)


def _bounds(found: Sequence[Token]) -> tuple[tuple[str, ...], ...]:
    """By what RANGE and LIST partitions are made, and the values that they take; nothing where they take every one.

    Of RANGE the last bound says it, so that a partition which is split below it changes nothing.
    """
    begin = next((at for at, token in enumerate(found) if token.depth == 0 and token.is_word("PARTITION")), 0)
    if not begin or not found[begin + 2].is_word("RANGE", "LIST"):  # PARTITION BY …
        return ()
    ranges = found[begin + 2].is_word("RANGE")
    taken = [_value(found, at) for at in range(begin, len(found)) if found[at].is_word("VALUES", "DEFAULT")]
    if any(all(word in _REST for word in value) for value in (taken[-1:] if ranges else taken)):
        return ()
    opening = next(at for at in range(begin, len(found)) if found[at].is_sign("("))
    return (_texts(found[begin + 2 : _closing(found, opening)]), *(taken[-1:] if ranges else sorted(taken)))


def _value(found: Sequence[Token], at: int) -> tuple[str, ...]:
    """What is taken by VALUES LESS THAN (…), VALUES LESS THAN MAXVALUE, VALUES IN (…), or MariaDB's DEFAULT."""
    while not (found[at].is_sign("(") or found[at].is_word(*_REST)):
        at += 1
    return _texts(found[at + 1 : _closing(found, at)]) if found[at].is_sign("(") else (found[at].text,)


def _closing(found: Sequence[Token], at: int) -> int:
    """Where the parenthesis closes that opens at a place."""
    depth = found[at].depth
    return next(end for end in range(at + 1, len(found)) if found[end].is_sign(")") and found[end].depth == depth)


def _texts(found: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text for token in found)
