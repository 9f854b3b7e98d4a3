"""Rows that strict mode refuses and the source has: written without it, and read back (invariant unknown-stops).

A source in a laxer mode takes a row of whose generated columns or keys on expressions it only warns, an ENUM's error
value, and a FLOAT(10,2) that is rounded above the largest it takes. A warning does not say surely what it is of: which
number a server gives, and whether it names a column, differs by expression. So nothing is made of warnings: the row
stays when every column that was sent holds what was sent, else it is refused, in the words of strict mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float

import pymysql

from migrate.model.errors import StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection, Warned
from migrate.mysql.errors import OF_A_ROW, number
from migrate.mysql.keys import among
from migrate.mysql.quoting import quote
from migrate.mysql.typed_json import JsonValue
from migrate.mysql.values import Parameter, compared, from_server, parameter, selected

_FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_KEYS = 200  # looked up at a time


def write(connection: Connection, send: Callable[[], int], holds: Callable[[], bool]) -> None:
    """Write by `send`, without strict mode if that refuses a row; `holds`: whether what was sent is there then.

    Raises: the driver's error, or Warned when strict mode only warned; then the caller rolls back.
    """
    refusal: pymysql.MySQLError | StopError
    try:
        send()
        return
    except Warned as error:  # the rows are written all the same
        refusal = error
    except pymysql.MySQLError as error:
        if number(error) not in OF_A_ROW:
            raise
        refusal = error
        _laxly(connection, send, refusal)
    if not holds():
        raise refusal


def delete(connection: Connection, table: Table, send: Callable[[], int], most: int) -> int:
    """Delete rows of a table by `send`, at most so many; returns how many. Both servers compute generated columns and
    keys on expressions of a row that goes, and MySQL refuses it, MariaDB warns, as they do of one that comes."""
    refusal: pymysql.MySQLError | StopError
    try:
        return send()
    except Warned as error:
        refusal, deleted = error, error.found
        if all(not column.generated for column in table.columns):
            raise
    except pymysql.MySQLError as error:
        if number(error) not in OF_A_ROW:
            raise
        refusal, deleted = error, _laxly(connection, send, error)
    if deleted > most:
        raise refusal
    return deleted


def _laxly(connection: Connection, send: Callable[[], int], refusal: pymysql.MySQLError) -> int:
    """What `send` returns, without strict mode. Raises what strict mode said where this says such a thing too."""
    try:
        with connection.lax():
            return send()
    except pymysql.MySQLError as error:
        if number(error) in OF_A_ROW:
            raise refusal from None
        raise


def holds(connection: Connection, table: Table, name: str, rows: Sequence[Sequence[Parameter]]) -> bool:
    """Whether a physical table has these rows, in the order of `Table.stored`, value by value."""
    columns = table.stored
    fields = ", ".join(selected(column) if column.kind in _FLOATING else compared(column) for column in columns)
    at = [columns.index(column) for column in table.key_columns]
    wanted = [_comparable(column, connection.flavour) for column in columns]
    reads = [_read(column) for column in columns]
    for start in range(0, len(rows), _KEYS):
        part = rows[start : start + _KEYS]
        where, arguments = among(table, [tuple(_text(row[index]) for index in at) for row in part])
        found = connection.query(f"SELECT {fields} FROM {quote(name)} WHERE {where}", arguments)
        there = [tuple(of(read(value)) for of, read, value in zip(wanted, reads, row, strict=True)) for row in found]
        sent = [tuple(of(value) for of, value in zip(wanted, row, strict=True)) for row in part]
        if len(there) != len(sent) or set(there) != set(sent):
            return False
    return True


def _text(value: Parameter) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _read(column: Column) -> Callable[[object], Parameter]:
    """From what the driver gives of a field to what would be sent."""
    if column.kind in _FLOATING:
        return lambda value: None if value is None else repr(value)
    text, send = from_server(column), parameter(column)
    return lambda value: send(text(value if isinstance(value, bytes) else None))


def _comparable(column: Column, flavour: str) -> Callable[[Parameter], object]:
    """From what is sent to what is equal where the stored values are."""
    if column.kind is Kind.FLOAT:
        return lambda value: None if value is None else c_float(float(str(value))).value
    if column.kind is Kind.DOUBLE:
        return lambda value: None if value is None else float(str(value))
    if column.kind is Kind.JSON and flavour == "mariadb":  # whose JSON is text
        return lambda value: value.plain if isinstance(value, JsonValue) else value
    return lambda value: value
