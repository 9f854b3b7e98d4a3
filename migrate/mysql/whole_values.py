"""Values of a row as they are, none of them missing because the server could not make its text.

A function whose result is above `max_allowed_packet` is NULL with a warning (MySQL manual, "max_allowed_packet"); of a
JSON document whose text is, MySQL 9.7 gives an empty text. So what is read by a function is asked for once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Kind
from migrate.mysql.quoting import quote
from migrate.mysql.values import selected

_DOCUMENT = b"tj"
"""What is there is one of MySQL's, whose text is never empty; MariaDB passes over such a comment."""


def fields(columns: Sequence[Column]) -> str:
    """What to select: the values of these columns, then what `values` goes by."""
    asked = (f"IF({quote(one.name)} IS NULL, '', CONCAT('t'/*!50799 , 'j'*/))" for one in _made(columns))
    return ", ".join([*map(selected, columns), *asked])


def values(columns: Sequence[Column], row: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """The values alone, of a row of raw bytes. Raises StopError for one that the server could not print."""
    found, kinds = row[: len(columns)], row[len(columns) :]
    known = dict(zip(columns, found, strict=True))
    for column, kind in zip(_made(columns), kinds, strict=True):
        if kind and (known[column] is None or (known[column] == b"" and kind == _DOCUMENT)):
            raise StopError(
                f"{column.titled} has a value too large for the server to print",
                hint="raise max_allowed_packet at the source; new sessions have it",
                code=Code.TARGET,
            )
    return found


def _made(columns: Sequence[Column]) -> list[Column]:
    return [one for one in columns if one.kind is Kind.JSON]
