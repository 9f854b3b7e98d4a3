"""The optional metadata at the end of a TABLE_MAP event (binlog_row_metadata).

Each field is a list that covers some of the columns, in column order; which ones is the trap. A list that
does not fit its columns is refused, and so is a field this service does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from migrate.publish.decode.column_types import (
    CHARACTER,
    ENUM,
    ENUM_OR_SET,
    GEOMETRY,
    NUMERIC,
    SET,
    VECTOR,
)
from migrate.publish.decode.cursor import Reader

T = TypeVar("T")
COLUMN_NAME: Final = 4
COLUMN_VISIBILITY: Final = 12


@dataclass(slots=True)
class Metadata:
    """What the log says of the columns beyond their types, keyed by column index."""

    types: Sequence[int]
    mariadb: bool | None
    unsigned: dict[int, bool] = field(default_factory=dict)
    collation: dict[int, int] = field(default_factory=dict)
    name: dict[int, str] = field(default_factory=dict)
    values: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    geometry_type: dict[int, int] = field(default_factory=dict)
    dimensions: dict[int, int] = field(default_factory=dict)
    visible: dict[int, bool] = field(default_factory=dict)
    primary_key: tuple[int, ...] | None = None

    def of(self, types: Iterable[int]) -> list[int]:
        """The indexes of the columns that have one of these types."""
        wanted = frozenset(types)
        return [index for index, type_ in enumerate(self.types) if type_ in wanted]

    def character(self) -> list[int]:
        if GEOMETRY not in self.types:
            return self.of(CHARACTER)
        if self.mariadb is None:
            raise ValueError("has a GEOMETRY column, and it was not said whether MariaDB wrote the event")
        return self.of(CHARACTER | {GEOMETRY}) if self.mariadb else self.of(CHARACTER)


def split_fields(reader: Reader) -> dict[int, bytes]:
    """The optional metadata as raw bytes by field number."""
    fields: dict[int, bytes] = {}
    while reader.left:
        number = reader.uint(1)
        if number in fields:
            raise ValueError(f"carries optional metadata {number} twice")
        fields[number] = reader.take(reader.packed())
    return fields


def read_metadata(fields: dict[int, bytes], types: Sequence[int], *, mariadb: bool | None) -> Metadata:
    """Read every field for columns of these real types. ValueError on anything that does not fit."""
    if COLUMN_VISIBILITY in fields:
        mariadb = False  # only MySQL writes it
    metadata = Metadata(types, mariadb)
    for number, raw in fields.items():
        handler = _HANDLERS.get(number)
        if handler is None:
            raise ValueError(f"carries optional metadata of the unknown type {number}")
        reader = Reader(raw)
        handler(metadata, reader)
        reader.finish()
    return metadata


def column_label(fields: dict[int, bytes], index: int) -> str:
    """The best name there is for a column of a table map that cannot be parsed."""
    try:
        return f"column {_names(Reader(fields[COLUMN_NAME]))[index]!r}"
    except (KeyError, ValueError, IndexError):
        return f"column number {index + 1}"


def bits(raw: bytes, count: int, *, msb_first: bool) -> list[bool]:
    """``count`` flags; the metadata keeps them from the highest bit down, bitmaps from the lowest up."""
    if len(raw) != (count + 7) // 8:
        raise ValueError(f"carries {len(raw)} bytes of flags for {count} columns")
    return [bool(raw[bit // 8] >> (7 - bit % 8 if msb_first else bit % 8) & 1) for bit in range(count)]


def _fit(columns: list[int], values: Sequence[T], what: str) -> dict[int, T]:
    if len(columns) != len(values):
        raise ValueError(f"carries {len(values)} entries of {what} for {len(columns)} columns")
    return dict(zip(columns, values, strict=True))


def _flags(reader: Reader, columns: list[int]) -> dict[int, bool]:
    return dict(zip(columns, bits(reader.take(reader.left), len(columns), msb_first=True), strict=True))


def _signedness(metadata: Metadata, reader: Reader) -> None:
    metadata.unsigned = _flags(reader, metadata.of(NUMERIC))


def _visibility(metadata: Metadata, reader: Reader) -> None:
    metadata.visible = _flags(reader, list(range(len(metadata.types))))


def _default_collation(columns: list[int], reader: Reader) -> dict[int, int]:
    """A default, then pairs of (index among the covered columns, collation) for the exceptions."""
    collations = dict.fromkeys(columns, reader.packed())
    while reader.left:
        covered = reader.packed()
        if covered >= len(columns):
            raise ValueError(f"carries a character set for string column {covered + 1} of {len(columns)}")
        collations[columns[covered]] = reader.packed()
    return collations


def _default_charset(metadata: Metadata, reader: Reader) -> None:
    metadata.collation |= _default_collation(metadata.character(), reader)


def _column_charset(metadata: Metadata, reader: Reader) -> None:
    metadata.collation |= _fit(metadata.character(), reader.all_packed(), "character sets")


def _enum_default_charset(metadata: Metadata, reader: Reader) -> None:
    metadata.collation |= _default_collation(metadata.of(ENUM_OR_SET), reader)


def _enum_column_charset(metadata: Metadata, reader: Reader) -> None:
    metadata.collation |= _fit(metadata.of(ENUM_OR_SET), reader.all_packed(), "character sets")


def _names(reader: Reader) -> list[str]:
    names = []
    while reader.left:
        names.append(reader.take(reader.packed()).decode())
    return names


def _column_names(metadata: Metadata, reader: Reader) -> None:
    metadata.name = _fit(list(range(len(metadata.types))), _names(reader), "column names")


def _value_lists(reader: Reader) -> list[tuple[bytes, ...]]:
    lists = []
    while reader.left:
        lists.append(tuple(reader.take(reader.packed()) for _ in range(reader.packed())))
    return lists


def _set_values(metadata: Metadata, reader: Reader) -> None:
    metadata.values |= _fit(metadata.of({SET}), _value_lists(reader), "SET values")


def _enum_values(metadata: Metadata, reader: Reader) -> None:
    metadata.values |= _fit(metadata.of({ENUM}), _value_lists(reader), "ENUM values")


def _geometry_types(metadata: Metadata, reader: Reader) -> None:
    metadata.geometry_type = _fit(metadata.of({GEOMETRY}), reader.all_packed(), "geometry types")


def _dimensions(metadata: Metadata, reader: Reader) -> None:
    metadata.dimensions = _fit(metadata.of({VECTOR}), reader.all_packed(), "vector dimensions")


def _set_key(metadata: Metadata, indexes: Sequence[int]) -> None:
    if any(index >= len(metadata.types) for index in indexes):
        raise ValueError("names a key column it does not have")
    metadata.primary_key = tuple(indexes)


def _primary_key(metadata: Metadata, reader: Reader) -> None:
    _set_key(metadata, reader.all_packed())


def _primary_key_with_prefix(metadata: Metadata, reader: Reader) -> None:
    numbers = reader.all_packed()  # column, prefix length, column, prefix length, ...
    if len(numbers) % 2:
        raise ValueError("carries half a key column")
    _set_key(metadata, numbers[::2])


_HANDLERS: Final[dict[int, Callable[[Metadata, Reader], None]]] = {
    1: _signedness,
    2: _default_charset,
    3: _column_charset,
    COLUMN_NAME: _column_names,
    5: _set_values,
    6: _enum_values,
    7: _geometry_types,
    8: _primary_key,
    9: _primary_key_with_prefix,
    10: _enum_default_charset,
    11: _enum_column_charset,
    COLUMN_VISIBILITY: _visibility,
    13: _dimensions,
}
