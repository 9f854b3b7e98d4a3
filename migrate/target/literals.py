"""Rows as the text of a statement: the driver's escaping, chosen once a column instead of once a value.

Most values of a stream are texts without a character to escape, or whole numbers. Going through a parameter each costs
several times what the rest of writing a row does. So a function is generated for a table that looks at all texts of a
row at once, and at all its numbers, and leaves to the slow way what has anything else in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from pymysql.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES
from pymysql.converters import escape_string

from migrate.model.message import Row
from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.values import Parameter, parameter, placeholder

Literal = Callable[[str | None], str]
_SPECIAL = re.compile("[\0\\\\\n\r\t\x1a']")
"""What a text cannot have between apostrophes as it is; and a tab, which in JSON says that a scalar has a type."""


class RowLiterals:
    """Makes `(1,'a',NULL)` of a row's canonical texts, for one session's kind of server."""

    def __init__(self, table: Table, connection: Connection) -> None:
        """Of the session only its way to escape is kept."""
        self._columns = [(column.name, _literal(column, connection)) for column in table.stored]
        self.text = _generated(self._columns, self._slow)
        """Raises KeyError for a column that the row lacks, StopError for a value that is none."""

    def _slow(self, row: Row) -> str:
        return "(" + ",".join([literal(row[name]) for name, literal in self._columns]) + ")"


def _generated(columns: Sequence[tuple[str, Literal]], slow: Callable[[Row], str]) -> Callable[[Row], str]:
    """`slow`, as one expression over all columns. Names stand in it as Python quotes them, values never."""
    scope: dict[str, Any] = {"slow": slow, "special": _SPECIAL.search}
    values, texts, numbers, literals = [], [], [], []
    for at, (name, literal) in enumerate(columns):
        values.append(f"v{at} = row[{name!r}]")
        if literal is _quoted or isinstance(literal, _Document):
            texts.append(f"{{v{at}}}")
            literals.append(f"'NULL' if v{at} is None else f\"'{{v{at}}}'\"")
        elif isinstance(literal, _Number):
            numbers.append(f"{{0 if v{at} is None else v{at}}}")
            literals.append(f"'NULL' if v{at} is None else v{at}")
        else:
            scope[f"literal{at}"] = literal
            literals.append(f"literal{at}(v{at})")
    refused = []
    if texts:
        refused.append(f"special(f'{''.join(texts)}')")
    if numbers:  # so many, and nothing else: a comma inside a value would be one number too many
        scope["whole"] = re.compile("-?[0-9]+" + f"(?:,-?[0-9]+){{{len(numbers) - 1}}}").fullmatch
        refused.append(f"not whole(f'{','.join(numbers)}')")
    check = f"if {' or '.join(refused)}: return slow(row)" if refused else "pass"
    body = [*values, check, f"return '(' + ','.join(({', '.join(literals)},)) + ')'"]
    exec("def text(row):\n    " + "\n    ".join(body), scope)  # noqa: S102  names alone come from outside, by repr
    return cast("Callable[[Row], str]", scope["text"])


class _Number:
    """A whole number, as the column takes it."""

    def __init__(self, convert: Callable[[str | None], Parameter]) -> None:
        self._convert = convert

    def __call__(self, text: str | None) -> str:
        return "NULL" if text is None else str(self._convert(text))


class _Document:
    """JSON: a text where no scalar in it has a type of its own, else an expression."""

    def __init__(self, convert: Callable[[str | None], Parameter], escape: Callable[[object], str]) -> None:
        self._convert = convert
        self._escape = escape

    def __call__(self, text: str | None) -> str:
        value = self._convert(text)
        return _quoted(value) if value is None or isinstance(value, str) else self._escape(value)


def suits(connection: Connection) -> bool:
    """Whether a backslash escapes in this session, as this module takes for granted."""
    status = int(connection.raw.server_status)  # type: ignore[attr-defined]
    return not status & SERVER_STATUS_NO_BACKSLASH_ESCAPES


def _literal(column: Column, connection: Connection) -> Literal:
    convert, mark = parameter(column), placeholder(column)
    escape: Callable[[object], str] = connection.raw.escape
    if column.kind is Kind.JSON:
        return _Document(convert, escape)
    if convert("0") == "0" and mark == "%s":
        return _quoted
    if convert("0") == 0 and mark == "%s":
        return _Number(convert)
    before, _, behind = mark.partition("%s")
    return lambda text: f"{before}{escape(convert(text))}{behind}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    if _SPECIAL.search(text) is None:
        return f"'{text}'"
    return f"'{escape_string(text)}'"
