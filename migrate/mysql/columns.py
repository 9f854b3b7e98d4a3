"""Rows of a large result as they arrive, column by column, each value the server's own bytes.

The driver makes an object of every packet and of every row; here the text protocol's rows are taken out of whole reads
of the socket (MySQL internals, "Protocol::ResultsetRow"), which costs a fifth of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pymysql.constants import COMMAND
from pymysql.err import raise_mysql_exception

from migrate.mysql.connection import Connection, file_asked

_READ = 256 * 1024
_WHOLE = 0xFFFFFF
"""A packet of this size goes on in the next one."""
_NULL, _TWO, _THREE, _EIGHT = 0xFB, 0xFC, 0xFD, 0xFE
_EOF, _ERROR = 0xFE, 0xFF
_EOF_SIZE = 9

Column = list[bytes | None]


def stream(connection: Connection, sql: str, args: Sequence[object], rows: int, size: int) -> Iterator[list[Column]]:
    """Run a SELECT and give its columns, some rows at a time, none empty.

    Args: rows: at most so many at a time; size: and not many more bytes than this. The session must give raw results.
    Raises: the driver's error. A session whose rows were not read to the end is closed.
    """
    connection.enter()
    raw: Any = connection.raw
    with raw.cursor() as cursor:
        statement = cursor.mogrify(sql, args)
    whole = False
    try:
        raw._execute_command(COMMAND.COM_QUERY, statement)
        head = raw._read_packet()
        if head.is_load_local_packet():
            raise file_asked(connection.name, "a file")
        width = int(head.read_length_encoded_integer())
        for _ in range(width + 1):  # the columns, and the end of them
            raw._read_packet()
        reader = _Reader(raw, width)
        while not reader.ended:
            if (columns := reader.read(rows, size))[0]:
                yield columns
        whole = True
    finally:
        if not whole:
            connection.close()


class _Reader:
    def __init__(self, raw: Any, width: int) -> None:
        raw._sock.settimeout(raw._read_timeout)
        self.ended = False
        self._file = raw._rfile
        self._width = range(width)
        self._buffer = b""
        self._at = 0

    def read(self, rows: int, size: int) -> list[Column]:
        """Up to so many rows, or the rest of them."""
        columns: list[Column] = [[] for _ in self._width]
        adds = [column.append for column in columns]
        buffer, at = self._buffer, self._at
        left, taken = rows, 0
        while left and taken < size:
            if len(buffer) - at < 4:
                buffer, at = self._more(buffer, at, 4), 0
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            end = at + 4 + length
            if end > len(buffer):
                buffer, at = self._more(buffer, at, 4 + length), 0
                end = 4 + length
            at += 4
            first = buffer[at]
            if first >= _EOF and (first == _ERROR or length < _EOF_SIZE):
                self.ended = True
                if first == _ERROR:
                    raise_mysql_exception(buffer[at:end])
                break
            if length == _WHOLE:
                buffer, at, end = self._joined(buffer, at, end)
            for add in adds:
                first = buffer[at]
                at += 1
                if first < _NULL:
                    add(buffer[at : at + first])
                    at += first
                elif first == _NULL:
                    add(None)
                else:
                    width = 2 if first == _TWO else 3 if first == _THREE else 8
                    first = int.from_bytes(buffer[at : at + width], "little")
                    at += width
                    add(buffer[at : at + first])
                    at += first
            at = end
            left -= 1
            taken += length
        self._buffer, self._at = buffer, at
        return columns

    def _more(self, buffer: bytes, at: int, wanted: int) -> bytes:
        """What is left of the buffer, and as much behind it that there are so many bytes. Raises as the socket does."""
        parts = [buffer[at:]]
        have = len(parts[0])
        while have < wanted:
            part = None if self._file.closed else self._file.read1(max(_READ, wanted - have))
            if not part:
                raise ConnectionError("the server hung up while its rows were read")
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _joined(self, buffer: bytes, at: int, end: int) -> tuple[bytes, int, int]:
        """A row of several packets as one, and where it stands in the buffer."""
        parts = [buffer[at:end]]
        length = _WHOLE
        while length == _WHOLE:
            if len(buffer) - end < 4:
                buffer, end = self._more(buffer, end, 4), 0
            length = int.from_bytes(buffer[end : end + 3], "little")
            if len(buffer) - end < 4 + length:
                buffer, end = self._more(buffer, end, 4 + length), 0
            parts.append(buffer[end + 4 : end + 4 + length])
            end += 4 + length
        row = b"".join(parts)
        return row + buffer[end:], 0, len(row)
