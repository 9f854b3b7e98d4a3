"""The GTID that opens a transaction in the log, and the sets that head a file.

Layouts: MySQL source documentation, "Gtid_event" (control_events.h) and, for tagged ones, mysql::serialization, whose
integers say by the 1-bits at the end of their first byte how many bytes follow; MariaDB knowledge base, "GTID_EVENT".
"""

from __future__ import annotations

import struct
from functools import lru_cache

from migrate.model.errors import Code, StopError

_GTID, _PREVIOUS, _TAGGED, _MARIADB, _LIST = 33, 35, 42, 162, 163
_TAGGED_VERSION = 1
_FIELD_UUID, _FIELD_NUMBER, _FIELD_TAG = 1, 2, 3


def gtid_of(kind: int, server_id: int, body: bytes) -> str:
    """The GTID as the server writes it; "" for an anonymous transaction. Raises StopError on an unknown layout."""
    if kind == _MARIADB:
        sequence, domain = int.from_bytes(body[:8], "little"), int.from_bytes(body[8:12], "little")
        return f"{domain}-{server_id}-{sequence}"
    if kind == _GTID:
        return f"{uuid_text(body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
    if kind == _TAGGED:
        return _tagged(body)
    return ""


def gtids_before(kind: int, body: bytes) -> str | None:
    """The set that a file's PREVIOUS_GTIDS (MySQL) or GTID_LIST (MariaDB) says is before it; None for other events."""
    try:
        if kind == _LIST:
            count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
            rows = (struct.unpack_from("<IIQ", body, 4 + 16 * index) for index in range(count))
            return ",".join(f"{domain}-{server}-{number}" for domain, server, number in rows)
        return _previous(body) if kind == _PREVIOUS else None
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise StopError(f"the GTID set at the head of a file cannot be read: {error}", code=Code.LOG) from None


def _previous(body: bytes) -> str:
    """As `Gtid_set::encode` writes it: with tags, the first and the last byte of the count say so."""
    count = int.from_bytes(body[:8], "little")
    tagged = body[7] == 1
    if tagged:
        count = count >> 8 & (1 << 48) - 1
    at, parts = 8, []
    for _ in range(count):
        name = uuid_text(body[at : at + 16])
        at += 16
        if tagged:
            length, at = _number(body, at)
            name += f":{body[at : at + length].decode('ascii')}" if length else ""
            at += length
        (intervals,) = struct.unpack_from("<Q", body, at)
        pairs = [struct.unpack_from("<QQ", body, at + 8 + 16 * index) for index in range(intervals)]
        at += 8 + 16 * intervals
        parts += [f"{name}:{first}-{behind - 1}" for first, behind in pairs]
    return ",".join(parts)


@lru_cache(maxsize=64)
def uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _tagged(body: bytes) -> str:
    try:
        version, at = _number(body, 0)
        _, at = _number(body, at)  # size of the rest
        _, at = _number(body, at)  # the last field that a reader must know
        fields: list[int] = []
        uuid, number, tag = b"", 0, ""
        while not tag:
            field, at = _number(body, at)
            fields.append(field)
            if field == _FIELD_UUID:
                parts = []
                for _ in range(16):
                    part, at = _number(body, at)
                    parts.append(part)
                uuid = bytes(parts)
            elif field == _FIELD_TAG:
                length, at = _number(body, at)
                tag, at = body[at : at + length].decode("ascii"), at + length
                if len(tag) != length:
                    raise IndexError("it ends early")
            else:
                value, at = _number(body, at)
                if field == _FIELD_NUMBER:
                    number = -((value + 1) >> 1) if value & 1 else value >> 1  # the lowest bit is the sign
        if version != _TAGGED_VERSION or fields != [0, 1, 2, 3] or number < 1:
            raise ValueError(f"version {version}, fields {fields}")
    except (IndexError, ValueError) as error:
        raise StopError(f"a tagged GTID event cannot be read: {error}", code=Code.LOG) from None
    return f"{uuid_text(uuid)}:{tag}:{number}"


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where the next field begins."""
    first = body[at]
    ones = (~first & (first + 1)).bit_length() - 1
    if at + ones >= len(body):
        raise IndexError("it ends early")
    if ones == 8:
        return int.from_bytes(body[at + 1 : at + 9], "little"), at + 9
    return int.from_bytes(body[at : at + ones + 1], "little") >> (ones + 1), at + ones + 1
