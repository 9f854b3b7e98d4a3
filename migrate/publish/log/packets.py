"""MySQL's packets, many from one read of the socket.

A packet is a 3-byte length, a sequence number and so many bytes; a longer message goes on in the next packet as long
as packets are full (MySQL source documentation, "MySQL Packets").
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import pymysql
from pymysql.constants import CR

_READ: Final = 256 * 1024
_FULL: Final = 0xFFFFFF
_head = Struct("<I").unpack_from


Pause = Callable[[], bool]
"""Called before each read of the socket, which may wait: there other things are looked at, however many events one
read brings. False ends the reading."""


def packets(sock: socket.socket, sequence: int, pause: Pause) -> Iterator[bytes]:
    """Messages as they come; ``sequence`` is the number the first packet has. Error packets come too.

    Raises pymysql.OperationalError when the connection ends, is silent for its time-out, or a packet is missing.
    """
    data, at, size = b"", 0, 0
    parts: list[bytes] = []  # of a message in several packets
    while True:
        if size - at < 4:
            if not pause():
                return
            data, at = _more(sock, data[at:], 4), 0
            size = len(data)
        head = _head(data, at)[0]
        length = head & _FULL
        start = at + 4
        at = start + length
        if at > size:
            if not pause():
                return
            data = _more(sock, data[start:], length)
            start, at, size = 0, length, len(data)
        if head >> 24 != sequence:
            raise _lost(f"packet {sequence} was expected, {head >> 24} came")
        sequence = (sequence + 1) & 0xFF
        if length == _FULL:
            parts.append(data[start:at])
        elif parts:
            yield b"".join((*parts, data[start:at]))
            parts = []
        else:
            yield data[start:at]


def _more(sock: socket.socket, data: bytes, wanted: int) -> bytes:
    """``data`` and what follows it, at least ``wanted`` bytes together."""
    parts, missing = [data], wanted - len(data)
    while missing > 0:
        try:
            part = sock.recv(max(_READ, missing))
        except OSError as error:
            raise _lost(str(error)) from error
        if not part:
            raise _lost("it was closed")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _lost(why: str) -> pymysql.OperationalError:
    return pymysql.OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query ({why})")
