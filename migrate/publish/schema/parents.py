"""Tables of other databases that foreign keys refer to, under names in the database where a statement is tried: both
servers ask for REFERENCES on a parent even where `foreign_key_checks` is off, and nobody gives it on a database that is
not there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrate.mysql.quoting import quote
from migrate.publish.schema.sqltext import Token
from migrate.publish.schema.token_cursor import Mention, Name

_NAME = r"`(?:[^`]|``)+`"
_CLAUSE = re.compile(
    rf"^(\s*CONSTRAINT {_NAME} FOREIGN KEY \({_NAME}(?:, {_NAME})*\) REFERENCES )({_NAME})(?:\.({_NAME}))? ", re.M
)
"""Of a definition as a server prints it, up to the parent's name."""


def parents_in(found: Sequence[Token]) -> list[Mention]:
    """The parents in a statement that are named with a database."""
    return [
        Mention((found[at + 1].text, found[at + 3].text), found[at + 1].start, found[at + 3].end)
        for at in range(len(found) - 3)
        if found[at].is_word("REFERENCES")
        and found[at + 1].is_name
        and found[at + 2].is_sign(".")
        and found[at + 3].is_name
    ]


class Aliases:
    """Names that stand for parents, while one statement is tried."""

    def __init__(self, prefix: str) -> None:
        """prefix: how the names begin; no table there has one."""
        self._prefix = prefix
        self._by_parent: dict[Name, str] = {}

    def of(self, parent: Name) -> str:
        return self._by_parent.setdefault(parent, f"{self._prefix}_parent_{len(self._by_parent)}")

    def in_definition(self, create: str) -> str:
        """A CREATE TABLE as a server prints it, with these names."""

        def named(found: re.Match[str]) -> str:
            head, first, second = found.groups()
            return f"{head}`{self.of((_plain(first), _plain(second)))}` " if second else found[0]

        return _CLAUSE.sub(named, create)

    def undone(self, create: str, database: str) -> str:
        """One that was made with these names, with the parents' own, as it is said of a table in this database."""
        parents = {alias: parent for parent, alias in self._by_parent.items()}

        def named(found: re.Match[str]) -> str:
            head, first, second = found.groups()
            parent = None if second else parents.get(_plain(first))
            if parent is None:
                return found[0]
            path = parent[1:] if parent[0] == database else parent
            return f"{head}{'.'.join(quote(name).replace('%%', '%') for name in path)} "

        return _CLAUSE.sub(named, create)


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`")
