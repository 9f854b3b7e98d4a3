"""Characters that SHOW CREATE TABLE prints as a question mark, asked of the server in another way.

Both servers keep the labels of ENUM and SET as they are, and print them, and MariaDB defaults too, by way of a
character set of three bytes a character: '😀' becomes '?'. A column in a common table expression has the type of the
first SELECT (MySQL manual, "WITH (Common Table Expressions)"), and an integer that a recursive one puts there is taken
as the number of a label, or of a set of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from migrate.model.errors import Code, StopError
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import table

_LABELLED = re.compile(r"^[ \t]*+(`(?:[^`]|``)+`) (enum|set)\(((?:'(?:[^']|'')*+',?)++)\)", re.M | re.I)
_DEFAULT = re.compile(r"^[ \t]*+(`(?:[^`]|``)+`) (?:'(?:[^']|'')*+'|[^'\n])*? DEFAULT ('(?:[^']|'')*+')", re.MULTILINE)
_QUOTED = re.compile(r"'(?:[^']|'')*+'")
_LOST = "?"
_BASIC = 0xFFFF
"""The last character of three bytes in UTF-8."""


def restored(connection: Connection, database: str, name: str, statement: str) -> str:
    """A CREATE TABLE statement as the server prints it of a table, with the characters that it lost.

    Raises: StopError where the server does not say which they are; the driver's error.
    """
    if _LOST not in statement:
        return statement
    where = table(database, name)

    def labels(found: re.Match[str]) -> str:
        printed = _QUOTED.findall(found[3])
        wanted = [number for number, label in enumerate(printed, 1) if _LOST in label]
        if not wanted:
            return found[0]
        if not can(connection, Capability.RECURSIVE_CTE):
            raise _untold(connection, where, found[1])
        exact = _labels(connection, where, found[1], [_number(found[2], one) for one in wanted])
        for number, text in zip(wanted, exact, strict=True):
            printed[number - 1] = _filled(connection, where, found[1], printed[number - 1], text)
        return found[0].replace(found[3], ",".join(printed), 1)

    def default(found: re.Match[str]) -> str:
        if _LOST not in found[2]:
            return found[0]
        if (text := _default(connection, where, found[1])) is None:
            return found[0]  # nobody says: most often it is a question mark
        start = found.start(2) - found.start()
        return found[0][:start] + _filled(connection, where, found[1], found[2], text)

    statement = _LABELLED.sub(labels, statement)
    return _DEFAULT.sub(default, statement) if connection.flavour == "mariadb" else statement


def _number(kind: str, place: int) -> int:
    """What an integer is that stands for one label."""
    return place if kind.lower() == "enum" else 1 << (place - 1)


def _labels(connection: Connection, where: str, column: str, numbers: Sequence[int]) -> list[str]:
    """The labels of these numbers, in their order."""
    wanted = " UNION ALL ".join(f"SELECT {number} AS number" for number in numbers)
    rows = _asked(
        connection,
        f"WITH RECURSIVE made (label, number) AS (SELECT t.{column}, 0 {_one_row(where)}"
        f" UNION ALL SELECT one.number, one.number FROM made JOIN ({wanted}) AS one ON made.number = 0)"
        " SELECT number, CONVERT(label USING utf8mb4) FROM made WHERE number > 0",
    )
    found = {int(number): _text(label) for number, label in rows}
    return [found[number] for number in numbers]


def _default(connection: Connection, where: str, column: str) -> str | None:
    """None where there is no row to ask by, of a column that is NOT NULL."""
    for rows in (f"FROM {where} AS t LIMIT 1", _one_row(where)):
        for (value,) in _asked(connection, f"SELECT CONVERT(DEFAULT(t.{column}) USING utf8mb4) {rows}"):
            if value is not None:
                return _text(value)
    return None


def _asked(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """A statement without parameters, whose names may have the driver's mark of one."""
    return connection.query(sql.replace("%", "%%"))


def _text(value: str | bytes) -> str:
    """Of a session that gives the server's own bytes too."""
    return value if isinstance(value, str) else value.decode("utf-8")


def _one_row(where: str) -> str:
    """A row of NULLs, with the columns' types."""
    return f"FROM (SELECT 1 AS x) AS one_row LEFT JOIN {where} AS t ON FALSE"


def _filled(connection: Connection, where: str, column: str, printed: str, exact: str) -> str:
    """A literal as it is printed, its question marks by what they stand for."""
    marks = [sign for sign in exact if sign == _LOST or ord(sign) > _BASIC]
    if printed.count(_LOST) != len(marks):
        raise _untold(connection, where, column)
    left = iter(marks)
    return re.sub(re.escape(_LOST), lambda _: next(left), printed)


def _untold(connection: Connection, where: str, column: str) -> StopError:
    return StopError(
        f"{connection.name}: SHOW CREATE TABLE prints a character of column {column} of {where} as a question mark,"
        " and the server does not say which it is",
        hint="make the target tables by hand, or leave the table out",
        code=Code.DEFINITION,
    )
