"""Rows as the text of a statement: the driver's escaping, chosen once a column instead of once a value.

Most values of a stream are texts without a character to escape, or whole numbers. Going through a parameter each costs
several times what the rest of writing a row does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pymysql.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES
from pymysql.converters import escape_string

from migrate.model.message import Row
from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.values import parameter, placeholder

Literal = Callable[[str | None], str]
_SPECIAL = re.compile("[\0\\\\\n\r\x1a\"']")
"""What `escape_string` changes."""


class RowLiterals:
    """Makes `(1,'a',NULL)` of a row's canonical texts, for one session's kind of server."""

    def __init__(self, table: Table, connection: Connection) -> None:
        """Of the session only its way to escape is kept."""
        self._columns = [(column.name, _literal(column, connection)) for column in table.stored]

    def text(self, row: Row) -> str:
        """Raises KeyError for a column that the row lacks, StopError for a value that is none."""
        return "(" + ",".join([literal(row[name]) for name, literal in self._columns]) + ")"


def suits(connection: Connection) -> bool:
    """Whether a backslash escapes in this session, as this module takes for granted."""
    status = int(connection.raw.server_status)  # type: ignore[attr-defined]
    return not status & SERVER_STATUS_NO_BACKSLASH_ESCAPES


def _literal(column: Column, connection: Connection) -> Literal:
    convert, mark = parameter(column), placeholder(column)
    escape: Callable[[object], str] = connection.raw.escape
    if column.kind is Kind.JSON:

        def document(text: str | None) -> str:
            value = convert(text)  # a text where no scalar in it has a type of its own
            return _quoted(value) if value is None or isinstance(value, str) else escape(value)

        return document
    if convert("0") == "0" and mark == "%s":
        return _quoted
    if convert("0") == 0 and mark == "%s":
        return lambda text: "NULL" if text is None else str(convert(text))
    before, _, behind = mark.partition("%s")
    return lambda text: f"{before}{escape(convert(text))}{behind}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    if _SPECIAL.search(text) is None:
        return f"'{text}'"
    return f"'{escape_string(text)}'"
