"""Tables and columns as the service sees them: values only, no I/O."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Kind(StrEnum):
    """How a column's value is written as canonical text (see docs/messages.md)."""

    INT = "int"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    BIT = "bit"
    ENUM = "enum"
    SET = "set"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    YEAR = "year"
    TEXT = "text"  # utf8mb4, utf8mb3, ascii: the text itself
    RAWTEXT = "rawtext"  # any other character set: the column's bytes, one character a byte
    BINARY = "binary"
    GEOMETRY = "geometry"
    VECTOR = "vector"
    JSON = "json"  # MySQL's binary JSON; MariaDB's JSON is text
    UUID = "uuid"
    INET = "inet"


BYTES_KINDS = frozenset({Kind.RAWTEXT, Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR})
"""Kinds whose text maps one character to one byte (Latin-1)."""


_SHOWN = 200  # characters


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str  # information_schema.COLUMN_TYPE, e.g. "bigint(20) unsigned"
    kind: Kind
    charset: str | None = None
    collation: str | None = None
    generated: bool = False
    nullable: bool = True

    @property
    def shown_type(self) -> str:
        """The type for a line of text: an ENUM may have a megabyte of labels."""
        return self.type if len(self.type) <= _SHOWN else f"{self.type[:_SHOWN]}…"

    @property
    def titled(self) -> str:
        """How messages name it: "column id (bigint(20))"."""
        return f"column {self.name} ({self.shown_type})"

    @property
    def key_is_exact(self) -> bool:
        """Whether two different texts of this column can never be one key at the server."""
        if self.kind in (Kind.TEXT, Kind.RAWTEXT):
            # PAD SPACE makes 'a' and 'a ' one key even under _bin collations
            return False
        return self.kind not in (Kind.FLOAT, Kind.DOUBLE, Kind.JSON, Kind.GEOMETRY)


TableId = tuple[str, str, str]
"""(source, database, table): what tells tables apart in a migration."""


@dataclass(frozen=True)
class Table:
    """One source table: its columns in order, and the key everything else uses."""

    source: str
    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()  # all but the key

    @property
    def id(self) -> TableId:
        return self.source, self.database, self.name

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def layout(self) -> str:
        """What messages name these columns by: 12 hexadecimal digits of the SHA-256 of their names, types and character
        sets, in order, as JSON (docs/messages.md)."""
        columns = [[column.name, column.type, column.charset] for column in self.columns]
        return hashlib.sha256(json.dumps(columns, separators=(",", ":")).encode()).hexdigest()[:12]

    @cached_property
    def stored(self) -> tuple[Column, ...]:
        """The columns that are written; generated ones are left to the target (invariant exact-values)."""
        return tuple(column for column in self.columns if not column.generated)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        return tuple(self.by_name[name] for name in self.key)

    @cached_property
    def key_is_exact(self) -> bool:
        return all(column.key_is_exact for column in self.key_columns)

    @cached_property
    def one_partition(self) -> bool:
        """Whether every change of the table travels in one partition (invariant per-key-order).

        So do tables with further unique keys: a value freed by one row and taken by another is then
        in binlog order (docs/decisions/0003).
        """
        return not self.key_is_exact or bool(self.unique_keys)
