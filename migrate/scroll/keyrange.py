"""Key ranges `(low, high]` of a table: their condition in SQL, and their text in state tables.

The server compares, never Python: keys travel as canonical texts and come back as parameters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from migrate.model.change import Key, key_json
from migrate.model.table import Column, Table
from migrate.mysql.keys import Condition, key_parameters
from migrate.mysql.quoting import quote
from migrate.mysql.values import Parameter, key_placeholder
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
    """What a WHERE clause says for `(low, high]`, with its parameters.

    A composite key is compared part by part, `a > 1 OR (a = 1 AND b > 2)`: from that form both servers read ranges
    of the index, from a row constructor MySQL does not (manual, "Range Optimization of Row Constructor Expressions").
    """
    parts: list[Condition] = []
    if low is not None:
        parts.append(_beyond(table.key_columns, low, ">", ">"))
    if high is not None:
        parts.append(_beyond(table.key_columns, high, "<", "<="))
    if not parts:
        return "1 = 1", []
    return " AND ".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def order(table: Table, descending: bool = False) -> str:
    return ", ".join(f"{quote(name)}{' DESC' if descending else ''}" for name in table.key)


def _beyond(columns: Sequence[Column], bound: Key, strict: str, last: str) -> Condition:
    """`columns` on one side of `bound`: strictly, but the last part as `last` says."""
    values = key_parameters(columns, bound)
    names = [quote(column.name) for column in columns]
    marks = [key_placeholder(column) for column in columns]
    ways: list[str] = []
    arguments: list[Parameter] = []
    for index in range(len(columns)):
        equal = [f"{names[before]} = {marks[before]}" for before in range(index)]
        operator = last if index == len(columns) - 1 else strict
        ways.append("(" + " AND ".join([*equal, f"{names[index]} {operator} {marks[index]}"]) + ")")
        arguments += values[: index + 1]
    return "(" + " OR ".join(ways) + ")", arguments
