"""Identifiers. Values are never quoted here: they travel as parameters."""

from __future__ import annotations

from collections.abc import Iterable


def quote(identifier: str) -> str:
    """A name as it may stand in a statement: `` a`b `` becomes `` `a``b` `` (and % is doubled for the driver)."""
    return "`" + identifier.replace("`", "``").replace("%", "%%") + "`"


def printed(identifier: str) -> str:
    """A name as a server prints it in a definition: as `quote`, with % as it is."""
    return "`" + identifier.replace("`", "``") + "`"


def quote_all(identifiers: Iterable[str]) -> str:
    return ", ".join(quote(identifier) for identifier in identifiers)


def table(database: str, name: str) -> str:
    return f"{quote(database)}.{quote(name)}"


def printed_table(database: str, name: str) -> str:
    """As `table`, with % as it is: for people, and for statements without parameters."""
    return f"{printed(database)}.{printed(name)}"
