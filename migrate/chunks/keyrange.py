"""Key ranges `(low, high]` of a table: their condition in SQL.

The server compares, never Python: keys travel as canonical texts and come back as parameters.
"""

from __future__ import annotations

from migrate.model.change import Key
from migrate.model.table import Table
from migrate.mysql.keys import Condition, above, up_to


def condition(table: Table, low: Key | None, high: Key | None) -> Condition:
    """What a WHERE clause says for `(low, high]`, with its parameters."""
    parts: list[Condition] = []
    if low is not None:
        parts.append(above(table, low))
    if high is not None:
        parts.append(up_to(table, high))
    if not parts:
        return "1 = 1", []
    return " AND ".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def added(where: str, text: str) -> str:
    """A condition, and that the rows are of the part too. A comment in it ends with its line."""
    return f"({where}) AND ({text.replace('%', '%%')}\n)" if text else where
