"""Clauses of an ALTER TABLE without effect on what the table is.

Those with IF [NOT] EXISTS (MariaDB knowledge base, "ALTER TABLE"), which the server judges by the table as it was
before the statement; and those that say in which files of its server the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from migrate.publish.schema import storage
from migrate.publish.schema.alter_effects import NOT_COLUMNS
from migrate.publish.schema.ddl import Ddl
from migrate.publish.schema.sqltext import Token, tokens
from migrate.publish.schema.token_cursor import Name

_IF_THERE = ("IF", "EXISTS")
_ALL_VERSIONS = 999999
_IF_ABSENT = ("IF", "NOT", "EXISTS")


def effective(ddl: Ddl, columns: Collection[str], create: str, *, mariadb: bool) -> Ddl:
    """The statement without clauses that find their column or their partitions absent, or their column there already,
    or change where the table is stored. columns, create: of the table before it, the latter as its server prints it."""
    there = {name.lower() for name in columns}
    kept = tuple(clause for clause in ddl.clauses if not _is_void(clause, there))
    if any(_dropped(clause) for clause in kept) and create:
        names = {one.text.lower() for one in tokens(create, 0, _ALL_VERSIONS, mariadb=mariadb) if one.is_name}
        kept = tuple(one for one in kept if not _dropped(one) or any(name in names for name in _dropped(one)))
    return replace(ddl, clauses=kept)


def renamed(pairs: Sequence[tuple[Name, Name]], there: Callable[[Name], bool]) -> list[tuple[Name, Name]]:
    """The pairs of a RENAME IF EXISTS, old and new names, that had an effect, as far as it can be known: where the new
    name is a table's, the server would have refused if there had been one of the old name. there: before it."""
    now: dict[Name, bool] = {}
    found = []
    for old, new in pairs:
        if not now.get(new, there(new)):
            found.append((old, new))
            now |= {old: False, new: True}
    return found


def _dropped(clause: Sequence[Token]) -> list[str]:
    """The names of DROP PARTITION IF EXISTS, in small letters; none for other clauses."""
    words = ("DROP", "PARTITION", *_IF_THERE)
    if len(clause) <= len(words) or not all(token.is_word(word) for token, word in zip(clause, words, strict=False)):
        return []
    return [token.text.lower() for token in clause[len(words) :] if not token.is_sign(",")]


def _is_void(clause: Sequence[Token], there: Collection[str]) -> bool:
    verb = clause[0] if clause else None
    if storage.is_about(clause):
        return True
    if verb is None or not verb.is_word("ADD", "DROP", "MODIFY", "CHANGE", "ALTER", "RENAME"):
        return False
    rest = clause[2:] if len(clause) > 1 and clause[1].is_word("COLUMN") else clause[1:]
    if verb.is_word("RENAME") and len(rest) == len(clause) - 1:
        return False  # of the table, or of an index
    wanted = _IF_ABSENT if verb.is_word("ADD") else _IF_THERE
    if len(rest) <= len(wanted) or not all(token.is_word(word) for token, word in zip(rest, wanted, strict=False)):
        return False
    names = _names(rest[len(wanted) :])
    return all(name.is_name and (name.text.lower() in there) is verb.is_word("ADD") for name in names)


def _names(found: Sequence[Token]) -> Sequence[Token]:
    """The column's name, or those of ADD (a INT, b INT); an index among them counts as a name that is none."""
    opening = found[0]
    if not opening.is_sign("("):
        return found[:1]
    inside = [at for at, one in enumerate(found) if one.depth == opening.depth + 1]
    begins = [1, *(at + 1 for at in inside if found[at].is_sign(","))]
    return [opening if found[at].is_word(*NOT_COLUMNS) else found[at] for at in begins]
