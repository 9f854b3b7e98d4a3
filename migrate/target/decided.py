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
_KEYS = 50_000
"""In one row: a body far below what a packet or MEDIUMBLOB takes, however long the keys."""
_LEVEL = 1
_READ = 5_000


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
    for start in range(0, len(decided), _KEYS):
        lines = (_text((one.place, one.key, one.what, one.coordinate)) for one in decided[start : start + _KEYS])
        body = zlib.compress("\n".join(lines).encode(), _LEVEL)
        connection.execute(f"INSERT INTO {_TABLE} (migration, body) VALUES (%s, %s)", (migration, body))


def find(connection: Connection, migration: str, places: Collection[str], key: Key) -> list[Kept]:
    """What was decided for a key at these places of the database, oldest first, in the latest transactions."""
    rows = connection.query(
        f"SELECT made, body FROM {_TABLE} WHERE migration = %s ORDER BY id DESC LIMIT {_READ}", (migration,)
    )
    wanted = _text(key)
    return [
        Kept(datetime.fromisoformat(str(made)), one)
        for made, body in reversed(rows)
        for one in _lines(zlib.decompress(bytes(body)).decode(), wanted)
        if one.key == key and one.place in places
    ]


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
