"""Key ranges `(low, high]` of a table: their condition in SQL, and their text in state tables.

The server compares, never Python: keys travel as canonical texts and come back as parameters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from migrate.model.change import Key, key_json
from migrate.model.table import Table
from migrate.mysql.keys import Condition, above, up_to
from migrate.target.chunk_fence import Chunk


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys above `low` up to `high`; None stands for the open end."""

    number: int
    low: Key | None
    high: Key | None

    @property
    def chunk(self) -> Chunk:
        return Chunk(self.number, dump(self.low), dump(self.high))


def dump(bound: Key | None) -> str | None:
    """A bound as state tables keep it: a JSON list of texts, or None."""
    return None if bound is None else key_json(bound)


def load(text: str | None) -> Key | None:
    return None if text is None else tuple(json.loads(text))


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
