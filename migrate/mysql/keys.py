"""Keys in SQL: the one place that says how a key's column is written as a value, and how it is compared.

What the servers make of a comparison (MySQL manual, "Type Conversion in Expression Evaluation" and "Comparison
Functions and Operators"; MariaDB, "Type Conversion") decides the form of each type:

- DECIMAL and a string are compared as doubles, which from 2^53 on take neighbours for one: it is written as a number.
- ENUM and SET are compared with a number by their index or bits, as text they would be by a collation. Inside a row
  constructor MySQL compares them as text with the number's digits, and nothing matches; see `_IN_ROWS`.
- SET and a number are compared as doubles, and MySQL sorts one of 64 members as signed numbers: one of more than 53
  members is compared by its bits, at the price of the index.
- BIGINT, BIT and YEAR are compared with whole numbers exactly, of either sign.
- FLOAT and DOUBLE are compared as doubles with the digits that read back as the same double; -0 equals 0.
- Dates and times are compared as such with complete texts; TIMESTAMP in UTC, as every session of ours is.
- Texts are compared under the column's own collation, bytes byte by byte.

MariaDB turns an IN with in_predicate_conversion_threshold (1,000) values into a join with a temporary table, whose
columns have types of their own: a list stays below that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from migrate.model.change import Key
from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.flavours import collation_on
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.values import Parameter, parameter, placeholder

Condition = tuple[str, list[Parameter]]
"""What a WHERE clause says, with its parameters."""

_IN_ROWS = frozenset({Kind.INT, Kind.BINARY, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
"""Kinds that both servers compare alike inside and outside of a row constructor. It costs two thirds of what the same
by AND and OR does, so keys of these alone, which are most, are looked up by it."""
_LISTED = 900
"""Values in one IN, below MariaDB's threshold."""
_MEMBER = re.compile(r"'(?:[^']|'')*'")
_EXACT_BITS = 53
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def among(table: Table, keys: Sequence[Key]) -> Condition:
    """Rows with one of these keys, at least one."""
    columns = table.key_columns
    converts = [key_parameter(column) for column in columns]
    parameters = [convert(text) for key in keys for convert, text in zip(converts, key, strict=True)]
    if len(columns) > 1 and not all(column.kind in _IN_ROWS for column in columns):
        return _any([f"({_equal(columns)})"] * len(keys)), parameters
    names = side(columns[0]) if len(columns) == 1 else f"({quote_all(table.key)})"
    marks = ", ".join(map(mark, columns))
    one = marks if len(columns) == 1 else f"({marks})"
    most = max(1, _LISTED // len(columns))
    lists = [f"{names} IN ({', '.join([one] * count)})" for count in _sizes(len(keys), most)]
    return _any(lists), parameters


def equal(columns: Sequence[Column], texts: Sequence[str]) -> Condition:
    """Rows with these values, none NULL, in columns that need not be of a table's key."""
    return _equal(columns), key_parameters(columns, texts)


def above(table: Table, key: Key) -> Condition:
    """Rows behind a key, in the order of `order`."""
    return _beyond(table.key_columns, key, ">", ">")


def up_to(table: Table, key: Key) -> Condition:
    """Rows before a key, in the order of `order`, and the key itself."""
    return _beyond(table.key_columns, key, "<", "<=")


def order(table: Table, *, descending: bool = False) -> str:
    """The columns of an ORDER BY that `above` and `up_to` agree with."""
    return ", ".join(f"{side(column)}{' DESC' if descending else ''}" for column in table.key_columns)


def weights(columns: Sequence[Column], key: Key, flavour: str) -> Condition:
    """A text that is the same for two keys exactly where the server takes them for one, as SQL with its parameters.

    flavour: of the server that computes it.
    """
    parts = ", ".join(f"HEX({_weight(column, flavour)})" for column in columns)
    values = [parameter(column)(_one_zero(column, text)) for column, text in zip(columns, key, strict=True)]
    return f"CONCAT_WS(',', {parts})", values


def _weight(column: Column, flavour: str) -> str:
    if column.kind not in (Kind.TEXT, Kind.RAWTEXT):
        return placeholder(column)
    text = f"CONVERT({placeholder(column)} USING {column.charset})"
    collation = collation_on(flavour, column.collation)
    pads = "_nopad_" not in collation and "_0900_" not in collation
    trimmed = f"TRIM(TRAILING ' ' FROM {text})" if pads else text
    return f"WEIGHT_STRING({trimmed} COLLATE {collation})"


def _one_zero(column: Column, text: str) -> str:
    return "0.0" if column.kind in (Kind.FLOAT, Kind.DOUBLE) and text == "-0.0" else text


def key_parameters(columns: Sequence[Column], texts: Sequence[str]) -> list[Parameter]:
    """The values that stand for the marks of a key. Raises StopError for a text that is none of its column's."""
    return [key_parameter(column)(text) for column, text in zip(columns, texts, strict=True)]


def key_parameter(column: Column) -> Callable[[str | None], Parameter]:
    """A function from canonical text to the driver's value, to be compared with the column."""
    return _to_decimal(column) if column.kind is Kind.DECIMAL else parameter(column)


def mark(column: Column) -> str:
    """What stands for a value that is compared with the column: under the column's own collation."""
    if column.kind is Kind.RAWTEXT:
        return f"{placeholder(column)} COLLATE {column.collation}"  # both flavours have it, or preflight refused it
    return placeholder(column)


def _any(ways: Sequence[str]) -> str:
    return ways[0] if len(ways) == 1 else f"({' OR '.join(ways)})"


def _equal(columns: Sequence[Column]) -> str:
    return " AND ".join(f"{side(column)} = {mark(column)}" for column in columns)


def _beyond(columns: Sequence[Column], bound: Key, strict: str, last: str) -> Condition:
    """`columns` on one side of `bound`: strictly, but the last part as `last` says.

    A composite key is compared part by part, `a > 1 OR (a = 1 AND b > 2)`: from that form both servers read ranges
    of the index, from a row constructor MySQL does not (manual, "Range Optimization of Row Constructor Expressions").
    """
    values = key_parameters(columns, bound)
    ways: list[str] = []
    arguments: list[Parameter] = []
    for index, column in enumerate(columns):
        equal_before = [_equal(columns[:index])] if index else []
        operator = last if index == len(columns) - 1 else strict
        ways.append("(" + " AND ".join([*equal_before, f"{side(column)} {operator} {mark(column)}"]) + ")")
        arguments += values[: index + 1]
    return "(" + " OR ".join(ways) + ")", arguments


def side(column: Column) -> str:
    """The column's side of a comparison."""
    if column.kind is Kind.SET and len(_MEMBER.findall(column.type)) > _EXACT_BITS:
        return f"({quote(column.name)} | 0)"  # its 64 bits; of a CAST MariaDB warns in a DELETE
    return quote(column.name)


def _to_decimal(column: Column) -> Callable[[str | None], Parameter]:
    def convert(text: str | None) -> Parameter:
        if text is None:
            return None
        if _DECIMAL.fullmatch(text) is None:
            raise StopError(f"{column.titled}: {column.kind} value is not a number", code=Code.VALUE)
        return Decimal(text)  # every digit of it, which the driver writes without an exponent

    return convert


def _sizes(count: int, most: int) -> Iterator[int]:
    for start in range(0, count, most):
        yield min(most, count - start)
