"""A row as one line of text, built by the source's server and taken by `LOAD DATA` as it is.

Fields stand in the order of `Table.stored`, each the bytes of `mysql.values.selected`, with a tab between and a newline
at the end, so that many rows' lines are one text: NULL is
`\\N`; backslash, tab and newline have a backslash before them; so has a carriage return, but not the one by which
`mysql.typed_json` says that a JSON document has scalars of their own types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrate.model.table import Column, Kind, Table
from migrate.mysql.quoting import quote
from migrate.mysql.values import compared

_NULL = b"\\N"
_TAB = b"\t"
_END = b"\n"
_PLAIN = frozenset(
    {Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.BIT, Kind.ENUM, Kind.SET, Kind.DATE, Kind.DATETIME}
    | {Kind.TIMESTAMP, Kind.TIME, Kind.YEAR, Kind.UUID, Kind.INET}
)
"""Kinds whose text has nothing to escape."""
_ESCAPED = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))
_UNESCAPED = {b"\\": b"\\", b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_QUADRATIC = 16 * 1024
"""Bytes of a value from which MariaDB escapes more slowly than the row is read once more: its REPLACE moves all that is
behind each byte that it finds. 4 MB of random bytes take it 73 s, 64 KB 19 ms, 16 KB 1 ms."""
_NEVER_LARGE = re.compile(r"tiny(?:text|blob)|(?:var)?(?:char|binary)\((\d+)\)", re.I)
_MOST_BYTES = 4  # of a character
_PAIR = re.compile(rb"\\(.)", re.DOTALL)


def expression(table: Table, flavour: str) -> str:
    """The SQL expression of a row's line; NULL when it would be larger than max_allowed_packet, and on MariaDB when a
    value is so large that it is escaped faster here.

    Args: flavour: the server's.
    """
    fields = [_read_here(column) if flavour == "mariadb" else field(column) for column in table.stored]
    fields[-1] = f"CONCAT({fields[-1]}, {_literal(_END)})"
    return joined(fields)


def field(column: Column) -> str:
    """The SQL expression of one field."""
    return of_value(column, compared(column))


def _read_here(column: Column) -> str:
    """As `field`, NULL where the value is large."""
    if plain(column) or _is_short(column):
        return field(column)
    return or_null(
        column, f"IF(LENGTH({quote(column.name)}) > {_QUADRATIC}, NULL, {_escaped(column, compared(column))})"
    )


def _is_short(column: Column) -> bool:
    """Whether no value of the type is large."""
    found = _NEVER_LARGE.match(column.type)
    return found is not None and int(found[1] or 0) * _MOST_BYTES <= _QUADRATIC


def of_value(column: Column, value: str) -> str:
    """As `field`, of an expression for the column's bytes."""
    return or_null(column, _escaped(column, value))


def _escaped(column: Column, value: str) -> str:
    for plain, escaped in _escapes(column):
        value = f"REPLACE({value}, {_literal(plain)}, {_literal(escaped)})"
    return value


def or_null(column: Column, value: str) -> str:
    """The SQL expression of a field that is this, or says NULL where the column is.

    Not COALESCE: a function whose result is larger than max_allowed_packet gives NULL too, and so must what has it.
    """
    return f"IF({quote(column.name)} IS NULL, {_literal(_NULL)}, {value})" if column.nullable else value


def joined(fields: Sequence[str]) -> str:
    """The SQL expression of fields with tabs between; NULL when one of them is."""
    return f"CONCAT({f', {_literal(_TAB)}, '.join(fields)})"


def _literal(text: bytes) -> str:
    return f"X'{text.hex()}'"


def build(table: Table, values: Sequence[bytes | None]) -> bytes:
    """The line of a row's raw values."""
    fields = zip(table.stored, values, strict=True)
    return _TAB.join([_NULL if value is None else _escape(column, value) for column, value in fields]) + _END


def _escape(column: Column, value: bytes) -> bytes:
    for plain, escaped in _escapes(column):
        value = value.replace(plain, escaped)
    return value


def plain(column: Column) -> bool:
    """Whether its text has nothing to escape."""
    return column.kind in _PLAIN


def _escapes(column: Column) -> Sequence[tuple[bytes, bytes]]:
    if plain(column):
        return ()
    return _ESCAPED[: 3 if column.kind is Kind.JSON else 4]


def split(lines: bytes) -> list[list[bytes | None]]:
    """The raw values of each line."""
    return [
        [None if field == _NULL else _unescape(field) for field in line.split(_TAB)] for line in lines.split(_END)[:-1]
    ]


def _unescape(field: bytes) -> bytes:
    return _PAIR.sub(lambda pair: _UNESCAPED[pair[1]], field) if b"\\" in field else field


def typed(lines: bytes) -> bool:
    """Whether a JSON document in them has scalars of their own types, which no `LOAD DATA` gives."""
    return b"\r" in lines
