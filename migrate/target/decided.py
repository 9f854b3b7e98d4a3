"""What was decided for each key, kept for a while beside the rows, for `migrate explain`.

One row a transaction, compressed: a row a key would cost as much as writing the key's own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.mysql.connection import Connection

_TABLE = "_migrate_decided"
_BYTES = 4 * 1024 * 1024
"""Of text in one row: even if nothing of it can be compressed, far below what a packet or MEDIUMBLOB takes."""
_LEVEL = 1
_READ = 5_000
_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Decided:
    place: str
    key: Key
    what: str
    coordinate: Coordinate


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision, and when the target's clock said it was made."""

    made: datetime
    decided: Decided


def put(connection: Connection, migration: str, decided: list[Decided]) -> None:
    """Keep a transaction's decisions, in it."""
    lines: list[str] = []
    size = 0
    for one in decided:
        lines.append(line := _text((one.place, one.key, one.what, one.coordinate)))
        size += len(line)
        if size >= _BYTES:
            _put(connection, migration, lines)
            lines, size = [], 0
    if lines:
        _put(connection, migration, lines)


def _put(connection: Connection, migration: str, lines: list[str]) -> None:
    body = zlib.compress("\n".join(lines).encode(), _LEVEL)
    connection.execute(f"INSERT INTO {_TABLE} (migration, body) VALUES (%s, %s)", (migration, body))


def find(connection: Connection, migration: str, places: Collection[str], key: Key) -> list[Kept]:
    """What was decided for a key at these places of the database, oldest first, in its latest 5,000 transactions."""
    ids = connection.query(f"SELECT id FROM {_TABLE} WHERE migration = %s ORDER BY id DESC LIMIT {_READ}", (migration,))
    wanted, found = _text(key), []
    for start in range(0, len(ids), _AT_ONCE):  # a few at once: each may be megabytes
        part = [row[0] for row in ids[start : start + _AT_ONCE]]
        marks = ", ".join(["%s"] * len(part))
        rows = connection.query(f"SELECT made, body FROM {_TABLE} WHERE id IN ({marks}) ORDER BY id DESC", part)
        for made, body in rows:
            at = datetime.fromisoformat(str(made))
            lines = [one for one in _lines(zlib.decompress(bytes(body)).decode(), wanted) if one.place in places]
            found += [Kept(at, one) for one in reversed(lines) if one.key == key]
    return found[::-1]


def _text(value: tuple[object, ...]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _lines(body: str, wanted: str) -> Iterable[Decided]:
    for line in body.split("\n"):
        if wanted in line:
            place, key, what, coordinate = json.loads(line)
            yield Decided(place, tuple(key), what, Coordinate(*coordinate))


def clean_up(connection: Connection, migration: str, seconds: float, limit: int) -> int:
    """Drop what is older than so many seconds by the target's clock; returns how many transactions."""
    return connection.execute(
        f"DELETE FROM {_TABLE} WHERE migration = %s AND made < NOW(6) - INTERVAL {int(seconds * 1_000_000)} MICROSECOND"
        f" LIMIT {int(limit)}",
        (migration,),
    )
