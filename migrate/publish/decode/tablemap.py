"""TABLE_MAP events: what columns the row events that follow have.

Sources: MySQL's ``libs/mysql/binlog/event/rows_event.h`` (class Table_map_event), MariaDB's "Table map event"
page, and both servers' own logs (tests/publish/test_decode_tablemap.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from migrate.model.errors import Code, StopError
from migrate.publish.decode.column_types import METADATA_SIZE, real_type
from migrate.publish.decode.cursor import Reader
from migrate.publish.decode.metadata import bits, column_label, read_metadata, split_fields


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """One column as the binlog describes it; what its metadata leaves out is None."""

    name: str | None
    type: int  # the real type: ENUM and SET are told apart from STRING
    metadata: bytes
    nullable: bool
    unsigned: bool | None = None
    collation: int | None = None
    values: tuple[bytes, ...] | None = None  # of an ENUM or SET, in its own character set
    geometry_type: int | None = None
    dimensions: int | None = None  # of a VECTOR
    visible: bool = True


@dataclass(frozen=True, slots=True)
class TableMap:
    """A parsed TABLE_MAP event; ``primary_key`` holds column indexes, None when the log does not say."""

    table_id: int
    database: str
    table: str
    columns: tuple[ColumnMap, ...]
    primary_key: tuple[int, ...] | None = None

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.table}"


def peek_table_id(body: bytes) -> int:
    """The table id a TABLE_MAP event defines or a rows event refers to (its first 6 bytes)."""
    if len(body) < 8:
        raise StopError(f"a row event of {len(body)} bytes has no room for its table id", code=Code.LOG)
    return int.from_bytes(body[:6], "little")


def peek_table(body: bytes) -> tuple[int, str, str]:
    """Table id, database and table of a TABLE_MAP event, without parsing its columns."""
    try:
        return _read_names(Reader(body))
    except ValueError as error:
        raise StopError(f"a TABLE_MAP event cannot be read: it {error}", code=Code.LOG) from error


def parse_table_map(body: bytes, *, mariadb: bool | None = None) -> TableMap:
    """Parse the body of a TABLE_MAP event (without the 19-byte header and the checksum).

    ``mariadb`` says who wrote the event: MariaDB counts GEOMETRY among the columns with a character set,
    MySQL does not. StopError when that is needed and unknown, on a type byte this service does not know (the
    message names the column), and on a body that does not parse to its last byte.
    """
    try:
        return _parse(Reader(body), mariadb)
    except (ValueError, IndexError) as error:
        raise StopError(f"the TABLE_MAP event of {_name_of(body)} {error}", code=Code.LOG) from error


def _name_of(body: bytes) -> str:
    try:
        return ".".join(_read_names(Reader(body))[1:])
    except ValueError:
        return "an unreadable table name"


def _read_names(reader: Reader) -> tuple[int, str, str]:
    table_id = reader.uint(6)
    reader.take(2)  # flags
    return table_id, _read_name(reader), _read_name(reader)


def _read_name(reader: Reader) -> str:
    name = reader.take(reader.uint(1)).decode()
    if reader.take(1) != b"\0":
        raise ValueError("has a name that does not end where it says")
    return name


def _parse(reader: Reader, mariadb: bool | None) -> TableMap:
    table_id, database, table = _read_names(reader)
    wire_types = reader.take(reader.packed())
    raw = Reader(reader.take(reader.packed()))
    nullable = bits(reader.take((len(wire_types) + 7) // 8), len(wire_types), msb_first=False)
    fields = split_fields(reader)
    types = []
    for index, wire_type in enumerate(wire_types):
        if wire_type not in METADATA_SIZE:
            raise ValueError(f"has the unknown type byte {wire_type} in {column_label(fields, index)}")
        types.append(real_type(wire_type, raw.take(METADATA_SIZE[wire_type])))
    raw.finish()
    more = read_metadata(fields, [type_ for type_, _ in types], mariadb=mariadb)
    columns = tuple(
        ColumnMap(
            name=more.name.get(index),
            type=type_,
            metadata=metadata,
            nullable=nullable[index],
            unsigned=more.unsigned.get(index),
            collation=more.collation.get(index),
            values=more.values.get(index),
            geometry_type=more.geometry_type.get(index),
            dimensions=more.dimensions.get(index),
            visible=more.visible.get(index, True),
        )
        for index, (type_, metadata) in enumerate(types)
    )
    return TableMap(table_id, database, table, columns, more.primary_key)
