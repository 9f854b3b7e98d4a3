"""Row events to canonical text, exactly (the table of texts is in docs/messages.md).

``compile_table`` makes a decoder for one table map, ``DecoderCache`` keeps them by the raw TABLE_MAP bytes.
Anything that is not known for certain is a StopError that names the table and, where it can be told, the
column (invariant unknown-stops).

Sources: MySQL's ``libs/mysql/binlog/event/rows_event.h``; MariaDB's "Rows event" and compressed events pages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from migrate.model.errors import Code, StopError
from migrate.mysql.quoting import quote
from migrate.mysql.values import NOT_UTF8, rows_not_utf8
from migrate.publish.decode.codecs import Codec
from migrate.publish.decode.columns import codec_for
from migrate.publish.decode.compile import Image as Image
from migrate.publish.decode.compile import RowFunctions
from migrate.publish.decode.cursor import Reader
from migrate.publish.decode.tablemap import TableMap, parse_table_map
from migrate.publish.decode.text import unpack

Change = tuple[Image | None, Image | None]
ColumnTypes = Callable[[str, str], Mapping[str, str] | None]

WRITE: Final = frozenset({23, 30, 166, 169})
UPDATE: Final = frozenset({24, 31, 167, 170})
DELETE: Final = frozenset({25, 32, 168, 171})
_VERSION_2: Final = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED: Final = frozenset(range(166, 172))
ROW_EVENTS: Final = WRITE | UPDATE | DELETE
"""WRITE, UPDATE, DELETE_ROWS: version 1 (23 to 25, MariaDB), 2 (30 to 32, MySQL), compressed (MariaDB)."""

PARTIAL_UPDATE_ROWS: Final = 39
DUMMY_TABLE_ID: Final = 0xFFFFFF
"""The table id of a row event that has no table map and no rows, and only ends a statement."""

MYSQL_CHARSETS_SQL: Final = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
MARIADB_CHARSETS_SQL: Final = (
    "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
)
"""MariaDB's COLLATIONS leaves ids out since 10.10; older ones have no ID here, and COLLATIONS is complete."""


def charsets_from_rows(rows: Iterable[tuple[int | None, str | None]]) -> dict[int, str]:
    """Collation id to character set, from the rows of the query for the flavour."""
    return {number: name for number, name in rows if number is not None and name is not None}


class RowDecoder:
    """Decodes the row events of one table layout."""

    def __init__(self, table_map: TableMap, codecs: Sequence[Codec]) -> None:
        self.table_map = table_map
        self.codecs = tuple(codecs)
        self._rows = RowFunctions(codecs, [column.nullable for column in table_map.columns])
        self._width = len(table_map.columns)
        self._bitmap_bytes = (self._width + 7) // 8
        ones = (1 << self._width) - 1
        filled = (ones.to_bytes(self._bitmap_bytes, "little"), b"\xff" * self._bitmap_bytes)
        packed = _packed(self._width)
        self._heads = {count: tuple(packed + bitmap * count for bitmap in filled) for count in (1, 2)}
        self._head_bytes = {count: len(packed) + self._bitmap_bytes * count for count in (1, 2)}

    def decode(self, event_type: int, body: bytes) -> list[Change]:
        """The (before, after) images of a row event's rows, in order; an image is in column order.

        ``body`` is what follows the 19-byte header, without the checksum. An insert has no before image, a
        delete no after image. StopError for an event type that carries no full rows, for images that leave
        columns out, and for bytes that do not decode to the last one.
        """
        body, at = self.images(event_type, body)
        found = self._images(body, at)
        if event_type in WRITE:
            return [(None, image) for image in found]
        if event_type in DELETE:
            return [(image, None) for image in found]
        if len(found) % 2:
            raise self._stop("an update has a before image and no after image")
        pairs = iter(found)
        return list(zip(pairs, pairs, strict=True))

    def images(self, event_type: int, body: bytes) -> tuple[bytes, int]:
        """The bytes that hold the row images, and the offset in them of the first one's NULL bitmap.

        StopError for an event type that carries no full rows, and for images that leave columns out.
        """
        if event_type not in ROW_EVENTS:
            raise self._unknown_event(event_type)
        at = self._skip_head(body, 2 if event_type in UPDATE else 1, version_2=event_type in _VERSION_2)
        return (self._uncompressed(body, at), 0) if event_type in _COMPRESSED else (body, at)

    def _images(self, body: bytes, at: int) -> list[Image]:
        end = len(body)
        rows, null_bytes = self._rows, self._bitmap_bytes
        found: list[Image] = []
        append = found.append
        try:
            while at < end:
                start = at + null_bytes
                image, at = rows[body[at:start]](body, start)
                append(image)
        except (ValueError, LookupError, ArithmeticError, struct.error) as error:
            raise self._undecodable(error) from error
        if at != end:
            raise self._stop(f"a row event ends {at - end} bytes early")
        return found

    def _skip_head(self, body: bytes, images: int, *, version_2: bool) -> int:
        """The offset of the first row: after the table id, flags, extra data, and the bitmaps of columns."""
        at = 8
        if version_2:
            at += int.from_bytes(body[8:10], "little")
            if at < 10:
                raise self._stop("a row event has extra data of a negative length")
        if not body.startswith(self._heads[images], at):
            self._refuse_head(body[at:], images)
        return at + self._head_bytes[images]

    def _refuse_head(self, head: bytes, images: int) -> None:
        """Say what is wrong with the width or the bitmaps; return if it is only their unused bits."""
        ones = (1 << self._width) - 1
        try:
            reader = Reader(head)
            width = reader.packed()
            if width != self._width:
                raise self._stop(f"a row event has {width} columns, its table map {self._width}")
            present = [reader.uint(self._bitmap_bytes) & ones for _ in range(images)]
        except ValueError as error:
            raise self._stop(f"a row event {error}") from error
        if any(bitmap != ones for bitmap in present):
            raise self._stop(
                "an event leaves columns out: binlog_row_image is not FULL",
                "set binlog_row_image=FULL at the source and end its older sessions; what it changed is lost to this"
                " migration: start a new one and copy again",
            )

    def _uncompressed(self, body: bytes, at: int) -> bytes:
        """The rows of one of MariaDB's compressed events."""
        try:
            return unpack(body, at)
        except ValueError as error:
            raise self._stop(f"a compressed row event {error}") from error

    def _undecodable(self, error: Exception) -> StopError:
        index = self._rows.column_of(error)
        where = "a row" if index is None else f"column {self._label(index)}"
        if isinstance(error, struct.error):
            return self._stop("a row event ends early, inside a row")
        if isinstance(error, UnicodeDecodeError) and index is not None:
            name = self.table_map.columns[index].name or "…"
            hint = f"{rows_not_utf8(quote(name))}, start a new migration and copy again; or leave the table out"
            return self._stop(f"{where} {NOT_UTF8}", hint)
        reason = str(error) if isinstance(error, ValueError) else "holds a value that its type cannot have"
        return self._stop(f"{where} {reason}")

    def _label(self, index: int) -> str:
        return repr(self.table_map.columns[index].name or f"number {index + 1}")

    def _unknown_event(self, event_type: int) -> StopError:
        if event_type == PARTIAL_UPDATE_ROWS:
            return self._stop(
                "an update carries JSON differences: binlog_row_value_options is PARTIAL_JSON",
                "set binlog_row_value_options='' at the source, and begin again after it",
            )
        return self._stop(f"event type {event_type} is not a row event this service decodes")

    def _stop(self, message: str, hint: str = "") -> StopError:
        return StopError(f"{self.table_map.full_name}: {message}", hint=hint, code=Code.LOG)


