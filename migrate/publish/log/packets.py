"""MySQL's packets, many from one read of the socket.

A packet is a 3-byte length, a sequence number and so many bytes; a longer message goes on in the next packet as long
as packets are full (MySQL source documentation, "MySQL Packets").
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import pymysql
from pymysql.constants import CR

_READ: Final = 256 * 1024
_FULL: Final = 0xFFFFFF
_head = Struct("<I").unpack_from


Pause = Callable[[], float]
"""Called before each read of the socket, which may wait: there other things are looked at, however many events one
read brings. Returns after how many seconds without a byte it wants to be called again, at most; 0 ends the reading."""


def patient() -> float:
    """A `Pause` that has nothing to look at."""
    return math.inf


def packets(sock: socket.socket, sequence: int, pause: Pause) -> Iterator[list[bytes]]:
    """Messages as they come, those of one read together; ``sequence`` is the number the first packet has. Error packets
    come too.

    Raises pymysql.OperationalError when the connection ends, is silent for its time-out, or a packet is missing.
    """
    longest = sock.gettimeout() or math.inf
    silent = 0.0
    data, at = b"", 0
    parts: list[bytes] = []  # of a message in several packets
    while True:
        found: list[bytes] = []
        size, wanted = len(data), 4
        while size - at >= 4:
            head = _head(data, at)[0]
            length = head & _FULL
            start = at + 4
            end = start + length
            if end > size:
                wanted = end - at
                break
            if head >> 24 != sequence:
                if found:
                    yield found
                raise _lost(f"packet {sequence} was expected, {head >> 24} came")
            sequence = (sequence + 1) & 0xFF
            if length == _FULL:
                parts.append(data[start:end])
            elif parts:
                found.append(b"".join((*parts, data[start:end])))
                parts = []
            else:
                found.append(data[start:end])
            at = end
        if found:
            yield found
        wait = min(pause(), longest)
        if not wait:
            return
        data, at = data[at:], 0
        more = _more(sock, data, wanted, wait)
        silent = silent + wait if more is data else 0.0
        if silent >= longest:
            raise _lost("timed out")
        data = more


def _more(sock: socket.socket, data: bytes, wanted: int, wait: float) -> bytes:
    """``data`` and what follows it, at least ``wanted`` bytes together, or as many as came before ``wait`` seconds
    without any: ``data`` itself when there were none."""
    parts, missing = [data], wanted - len(data)
    if sock.gettimeout() != wait:
        sock.settimeout(None if wait == math.inf else wait)
    while missing > 0:
        try:
            part = sock.recv(max(_READ, missing))
        except TimeoutError:
            break
        except OSError as error:
            raise _lost(str(error)) from error
        if not part:
            raise _lost("it was closed")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts) if len(parts) > 1 else data


def _lost(why: str) -> pymysql.OperationalError:
    return pymysql.OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query ({why})")
