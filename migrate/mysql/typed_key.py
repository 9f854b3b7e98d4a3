"""A key's value as a person types it, read as the server reads it: which canonical texts it may stand for.

What commands print is canonical (docs/messages.md) and always means itself. Beyond that a number may be written in any
way, an ENUM or SET by its labels, a date or time without what is zero, text as text in any character set, and bytes in
hexadecimal. Labels, dates, UUIDs and addresses are taken as a server takes them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal

import pymysql

from migrate.model.errors import Code, StopError
from migrate.model.labels import labels_of
from migrate.model.table import Column, Kind
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import passes
from migrate.mysql.flavours import collation_on

Connect = Callable[[], Connection]
"""Gives a session on a server that has the column's type."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?", re.I | re.ASCII)
_SCALE = re.compile(r"\(\d+,(\d+)\)")
_WIDE = Context(prec=200)
_DAY = r"\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])"
_MINUTES = r"[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_CANONICAL = {
    Kind.DATE: re.compile(_DAY, re.ASCII),
    **dict.fromkeys((Kind.DATETIME, Kind.TIMESTAMP), re.compile(rf"{_DAY} (?:[01]\d|2[0-3]):{_MINUTES}", re.ASCII)),
    Kind.TIME: re.compile(rf"-?(?:\d\d|[1-7]\d\d|8[0-3]\d):{_MINUTES}", re.ASCII),
}
_WRITTEN = {
    **dict.fromkeys(
        (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP),
        re.compile(
            r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{8})(?:[ T]\d{1,2}(?::\d{1,2}(?::\d{1,2}(?:\.\d{0,6})?)?)?)?", re.ASCII
        ),
    ),
    Kind.TIME: re.compile(r"-?[\d: ]+(?:\.\d{0,6})?", re.ASCII),
}
"""What both servers read alike; MySQL alone would move a time with an offset."""
_LENGTH = re.compile(r"\((\d+)\)")
_HEX = re.compile(r"0x((?:[0-9a-f]{2})*)", re.I)
_AT_ONCE = 500
_CENTURY = 70
"""Years of two digits from here on are of the last century (both manuals, "The YEAR Type")."""


def candidates(column: Column, text: str, connect: Connect) -> list[str]:
    """The canonical texts that `text` may stand for in a key, the likeliest first, at least one.

    Raises: StopError for a text that is no value of the column's, ServerError.
    """
    found = list(dict.fromkeys(_readings(column, text, connect)))
    if not found:
        raise StopError(f"{column.titled} has no such value", code=Code.VALUE)
    return found


def _readings(column: Column, text: str, connect: Connect) -> Iterator[str]:
    kind = column.kind
    if kind in (Kind.INT, Kind.BIT):
        yield _whole(column, text)
    elif kind is Kind.DECIMAL:
        yield _decimal(column, text)
    elif kind in (Kind.FLOAT, Kind.DOUBLE):
        yield _floating(column, text)
    elif kind in (Kind.ENUM, Kind.SET):
        yield from _labelled(column, text, connect)
    elif kind in _CANONICAL:
        yield _moment(column, text, connect)
    elif kind is Kind.YEAR:
        yield _year(text)
    elif kind in (Kind.UUID, Kind.INET):
        yield from filter(None, [_cast(connect(), f"CAST(%s AS {column.type.upper()})", text)])
    elif kind is Kind.RAWTEXT:
        yield from _bytes(text)  # first as commands print it
        raw = _encoded(connect(), column, text)
        yield from (one.decode("latin-1") for one in (raw,) if one is not None)
    elif kind is Kind.BINARY:
        yield from _binary(column, text)
    else:
        yield text


# -- numbers


_LONGEST = 100
"""Characters of a number; no server has one of as many digits."""


def _number(column: Column, text: str) -> Decimal:
    if len(text) > _LONGEST or _NUMBER.fullmatch(text.strip()) is None:
        raise StopError(f"{column.titled}: it is not a number", code=Code.VALUE)
    return Decimal(text.strip())


def _whole(column: Column, text: str) -> str:
    number = _number(column, text)
    if number.adjusted() > _LONGEST or number != number.to_integral_value(context=_WIDE):
        raise StopError(f"{column.titled} has whole numbers only", code=Code.VALUE)
    return str(int(number))


def _decimal(column: Column, text: str) -> str:
    number = _number(column, text)
    places = int(scale[1]) if (scale := _SCALE.search(column.type)) else 0
    exact = number.quantize(Decimal(1).scaleb(-places), context=_WIDE) if number.adjusted() < _LONGEST else None
    if exact is None or exact != number:
        raise StopError(f"{column.titled} has no value with as many decimal places", code=Code.VALUE)
    return f"{abs(exact) if exact.is_zero() else exact:f}"


