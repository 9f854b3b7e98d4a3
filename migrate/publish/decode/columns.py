"""The codecs of columns that carry a length: strings, blobs, JSON, and what MariaDB stores like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from migrate.publish.decode import codecs as fixed
from migrate.publish.decode import column_types as types
from migrate.publish.decode.codecs import LITTLE, Codec
from migrate.publish.decode.json_binary import json_text
from migrate.publish.decode.tablemap import ColumnMap

_FIXED: Final[dict[int, Callable[[ColumnMap], Codec]]] = {
    types.TINY: fixed.int_codec,
    types.SHORT: fixed.int_codec,
    types.INT24: fixed.int_codec,
    types.LONG: fixed.int_codec,
    types.LONGLONG: fixed.int_codec,
    types.FLOAT: fixed.float_codec,
    types.DOUBLE: fixed.float_codec,
    types.NEWDECIMAL: fixed.decimal_codec,
    types.BIT: fixed.bit_codec,
    types.ENUM: fixed.enum_codec,
    types.SET: fixed.set_codec,
    types.YEAR: fixed.year_codec,
    types.DATE: fixed.date_codec,
    types.NEWDATE: fixed.date_codec,
    types.DATETIME2: fixed.datetime2_codec,
    types.TIMESTAMP2: fixed.timestamp2_codec,
    types.TIME2: fixed.time2_codec,
}
_OLD_TIMES: Final = frozenset({types.TIMESTAMP, types.DATETIME, types.TIME})
_ENCODINGS: Final = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii"}
"""Character sets that travel as text; any other travels as its bytes, one character a byte."""

_BY_COLUMN_TYPE: Final = {"uuid": ("UUID", 16), "inet6": ("INET6", 16), "inet4": ("INET4", 4)}
"""MariaDB types that the log shows as BINARY, with their text function and size."""


def codec_for(column: ColumnMap, charsets: Mapping[int, str], column_type: str | None) -> Codec:
    """The codec of a column.

    ``charsets`` maps collation ids to character sets; ``column_type`` is information_schema's COLUMN_TYPE,
    needed where the log does not tell types apart (UUID, INET4, INET6; TIME, DATETIME and TIMESTAMP in the
    old format). ValueError says what is missing or unknown.
    """
    if column.type in _FIXED:
        return _FIXED[column.type](column)
    if column.type in _OLD_TIMES:
        return fixed.old_time_codec(column, column_type)
    if column.type == types.JSON:
        return _payload(column.metadata[0], "JSON($p)", runtime={"JSON": json_text})
    if column.type in (types.GEOMETRY, types.VECTOR):
        return _payload(column.metadata[0], _BYTES)
    special = _BY_COLUMN_TYPE.get((column_type or "").lower())
    if special:
        return _mariadb_type(column, *special)
    return _string(column, charsets)


_BYTES: Final = '$p.decode("latin-1")'


def _payload(
    prefix: int, value: str, *, limit: int | None = None, runtime: Mapping[str, object] | None = None
) -> Codec:
    """A value of so many length bytes; longer than ``limit`` bytes is refused."""
    if prefix not in (1, 2, 3, 4):
        raise ValueError(f"has a length of {prefix} bytes")
    lines = () if limit is None else (f'if $n > {limit}: raise ValueError("holds more than its {limit} bytes")',)
    return Codec(LITTLE[prefix], value, lines, payload=True, runtime=runtime or {})


def _mariadb_type(column: ColumnMap, text: str, size: int) -> Codec:
    if column.type != types.STRING or _declared(column) != size:
        raise ValueError(f"is said to be {text}, which the binlog does not show as BINARY({size})")
    return _payload(1, f"{text}($p)", limit=size)


def _declared(column: ColumnMap) -> int:
    return int.from_bytes(column.metadata, "little")


def _string(column: ColumnMap, charsets: Mapping[int, str]) -> Codec:
    payload = "$p"
    limit: int | None = _declared(column)
    if column.type in (types.BLOB, types.BLOB_COMPRESSED):
        prefix, limit = column.metadata[0], None
    else:
        prefix = 1 if _declared(column) < 256 else 2
    if column.type in (types.BLOB_COMPRESSED, types.VARCHAR_COMPRESSED):
        payload = "UNCOMPRESS($p)"
    charset = _charset(column, charsets)
    if column.type == types.STRING and charset == "binary":
        payload = f"$p.ljust({limit}, NUL)"  # the log cuts the zeros off
    encoding = _ENCODINGS.get(charset, "latin-1")
    return _payload(prefix, f'{payload}.decode("{encoding}")', limit=limit)


def _charset(column: ColumnMap, charsets: Mapping[int, str]) -> str:
    if column.collation is None:
        raise ValueError("has no character set in the binlog: binlog_row_metadata is not FULL")
    charset = charsets.get(column.collation)
    if charset is None:
        raise ValueError(f"has the collation {column.collation}, which the server did not list")
    return charset
