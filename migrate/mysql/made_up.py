"""Made-up rows for an expression: values of the columns' types, and of what it compares with or reads in documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from pymysql.converters import escape_string

from migrate.model.table import Column, Kind
from migrate.mysql.quoting import quote

_ROWS = 24
_ROWS_OF_DOCUMENTS = 64
_LITERAL = re.compile(r"'(?:[^'\\]|\\.?|'')*+(?:'|\Z)|\b\d+(?:\.\d+)?\b")
_UNIX = (1772330400, 1772366400, 1767225599, 39657600, 2114380800)
"""Seconds since 1970 near the ends of days and years, so that zones put them into others."""
_DAYS = ("2026-03-01", "2026-12-31", "2027-01-01", "1971-02-28", "2037-01-04")
_TEXTS = ("'7'", "'abc'", "'2026-01-04 23:30:00'", "'{\"a\": 7}'", "'22'")
_NUMBERS = ("7", "22", "1", "3", "1000")
_DIGITS = re.compile(r"\(([1-6])\)")
_CHAR = re.compile(r"char\((\d+)\)")
_PADS = "FIND_IN_SET('PAD_CHAR_TO_FULL_LENGTH', @@SESSION.sql_mode)"
"""In that mode a CHAR comes from its table with the spaces at its end (both manuals, "Server SQL Modes")."""

_IN_DOCUMENTS: Sequence[int | str] = [
    value
    for unix, day, number in zip(_UNIX, _DAYS, _NUMBERS, strict=True)
    for value in (unix, unix * 1000, f"{day} 23:30:00", int(number))
]
_READ = re.compile(r"\bjson_\w+\(`((?:[^`]|``)+)`", re.I)
"""A column that a function of JSON reads: MariaDB's documents are texts."""
_LEG = re.compile(r'\.\s*(?:"((?:[^"\\]|\\.)*)"|([^\s."*\[]+))|\[\s*(\d{1,2}|last|\*)\s*\]', re.I)

_Path = list[str | int]


def rows(columns: Sequence[Column], text: str) -> Iterator[str]:
    """Rows of values that the types have, and of what the expression compares with, so that it takes all branches.

    Documents have a value at each path that the expression has.
    """
    constants = list(dict.fromkeys(_LITERAL.findall(text)))
    paths = [_path(one) for one in constants if one.startswith("'$")]
    literals = [near for one in constants if not one.startswith("'$") for near in _near(one)][:24]
    read = {name.replace("``", "`") for name in _READ.findall(text)} if paths else set()
    for row in range(_ROWS_OF_DOCUMENTS if paths else _ROWS):
        fields = []
        for number, column in enumerate(columns):
            turn = row + number * (row // 5)
            literal = literals[turn % len(literals)] if literals and row % 2 else None
            if column.kind is Kind.JSON or column.name in read:
                value = _document(column, paths, literals, row)
            else:
                value = _value(column, turn, literal)
            fields.append(f"{value} AS {quote(column.name)}")
        yield (", ".join(fields) or "1").replace("'%'", "'%%'")


def _document(column: Column, paths: Sequence[_Path], literals: Sequence[str], row: int) -> str:
    """Which paths have a literal, the bits of the row's number say; the others have what days and zones decide on."""
    document: object = {"a": int(_NUMBERS[row % 5])} if not paths else None
    for number, path in enumerate(paths):
        value: object = _IN_DOCUMENTS[(row // 4 + 5 * number) % len(_IN_DOCUMENTS)]
        if literals and row >> number & 1:
            literal = literals[(row // 2 + number) % len(literals)]
            value = _plain(literal) if literal[0] == "'" else float(literal) if "." in literal else int(literal)
        document = _with(document, path, value)
    text = f"'{escape_string(json.dumps(document, ensure_ascii=False))}'".replace("%", "%%")
    return f"CAST({text} AS JSON)" if column.kind is Kind.JSON else _converted(column, text)


def _with(node: object, path: _Path, value: object) -> object:
    """A document that has the value at this path too."""
    if not path:
        return value
    leg, rest = path[0], path[1:]
    if isinstance(leg, str):
        fields = node if isinstance(node, dict) else {}
        return {**fields, leg: _with(fields.get(leg), rest, value)}
    items = [*node] if isinstance(node, list) else []
    items += [None] * (leg + 1 - len(items))
    items[leg] = _with(items[leg], rest, value)
    return items


def _path(literal: str) -> _Path:
    """The legs of a path; of any element it is the first."""
    found = _LEG.findall(_plain(literal))
    return [int(index) if index.isdigit() else 0 if index else quoted or name for quoted, name, index in found]


def _plain(literal: str) -> str:
    """The text of a literal in apostrophes."""
    return re.sub(r"\\(.)|''", lambda pair: pair[1] or "'", literal[1:-1], flags=re.DOTALL)


def _near(literal: str) -> tuple[str, ...]:
    """A literal and its neighbours, so that comparisons with it come out each way."""
    return (literal, str(int(literal) + 1), str(int(literal) - 1)) if literal.isdigit() else (literal,)


def _value(column: Column, turn: int, literal: str | None) -> str:
    """A literal of about the column's type."""
    number = _NUMBERS[turn % 5]
    day = _DAYS[turn % 5]
    kind = column.kind
    if kind is Kind.TIMESTAMP:
        return f"FROM_UNIXTIME({_UNIX[turn % 5]})"
    if kind is Kind.DATETIME:
        return f"CAST('{day} 23:30:00{_fraction(column)}' AS DATETIME(6))"
    if kind is Kind.DATE:
        return f"CAST('{day}' AS DATE)"
    if kind is Kind.TIME:
        return f"CAST('23:30:00{_fraction(column)}' AS TIME(6))"
    if kind in (Kind.INT, Kind.BIT, Kind.YEAR):
        sign = "UNSIGNED" if "unsigned" in column.type.lower() or kind is not Kind.INT else "SIGNED"
        return f"CAST({literal if literal and literal.lstrip('-').isdigit() else number} AS {sign})"
    if kind is Kind.DECIMAL:
        return f"CAST({literal if literal and literal[0].lstrip('-').isdigit() else number} AS {decimal_of(column)})"
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"({literal if literal and literal[0].lstrip('-').isdigit() else number} + 0e0)"
    if kind is Kind.GEOMETRY:
        return f"ST_GeomFromText('POINT({number} 2)')"
    quoted_literal = literal if literal and literal[0] == "'" else f"'{literal}'" if literal else None
    value = (quoted_literal or _TEXTS[turn % 5]).replace("%", "%%")
    if fixed := _CHAR.match(column.type.lower()):
        value = f"IF({_PADS}, RPAD({value}, {fixed[1]}, ' '), {value})"
    return f"CAST({value} AS BINARY)" if kind is Kind.BINARY else _converted(column, value)


def _fraction(column: Column) -> str:
    """As many digits as the type has, which are rounded up."""
    found = _DIGITS.search(column.type)
    return f".{'9' * int(found[1])}" if found else ""


def _converted(column: Column, text: str) -> str:
    return f"CONVERT({text} USING {column.charset})" if column.charset else text


def decimal_of(column: Column) -> str:
    """The type that a value of a DECIMAL column is cast to."""
    found = re.match(r"decimal\(\d+,\d+\)", column.type.lower())
    return found[0] if found else "DECIMAL(20,6)"
