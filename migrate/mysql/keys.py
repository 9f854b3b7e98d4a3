"""Keys in SQL: canonical texts go as parameters, and the server compares."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.model.change import Key
from migrate.model.table import Column, Table
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.values import Parameter, key_placeholder, parameter

Condition = tuple[str, list[Parameter]]


def among(table: Table, keys: Sequence[Key]) -> Condition:
    """What a WHERE clause says for these keys, with its parameters."""
    columns = table.key_columns
    marks = ", ".join(key_placeholder(column) for column in columns)
    converts = [parameter(column) for column in columns]
    values = [convert(text) for key in keys for convert, text in zip(converts, key, strict=True)]
    if len(columns) == 1:
        return f"{quote(columns[0].name)} IN ({', '.join([marks] * len(keys))})", values
    return f"({quote_all(table.key)}) IN ({', '.join([f'({marks})'] * len(keys))})", values


def key_parameters(columns: Sequence[Column], key: Key) -> list[Parameter]:
    return [parameter(column)(text) for column, text in zip(columns, key, strict=True)]
