"""Events that carry others compressed: MySQL's whole transactions, MariaDB's statements.

Sources: MySQL's ``libs/mysql/binlog/event/codecs/binary.cpp`` (Transaction_payload); MariaDB knowledge base,
"Compressed binary log events".
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Final

import zstandard

from migrate.model.errors import Code, StopError
from migrate.publish.decode.cursor import Reader
from migrate.publish.decode.text import unpack
from migrate.publish.log import binlog
from migrate.publish.log.binlog import Event

_END, _SIZE, _ALGORITHM, _WHOLE_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
_HEADER: Final = 19


def transaction(event: Event) -> Iterator[Event]:
    """The events of a TRANSACTION_PAYLOAD event, from BEGIN to the commit, each at the place of the whole.

    They are unpacked one after the other, so that a large transaction does not stand in memory a second time. Raises
    StopError for what cannot be unpacked to its last byte.
    """
    try:
        algorithm, size, start = _head(event.body)
        data = memoryview(event.body)[start:]
        if algorithm == _ZSTD:
            source: BinaryIO = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        elif algorithm == _NONE:
            source = io.BytesIO(data)
        else:
            raise ValueError(f"is compressed in the unknown way {algorithm}")
        read = 0
        while head := source.read(_HEADER):
            length = int.from_bytes(head[9:13], "little")
            body = source.read(length - _HEADER) if length > _HEADER else b""
            if len(head) + len(body) != length:
                raise ValueError("ends inside an event")
            read += length
            yield _inner(event, head, body)
        if size is not None and read != size:
            raise ValueError(f"has {read} bytes, not the {size} it says")
    except (ValueError, zstandard.ZstdError) as error:
        raise StopError(f"a compressed transaction {error}", code=Code.LOG) from error


def _head(body: bytes) -> tuple[int, int | None, int]:
    """The algorithm, the size of what was compressed, and where the payload starts."""
    reader = Reader(body)
    algorithm, size = _NONE, None
    while (field := reader.packed()) != _END:
        raw = Reader(reader.take(reader.packed()))
        if field == _ALGORITHM:
            algorithm = raw.packed()
        elif field == _WHOLE_SIZE:
            size = raw.packed()
        elif field != _SIZE:
            raise ValueError(f"has the unknown field {field}")
    return algorithm, size, len(body) - reader.left


def _inner(event: Event, head: bytes, body: bytes) -> Event:
    timestamp, kind = int.from_bytes(head[:4], "little"), head[4]
    return Event(timestamp, kind, event.server_id, event.size, event.end, 0, body)


def query(event: Event) -> Event:
    """A QUERY_COMPRESSED event as the QUERY event it stands for. Raises StopError."""
    body = event.body
    start = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    try:
        text = unpack(body, start)
    except ValueError as error:
        raise StopError(f"a compressed statement {error}", code=Code.LOG) from error
    return event._replace(type=binlog.QUERY, body=body[:start] + text)
