"""What a table map leaves out comes from the table's definition, and all it tells is held against it.

With binlog_row_metadata=MINIMAL a map has no names, with MariaDB's NO_LOG no signedness and no character sets either.
Any contradiction is a StopError with table and column: the definition is then not the one the rows were written under.
Type bytes and their metadata: MySQL's ``libs/mysql/binlog/event/rows_event.h``, class Table_map_event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from migrate.model.errors import Code, StopError
from migrate.model.table import BYTES_KINDS, Column, Kind, Table
from migrate.publish.decode import column_types as types
from migrate.publish.decode.tablemap import ColumnMap, TableMap

_HINT: Final = (
    "its definition changed where this service did not see it; undo that, or start a new migration and copy again"
)
_WORD: Final = re.compile(r"([a-z0-9]+)(?:\((\d+)(?:,(\d+))?\))?", re.I)
_MEMBER: Final = re.compile(r"'(?:[^'\\]|''|\\.?)*+(?:'|\Z)", re.S)
_BYTES_A_CHARACTER: Final = {
    "utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "gb18030": 4, "utf8mb3": 3, "utf8": 3, "ujis": 3, "eucjpms": 3,
    "ucs2": 2, "big5": 2, "sjis": 2, "cp932": 2, "gbk": 2, "gb2312": 2, "euckr": 2,
}  # fmt: skip
"""SHOW CHARACTER SET's Maxlen; all others have one byte."""
_SAME_CHARSET: Final = {"utf8": "utf8mb3", None: "binary"}
_INTEGERS: Final = {
    "tinyint": types.TINY,
    "smallint": types.SHORT,
    "mediumint": types.INT24,
    "int": types.LONG,
    "bigint": types.LONGLONG,
}
_BLOBS: Final = {
    "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4, "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4,
}  # fmt: skip
_TIMES: Final = {
    "datetime": (types.DATETIME2, types.DATETIME),
    "timestamp": (types.TIMESTAMP2, types.TIMESTAMP),
    "time": (types.TIME2, types.TIME),
}
_BYTES_OF: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
_SIGNED: Final = frozenset({Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE})

Shape = tuple[int, bytes | None]
"""A real type and its metadata; None where any will do."""


def complete(
    table_map: TableMap, table: Table, charsets: Mapping[int, str], collations: Mapping[int, str] | None = None
) -> TableMap:
    """The table map with names, signedness and character sets.

    ``charsets``, ``collations``: character set and collation by collation id, as the source lists them; collations are
    compared where they are given. Raises StopError on a contradiction.
    """
    logged, known = table_map.columns, table.columns
    if len(logged) != len(known) or any(
        column.name is not None and column.name != wanted.name for column, wanted in zip(logged, known, strict=True)
    ):
        raise StopError(
            f"{table.full_name} has other columns in the log ({_names(logged)}) than in its definition"
            f" ({', '.join(column.name for column in known)})",
            hint=_HINT,
            code=Code.DEFINITION,
        )
    numbers = {_SAME_CHARSET.get(charset, charset): number for number, charset in charsets.items()}
    completed = []
    for column, wanted in zip(logged, known, strict=True):
        if difference := _difference(column, wanted, charsets) or _other_collation(column, wanted, collations or {}):
            raise StopError(f"{table.full_name}: column {wanted.name!r} {difference}", hint=_HINT, code=Code.DEFINITION)
        completed.append(_completed(column, wanted, numbers))
    return replace(table_map, columns=tuple(completed))


def _names(columns: tuple[ColumnMap, ...]) -> str:
    if all(column.name is None for column in columns):
        return f"{len(columns)}, without names"
    return ", ".join(str(column.name) for column in columns)


def _completed(column: ColumnMap, known: Column, collations: Mapping[str, int]) -> ColumnMap:
    unsigned, collation = column.unsigned, column.collation
    if unsigned is None and column.type in types.NUMERIC:
        unsigned = _unsigned(known)
    if collation is None and column.type in types.CHARACTER:
        collation = collations.get(_charset(known))
    return replace(column, name=known.name, unsigned=unsigned, collation=collation)


