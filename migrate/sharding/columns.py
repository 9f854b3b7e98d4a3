"""Which Java type a sharding column's value has in the application, and how canonical text becomes it.

ShardingSphere routes by the object the application passes (setLong gives a Long, a literal in SQL the
smallest of Integer, Long, BigInteger that holds it), so the column's type alone does not decide. The
default is the type MySQL's driver returns for the column; `value-type` overrides it (docs/sharding.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from migrate.model.errors import ConfigError
from migrate.model.table import Column, Table
from migrate.sharding.javatypes import INTEGERS, JavaError, JavaType, to_units

_TYPE = re.compile(r"\s*([a-z0-9]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_CHARSET = re.compile(r"\b(?:character set|charset)\s+([a-z0-9]+)")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_RANGES = {
    JavaType.INTEGER: (-(1 << 31), (1 << 31) - 1),
    JavaType.LONG: (-(1 << 63), (1 << 63) - 1),
}
_WHOLE = (JavaType.INTEGER, JavaType.LONG, JavaType.BIG_INTEGER, JavaType.STRING)
_SMALL = {"tinyint", "smallint", "mediumint"}
_TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_DECODED = {"utf8mb4", "utf8mb3", "utf8", "ascii"}  # canonical text is the text itself
_NOT_ASCII = {"ucs2", "utf16", "utf16le", "utf32", "swe7", "binary"}  # bytes below 0x80 are not ASCII there


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Turns canonical texts of one column into Java values.

    `read` takes no None and raises JavaError for a text the Java type cannot hold.
    """

    column: str
    java: JavaType
    read: Callable[[Sequence[str]], list[Any]]
    assumed: bool  # the type came from the default, not from value-type
    whole: bool = False  # whole numbers, and every one that the column can hold is of the Java type


def type_text(column: Column) -> str:
    """The text build_rule() takes for a column: its type and, for text, its character set."""
    return f"{column.type} character set {column.charset}" if column.charset else column.type


def column_types(table: Table) -> dict[str, str]:
    """What build_rule() takes to know the columns of a table."""
    return {column.name: type_text(column) for column in table.columns}


def value_reader(column: str, column_type: str, value_type: str | None, key: str) -> ValueReader:
    """The reader for a column of that MySQL type.

    `column_type` is information_schema's COLUMN_TYPE, with " character set NAME" for text that is not in
    utf8mb4, utf8mb3 or ascii (see type_text). `key` names the place in the config file for messages.
    Raises ConfigError when the type cannot be a sharding column, or not with that `value_type`.
    """
    allowed, default = _java_types(column_type, f"{key}: column '{column}'")
    if value_type is None:
        if default is None:
            names = ", ".join(allowed)
            raise ConfigError(
                f"{key}: column '{column}' ({column_type}) has no usual Java type",
                hint=f"say which one the application passes, value-type: one of {names}",
            )
        return ValueReader(column, default, _reader(column_type, default), True, default in INTEGERS)
    chosen = next((java for java in allowed if java.value == value_type), None)
    if chosen is None:
        names = ", ".join(allowed)
        raise ConfigError(
            f"{key}.value-type: '{value_type}' does not fit column '{column}' ({column_type})",
            hint=f"one of {names}",
        )
    return ValueReader(column, chosen, _reader(column_type, chosen), False, chosen in INTEGERS and chosen is default)


def _split(column_type: str) -> tuple[str, int, bool, str | None]:
    """Base name, digits after the point (or fraction digits), unsigned, character set."""
    lower = column_type.lower()
    match = _TYPE.match(lower)
    if match is None:
        return lower, 0, False, None
    charset = _CHARSET.search(lower)
    return match[1], int(match[3] or 0), " unsigned" in lower, charset[1] if charset else None


def _java_types(column_type: str, where: str) -> tuple[tuple[JavaType, ...], JavaType | None]:
    base, scale, unsigned, charset = _split(column_type)
    if base in _SMALL:
        return _WHOLE, JavaType.INTEGER
    if base in ("int", "integer"):
        return _WHOLE, JavaType.LONG if unsigned else JavaType.INTEGER
    if base == "bigint":
        return _WHOLE, JavaType.BIG_INTEGER if unsigned else JavaType.LONG
    if base == "year":
        return _WHOLE, None
    if base in ("decimal", "numeric"):
        more = () if scale else _WHOLE
        return (JavaType.BIG_DECIMAL, *more), JavaType.BIG_DECIMAL
    if base in _TEXT:
        if charset in _NOT_ASCII:
            raise ConfigError(f"{where} has the character set {charset}, which cannot be routed by")
        return (JavaType.STRING,), JavaType.STRING
    if base == "date":
        return (JavaType.STRING, JavaType.LOCAL_DATE), None
    if base == "datetime":
        return (JavaType.STRING, JavaType.LOCAL_DATE_TIME, JavaType.TIMESTAMP), None
    if base == "uuid":
        return (JavaType.STRING,), None
    raise ConfigError(f"{where} is {column_type}, which cannot be a sharding column", hint=_HINT)


_HINT = "whole numbers, DECIMAL, CHAR, VARCHAR, TEXT, DATE, DATETIME, YEAR and UUID can"


def _reader(column_type: str, java: JavaType) -> Callable[[Sequence[str]], list[Any]]:
    if java in (JavaType.INTEGER, JavaType.LONG, JavaType.BIG_INTEGER):
        return _whole_numbers(java)
    if java is JavaType.STRING:
        return _strings(_split(column_type)[3])
    one: dict[JavaType, Callable[[str], Any]] = {
        JavaType.BIG_DECIMAL: _decimal,
        JavaType.LOCAL_DATE: date.fromisoformat,
        JavaType.LOCAL_DATE_TIME: datetime.fromisoformat,
        JavaType.TIMESTAMP: datetime.fromisoformat,
    }
    convert = one[java]

    def read(texts: Sequence[str]) -> list[Any]:
        try:
            return list(map(convert, texts))
        except (ValueError, ArithmeticError):
            raise JavaError(f"the value is not a {java}") from None

    return read


def _decimal(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):  # Decimal itself would take NaN and 1E+999999999 too
        raise ValueError
    return Decimal(text)


def _whole_numbers(java: JavaType) -> Callable[[Sequence[str]], list[Any]]:
    limits = _RANGES.get(java)

    def read(texts: Sequence[str]) -> list[Any]:
        try:
            values = list(map(int, texts))
        except ValueError:
            raise JavaError("the value is not a whole number") from None
        if limits and values and not (limits[0] <= min(values) and max(values) <= limits[1]):
            raise JavaError(f"the value does not fit Java's {java}")
        return values

    return read


def _strings(charset: str | None) -> Callable[[Sequence[str]], list[Any]]:
    if charset is None or charset in _DECODED:
        return lambda texts: list(map(to_units, texts))
    if charset == "latin1":
        return lambda texts: list(map(_latin1, texts))

    def ascii_only(texts: Sequence[str]) -> list[Any]:
        if not all(map(str.isascii, texts)):
            raise JavaError(f"the text is in {charset} and not plain ASCII")
        return list(texts)

    return ascii_only


def _latin1(raw: str) -> str:
    """MySQL's latin1 is cp1252 with its five holes kept as control characters."""
    if raw.isascii():
        return raw
    return "".join(map(_cp1252, raw))


def _cp1252(character: str) -> str:
    try:
        return character.encode("latin-1").decode("cp1252")
    except UnicodeDecodeError:
        return character
