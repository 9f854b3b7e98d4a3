"""The type bytes of the binlog (enum_field_types), and which columns each metadata list covers."""

from __future__ import annotations

from typing import Final

TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
TIMESTAMP: Final = 7
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
TIME: Final = 11
DATETIME: Final = 12
YEAR: Final = 13
NEWDATE: Final = 14
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
VECTOR: Final = 242
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

METADATA_SIZE: Final = {
    TINY: 0, SHORT: 0, LONG: 0, FLOAT: 1, DOUBLE: 1, TIMESTAMP: 0, LONGLONG: 0, INT24: 0, DATE: 0, TIME: 0,
    DATETIME: 0, YEAR: 0, NEWDATE: 0, VARCHAR: 2, BIT: 2, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1,
    BLOB_COMPRESSED: 1, VARCHAR_COMPRESSED: 2, VECTOR: 1, JSON: 1, NEWDECIMAL: 2, BLOB: 1, VAR_STRING: 2,
    STRING: 2, GEOMETRY: 1,
}  # fmt: skip
"""Bytes of metadata a type has in a TABLE_MAP event. A type that is not here is unknown."""

NUMERIC: Final = frozenset({TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, YEAR, NEWDECIMAL})
"""Covered by the signedness bits: YEAR is, BIT is not (seen on MySQL 9.7 and MariaDB 10.11)."""

CHARACTER: Final = frozenset({VARCHAR, VAR_STRING, STRING, BLOB, VECTOR, BLOB_COMPRESSED, VARCHAR_COMPRESSED})
"""Covered by the character set lists; on MariaDB GEOMETRY is too."""

ENUM_OR_SET: Final = frozenset({ENUM, SET})


def real_type(type_: int, metadata: bytes) -> tuple[int, bytes]:
    """The type and metadata of a column, with what STRING's two metadata bytes pack taken apart.

    ENUM and SET travel as STRING with their own type in the first byte. A CHAR longer than 255 bytes keeps
    bits 8 and 9 of its length there, inverted. The metadata of all three comes back as a 2-byte
    little-endian length.
    """
    if type_ != STRING:
        return type_, metadata
    real, length = metadata
    if real & 0x30 != 0x30:
        length |= ((real & 0x30) ^ 0x30) << 4
        real |= 0x30
    if real not in (STRING, ENUM, SET):
        raise ValueError(f"has a string column of the unknown type {real}")
    return real, length.to_bytes(2, "little")