def _difference(column: ColumnMap, known: Column, charsets: Mapping[int, str]) -> str:
    """What the log says of a column and its definition does not; empty when they agree."""
    fitting = shapes(known)
    if fitting and not any(column.type == type_ and metadata in (None, column.metadata) for type_, metadata in fitting):
        return f"is {known.shown_type} in its definition, in the log type {column.type} ({column.metadata.hex()})"
    if column.nullable != known.nullable:
        return f"{'can' if column.nullable else 'cannot'} be NULL in the log, unlike in its definition"
    if column.unsigned is not None and known.kind in _SIGNED and column.unsigned != _unsigned(known):
        return f"is {known.shown_type} in its definition, in the log {'un' if column.unsigned else ''}signed"
    if column.collation is not None and column.type in types.CHARACTER:
        charset = charsets.get(column.collation, f"collation {column.collation}")
        if _SAME_CHARSET.get(charset, charset) != _charset(known):
            return f"is in {_charset(known)} in its definition, in the log in {charset}"
    if column.values is not None and len(column.values) != _members(known):
        return f"has {_members(known)} values in its definition, in the log {len(column.values)}"
    return ""


def _other_collation(column: ColumnMap, known: Column, collations: Mapping[int, str]) -> str:
    """As `_difference`: a replay takes a default that may be another one at the source; keys compare by it."""
    logged = collations.get(column.collation or 0)
    if logged is None or known.collation is None or column.type not in types.CHARACTER:
        return ""
    if _named_alike(logged) == _named_alike(known.collation):
        return ""
    return f"has the collation {known.collation} in its definition, in the log {logged}"


def _named_alike(collation: str) -> str:
    """utf8mb3's collations had shorter names."""
    return re.sub("^utf8_", "utf8mb3_", collation)


def _unsigned(known: Column) -> bool:
    return known.kind is Kind.YEAR or " unsigned" in known.type.lower()


def _charset(known: Column) -> str:
    if known.kind in BYTES_KINDS and known.kind is not Kind.RAWTEXT:
        return "binary"
    return _SAME_CHARSET.get(known.charset, known.charset or "binary")


def _members(known: Column) -> int:
    return len(_MEMBER.findall(known.type))


def shapes(known: Column) -> list[Shape]:
    """How the log may show a column of this definition; empty when that is not known for the type."""
    if known.kind in (Kind.ENUM, Kind.SET):
        return [_enum_or_set(known)]
    match = _WORD.match(known.type)
    if match is None:
        return []
    word, size, scale = match.group(1).lower(), int(match.group(2) or 0), int(match.group(3) or 0)
    if word in _INTEGERS:
        return [(_INTEGERS[word], b"")]
    if word in _TIMES:
        new, old = _TIMES[word]
        return [(new, bytes([size])), (old, b"")]
    if word in _BLOBS:
        return [(types.BLOB, bytes([_BLOBS[word]])), (types.BLOB_COMPRESSED, bytes([_BLOBS[word]]))]
    if word in _BYTES_OF:
        return [(types.STRING, _length(_BYTES_OF[word]))]
    if known.kind is Kind.GEOMETRY:
        return [(types.GEOMETRY, None)]
    return _BY_WORD[word](known, size, scale) if word in _BY_WORD else []


def _enum_or_set(known: Column) -> Shape:
    count = _members(known)
    if known.kind is Kind.ENUM:
        return types.ENUM, _length(1 if count < 256 else 2)
    width = (count + 7) // 8
    return types.SET, _length(8 if width > 4 else width)


def _length(size: int) -> bytes:
    return size.to_bytes(2, "little")


def _characters(known: Column, size: int) -> bytes:
    return _length(size * _BYTES_A_CHARACTER.get(_charset(known), 1))


def _fixed(known: Column, size: int, _scale: int) -> list[Shape]:
    return [(types.STRING, _characters(known, size))]


def _variable(known: Column, size: int, _scale: int) -> list[Shape]:
    return [(types.VARCHAR, _characters(known, size)), (types.VARCHAR_COMPRESSED, None)]


_BY_WORD: Final[dict[str, Callable[[Column, int, int], list[Shape]]]] = {
    "float": lambda _known, _size, _scale: [(types.FLOAT, b"\4")],
    "double": lambda _known, _size, _scale: [(types.DOUBLE, b"\10")],
    "decimal": lambda _known, size, scale: [(types.NEWDECIMAL, bytes([size, scale]))],
    "bit": lambda _known, size, _scale: [(types.BIT, bytes([size % 8, size // 8]))],
    "date": lambda _known, _size, _scale: [(types.DATE, b""), (types.NEWDATE, b"")],
    "year": lambda _known, _size, _scale: [(types.YEAR, b"")],
    "char": _fixed,
    "binary": _fixed,
    "varchar": _variable,
    "varbinary": _variable,
    "json": lambda _known, _size, _scale: [(types.JSON, b"\4"), (types.BLOB, b"\4")],
}
