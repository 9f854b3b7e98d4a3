"""Foreign keys as SHOW CREATE TABLE prints them, and which servers log what they change by themselves."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from migrate.mysql.capabilities import Capability, can
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import printed

_NAME = r"`(?:[^`]|``)+`"
_LIST = rf"\(({_NAME}(?:, {_NAME})*)\)"
_CLAUSE = re.compile(
    rf"^\s*CONSTRAINT ({_NAME}) FOREIGN KEY {_LIST} REFERENCES ({_NAME})(?:\.({_NAME}))? {_LIST}(.*)$", re.M
)
_NAMES = re.compile(_NAME)
_RULE = re.compile(r"ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)")
_QUOTED_LINE = " FOREIGN KEY "


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """columns: of the child, in the order of `referenced`, the columns of the parent. on_delete, on_update: what the
    server does with child rows ("CASCADE", "SET NULL", "SET DEFAULT"); "" where it only refuses."""

    name: str
    columns: tuple[str, ...]
    parent: tuple[str, str]  # database and table
    referenced: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    def by_names_of(self, parent: Collection[str]) -> ForeignKey | None:
        """The key with the names that the parent's columns have: a definition may print them in other letters (MySQL
        8.0 in small ones; each server as they were typed, where the child was there first). None where the parent has
        no such columns.
        """
        names = {name.lower(): name for name in parent}
        if not {name.lower() for name in self.referenced} <= names.keys():
            return None
        return replace(self, referenced=tuple(names[name.lower()] for name in self.referenced))

    @property
    def cascades(self) -> bool:
        return bool(self.on_delete or self.on_update)

    @property
    def rules(self) -> str:
        """As a definition says them: "ON DELETE CASCADE, ON UPDATE SET NULL"."""
        said = (("DELETE", self.on_delete), ("UPDATE", self.on_update))
        return ", ".join(f"ON {event} {rule}" for event, rule in said if rule)


@lru_cache(maxsize=4096)
def foreign_keys(create: str, database: str) -> tuple[ForeignKey, ...]:
    """The foreign keys of a table.

    Args: create: its SHOW CREATE TABLE, which shows them also to a user who may only SELECT; information_schema does
    not. database: its own, which the statement leaves out of references to its tables.
    """
    if _QUOTED_LINE not in create:
        return ()
    found = []
    for name, columns, first, second, referenced, rules in _CLAUSE.findall(create):
        on = dict(_RULE.findall(rules))
        parent = (_plain(first), _plain(second)) if second else (database, _plain(first))
        found.append(
            ForeignKey(
                _plain(name), _list(columns), parent, _list(referenced), on.get("DELETE", ""), on.get("UPDATE", "")
            )
        )
    return tuple(found)


def with_referenced(create: str, name: str, columns: tuple[str, ...]) -> str:
    """A CREATE TABLE statement whose foreign key of this name refers to these columns."""

    def renamed(found: re.Match[str]) -> str:
        if _plain(found[1]) != name:
            return found[0]
        start, end = found.start(0), found.start(5)
        listed = ", ".join(map(printed, columns))
        return found.string[start:end] + listed + found.string[found.end(5) : found.end(0)]

    return _CLAUSE.sub(renamed, create)


def logs_cascades(connection: Connection) -> bool:
    """Whether rows that a foreign key changes are in this server's binlog.

    MySQL 9.6 moved foreign keys into the SQL layer, where that is not set otherwise; their cascades are logged since
    (MySQL manual, "innodb_native_foreign_keys"). InnoDB's own are in no log.
    """
    if not can(connection, Capability.CASCADES_IN_LOG):
        return False
    return show_variables(connection, "innodb_native_foreign_keys").get("innodb_native_foreign_keys", "OFF") == "OFF"


def _list(names: str) -> tuple[str, ...]:
    return tuple(_plain(name) for name in _NAMES.findall(names))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`")