def _floating(column: Column, text: str) -> str:
    """A FLOAT keeps the nearest value of 32 bits, whose canonical text is that of the same double."""
    number = float(_number(column, text)) + 0.0  # -0 is 0
    if column.kind is Kind.FLOAT and math.isfinite(number):
        with_fewer_bits = struct.unpack("f", struct.pack("f", number)) if abs(number) < _LARGEST else (math.inf,)
        number = float(with_fewer_bits[0])
    if not math.isfinite(number):
        raise StopError(f"{column.titled} has no number as large", code=Code.VALUE)
    return repr(number)


_LARGEST = 3.4028235677973366e38
"""What rounds to no FLOAT any more."""


# -- labels


def _labelled(column: Column, text: str, connect: Connect) -> Iterator[str]:
    """As a number first, which is what commands print, then by label."""
    if text.isascii() and text.isdigit():
        yield str(int(text))
    labels = labels_of(column.type)
    if column.kind is Kind.ENUM:
        if found := _label(column, labels, text, connect):
            yield str(found)
        elif not text:
            yield "0"
        return
    parts = text.split(",") if text else []
    found_parts = [_label(column, labels, part, connect) for part in parts]
    if all(found_parts):
        yield str(sum(1 << number - 1 for number in set(found_parts)))


def _label(column: Column, labels: Sequence[str], text: str, connect: Connect) -> int:
    """The number of a label, from 1 on; 0 where there is none. The server says which labels a text is equal to."""
    if text in labels:
        return labels.index(text) + 1
    connection = connect()
    if _encoded(connection, column, text) is None:
        return 0
    written = f"CONVERT(%s USING {column.charset})"
    equal = f"{written} = {written} COLLATE {collation_on(connection.flavour, column.collation)}"
    for start in range(0, len(labels), _AT_ONCE):
        part = labels[start : start + _AT_ONCE]
        row = connection.one(
            f"SELECT {', '.join([equal] * len(part))}", [value for label in part for value in (text, label)]
        )
        for number, same in enumerate(row or (), start + 1):
            if same:
                return number
    return 0


# -- dates and times


def _moment(column: Column, text: str, connect: Connect) -> str:
    kind = column.kind
    places = int(digits[1]) if kind is not Kind.DATE and (digits := _LENGTH.search(column.type)) else 0
    whole = text
    if _CANONICAL[kind].fullmatch(text) is None:
        type_ = "TIME(6)" if kind is Kind.TIME else "DATETIME(6)"
        readable = _WRITTEN[kind].fullmatch(text) is not None
        whole = (_cast(connect(), f"CAST(%s AS {type_})", text) if readable else None) or ""
        if not whole:
            raise StopError(f"{column.titled}: it is no {kind}", code=Code.VALUE)
        if kind is Kind.DATE:
            whole, _, time = whole.partition(" ")
            if time.strip("0:."):
                raise StopError(f"{column.titled} has no time of day", code=Code.VALUE)
    head, _, fraction = whole.partition(".")
    if fraction[places:].strip("0"):
        raise StopError(f"{column.titled} has no value with as many decimal places", code=Code.VALUE)
    return f"{head}.{fraction[:places].ljust(places, '0')}" if places else head


def _year(text: str) -> str:
    if not (text.isascii() and text.isdigit()) or len(text) not in (1, 2, 4):
        raise StopError("a year has four digits", code=Code.VALUE)
    return text if len(text) == 4 else str(int(text) + (1900 if int(text) >= _CENTURY else 2000))


# -- bytes


def _binary(column: Column, text: str) -> Iterator[str]:
    length = _LENGTH.search(column.type) if column.type.lower().startswith("binary") else None

    def filled(raw: bytes) -> Iterator[str]:
        yield from [raw.decode("latin-1")] if length is None else []
        if length is not None and len(raw) <= int(length[1]):
            yield raw.ljust(int(length[1]), b"\0").decode("latin-1")

    for one in _bytes(text):
        yield from filled(one.encode("latin-1"))
    if found := _HEX.fullmatch(text):
        yield from filled(bytes.fromhex(found[1]))
    if not text.isascii():
        yield from filled(text.encode())


def _bytes(text: str) -> Iterator[str]:
    """As canonical text: a character a byte."""
    if all(ord(character) <= 0xFF for character in text):
        yield text


# -- what a server makes of it


def _cast(connection: Connection, expression: str, text: str) -> str | None:
    """Its text, or None where the server has none, or warns of what it left out."""
    sql = f"SELECT CAST(CAST({expression} AS CHAR) AS BINARY)"
    try:
        connection.execute(sql, [text])
    except (Warned, pymysql.MySQLError) as error:
        if passes(error):
            raise  # says nothing of the text
        return None
    row = connection.one(sql, [text])
    return None if row is None or row[0] is None else bytes(row[0]).decode()


def _encoded(connection: Connection, column: Column, text: str) -> bytes | None:
    """The text in the column's character set; None where that has not all of its letters."""
    there = f"CONVERT(%s USING {column.charset})"
    row = connection.one(
        f"SELECT CAST({there} AS BINARY), CAST(CONVERT({there} USING utf8mb4) AS BINARY)", [text, text]
    )
    if row is None or row[0] is None or row[1] is None or bytes(row[1]) != text.encode():
        return None
    return bytes(row[0])