def compile_table(
    table_map: TableMap, charsets: Mapping[int, str], column_types: Mapping[str, str] | None = None
) -> RowDecoder:
    """A decoder for the row events of this table map.

    ``charsets`` maps the server's collation ids to character sets (``charsets_from_rows``). ``column_types``
    maps column names to information_schema's COLUMN_TYPE. On MariaDB give it: UUID, INET4 and INET6 look
    like BINARY in the log, and are then decoded as such. StopError names the column that cannot be decoded.
    """
    codecs = []
    for index, column in enumerate(table_map.columns):
        try:
            codecs.append(codec_for(column, charsets, (column_types or {}).get(column.name or "")))
        except ValueError as error:
            label = repr(column.name) if column.name else f"number {index + 1}"
            raise StopError(f"{table_map.full_name}: column {label} {error}", code=Code.LOG) from error
    return RowDecoder(table_map, codecs)


@dataclass(slots=True)
class RowEvent:
    """One row event of a table, not yet decoded; iterate for its (before, after) images.

    ``body`` is what follows the 19-byte header, without the checksum.
    """

    decoder: RowDecoder
    type: int
    body: bytes

    def __iter__(self) -> Iterator[Change]:
        return iter(self.decoder.decode(self.type, self.body))


class DecoderCache:
    """Decoders by the raw bytes of the TABLE_MAP event, whatever its table id, so that small transactions
    are cheap.

    ``column_types`` gives the COLUMN_TYPE by column name of a (database, table). A DDL can change those and
    leave the table map as it was (BINARY(16) to UUID): call ``clear`` when one is seen. ``complete`` adds what
    the log leaves out, and refuses a table map that contradicts the table's definition.
    """

    def __init__(
        self,
        charsets: Mapping[int, str],
        *,
        mariadb: bool,
        column_types: ColumnTypes | None = None,
        complete: Callable[[TableMap], TableMap] | None = None,
        limit: int = 4096,
    ) -> None:
        self._charsets = charsets
        self._mariadb = mariadb
        self._column_types = column_types
        self._complete = complete
        self._limit = limit
        self._decoders: dict[bytes, RowDecoder] = {}

    def get(self, body: bytes) -> RowDecoder:
        """The decoder for the row events that refer to this TABLE_MAP event."""
        key = body[6:]
        decoder = self._decoders.get(key)
        if decoder is None:
            table_map = parse_table_map(body, mariadb=self._mariadb)
            if self._complete is not None:
                table_map = self._complete(table_map)
            types = self._column_types(table_map.database, table_map.table) if self._column_types else None
            if len(self._decoders) >= self._limit:
                self._decoders.clear()
            decoder = self._decoders[key] = compile_table(table_map, self._charsets, types)
        return decoder

    def clear(self) -> None:
        self._decoders.clear()


def _packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + number.to_bytes(2, "little")
