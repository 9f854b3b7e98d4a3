"""Application-time periods of MariaDB (MariaDB documentation, "Application-Time Periods").

`PERIOD FOR p (a, b)` keeps out rows whose `a` is not below `b`. A key `WITHOUT OVERLAPS` keeps out rows by all others
of the same key: the pieces of a row that was cut come in one transaction, and a target that takes them in another order
refuses them.
"""

from __future__ import annotations

import re

from migrate.model.table import Kind, Table

_EXCLUSIVE = re.compile(r"^[ \t]*+((?:PRIMARY|UNIQUE) KEY (?:`(?:[^`]|``)*` )?\(.*WITHOUT OVERLAPS\))", re.MULTILINE)
_PERIOD = re.compile(r"^[ \t]*+(PERIOD FOR `(?:[^`]|``)+` \((?:`(?:[^`]|``)+`(?:, )?){2}\))", re.MULTILINE)
_MOMENTS = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
WHY = "excludes rows whose periods overlap, and their changes may come in any order"
"""Said behind a key."""


def exclusive(statement: str) -> list[str]:
    """The keys WITHOUT OVERLAPS, as they are defined. statement: SHOW CREATE TABLE's."""
    return _EXCLUSIVE.findall(statement)


def exclusive_added(before: str, after: str) -> str:
    """The keys WITHOUT OVERLAPS of a second definition that the first one lacks; "" for none."""
    had = {*exclusive(before)}
    return ", ".join(key for key in exclusive(after) if key not in had)


def may_be_exclusive(table: Table) -> bool:
    """Whether a table's columns and keys allow of one: the catalog shows it as a key that ends with two moments."""
    return any(
        len(key) > 1 and all(_is_moment(table, name) for name in key[-2:]) for key in (table.key, *table.unique_keys)
    )


def _is_moment(table: Table, name: str) -> bool:
    return name in table.by_name and table.by_name[name].kind in _MOMENTS


def periods(statement: str) -> list[str]:
    """The periods, as they are defined. statement: SHOW CREATE TABLE's."""
    return _PERIOD.findall(statement)
