"""Canonical text on one side, the server's SQL on the other (invariant exact-values).

`placeholder` and `parameter` write a value (`migrate.mysql.keys` one to compare with); `selected` reads one as its
canonical text; `compared` is the
byte string both servers digest. Texts are defined in docs/messages.md.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from migrate.model.errors import Code, StopError
from migrate.model.table import BYTES_KINDS, Column, Kind
from migrate.mysql import typed_json
from migrate.mysql.quoting import quote
from migrate.mysql.typed_json import JsonValue

Parameter = str | bytes | int | Decimal | JsonValue | None

NOT_UTF8 = "holds text that is not UTF-8, such as half a character of UTF-16 (a surrogate)"
_NUMBERS = frozenset({Kind.INT, Kind.BIT, Kind.ENUM, Kind.SET})
_AS_NUMBER = frozenset({Kind.BIT, Kind.ENUM, Kind.SET})
_TEXT_OF_BYTES = frozenset({Kind.UUID, Kind.INET})
_ZEROFILLED = frozenset({Kind.INT, Kind.DECIMAL})
_SMALL = 1e-3
_RAISED = ((1e-80, 300), (1e-160, 570), (1e-240, 830), (0.0, 1100))
"""From which size on a small double is shown times which power of two: its text then has an exponent of two digits at
most. MySQL cuts the text of a function's double at 22 characters."""


def placeholder(column: Column) -> str:
    """What stands for the value in a statement, with one `%s`."""
    if column.kind is Kind.RAWTEXT:
        return f"CONVERT(%s USING {column.charset})"  # bytes taken as that character set, unconverted
    return "%s"


def parameter(column: Column) -> Callable[[str | None], Parameter]:
    """A function from canonical text to the driver's value."""
    if column.kind in BYTES_KINDS:
        return _to_bytes(column)
    if column.kind in _NUMBERS:
        return _to_int(column)
    if column.kind is Kind.JSON:
        return _to_json(column)
    return lambda text: text


def _to_bytes(column: Column) -> Callable[[str | None], Parameter]:
    def convert(text: str | None) -> Parameter:
        if text is None:
            return None
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError:
            raise StopError(
                f"{column.titled} carries text where one character a byte is expected",
                hint="see docs/messages.md on byte values",
                code=Code.VALUE,
            ) from None

    return convert


def _to_int(column: Column) -> Callable[[str | None], Parameter]:
    def convert(text: str | None) -> Parameter:
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise StopError(f"{column.titled}: {column.kind} value is not a number", code=Code.VALUE) from None

    return convert


def _to_json(column: Column) -> Callable[[str | None], Parameter]:
    def convert(text: str | None) -> Parameter:
        try:
            return typed_json.to_parameter(text)
        except StopError as error:
            raise StopError(f"{column.titled}: {error.message}", hint=error.given, code=error.code) from None

    return convert


def selected(column: Column) -> str:
    """The SELECT expression whose raw bytes `from_server` turns into canonical text."""
    name = quote(column.name)
    if column.kind in _AS_NUMBER:
        return f"CAST({name} AS UNSIGNED)"  # "+ 0" makes a DOUBLE of a SET on MySQL, a signed number on MariaDB
    if column.kind in _ZEROFILLED and "zerofill" in column.type.lower():
        return f"{name} + 0"  # without the zeros it is shown with
    if column.kind in _TEXT_OF_BYTES:
        return f"CAST({name} AS CHAR)"  # cast to BINARY directly they become their 16 or 4 bytes
    if column.kind is Kind.FLOAT:
        return f"{name} * 1E0"  # as DOUBLE: FLOAT itself prints six digits only; "+ 0E0" makes 0 of -0
    if column.kind is Kind.JSON:
        return typed_json.selected(name)  # the text alone does not show a DECIMAL, a date, bytes
    return name


def from_server(column: Column) -> Callable[[bytes | None], str | None]:
    """A function from the raw bytes of `selected()` to canonical text."""
    if column.kind in BYTES_KINDS:
        return lambda raw: None if raw is None else raw.decode("latin-1")
    if column.kind in (Kind.FLOAT, Kind.DOUBLE):
        return lambda raw: None if raw is None else repr(float(raw))
    read = typed_json.from_server if column.kind is Kind.JSON else _from_utf8

    def text(raw: bytes | None) -> str | None:
        try:
            return read(raw)
        except UnicodeDecodeError:
            raise half_a_character(column) from None

    return text


def _from_utf8(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8")


def half_a_character(column: Column) -> StopError:
    """What says that a text has a surrogate of UTF-16: servers store it in three bytes, and no UTF-8 has it."""
    return StopError(
        f"{column.titled} {NOT_UTF8}",
        hint=f"{rows_not_utf8(quote(column.name))}; or leave the table out",
        code=Code.VALUE,
    )


def rows_not_utf8(name: str) -> str:
    """What to do about them. name: the column's, as a statement has it."""
    return f"write the character that was meant into the rows WHERE HEX({name}) REGEXP '^(..)*ED[AB]'"


def compared(column: Column) -> str:
    """A binary SQL expression, equal on two servers exactly when the stored values are equal; NULL for NULL.

    It is what `from_server` reads, as bytes, whatever the session's result character set is.
    """
    if column.kind in BYTES_KINDS:
        return f"CAST({quote(column.name)} AS BINARY)"
    if column.kind in _TEXT_OF_BYTES:  # of which CAST AS BINARY gives the stored bytes
        return f"CAST(CAST({quote(column.name)} AS CHAR) AS BINARY)"
    return f"CAST({selected(column)} AS BINARY)"


def portable(column: Column) -> str:
    """As `compared`, where one server is MySQL and the other MariaDB (docs/decisions/0022).

    JSON is its text there, which shows no types. Small floating-point numbers, which the two write in different
    notations, are shown times a power of two, which is exact; and there is one zero, as MariaDB stores no -0.
    """
    name = quote(column.name)
    if column.kind is Kind.JSON:
        return f"CAST(CAST({name} AS CHAR) AS BINARY)"
    if column.kind in (Kind.FLOAT, Kind.DOUBLE):
        raised = ((0.0, 160),) if column.kind is Kind.FLOAT else _RAISED
        small = " ".join(f"WHEN ABS({name}) >= {least} THEN {_times(name, power)}" for least, power in raised)
        plain = f"WHEN ABS({name}) >= {_SMALL} THEN CAST({selected(column)} AS CHAR)"
        return f"CAST(CASE WHEN {name} = 0 THEN '0' {plain} {small} END AS BINARY)"
    return compared(column)


def _times(name: str, power: int) -> str:
    factors = [min(power, 600), power - 600] if power > 1000 else [power]
    return f"CONCAT('{power}*', {' * '.join([name, *(repr(2.0**factor) for factor in factors)])})"
