"""What was decided for each key, kept for a while beside the rows, for `migrate explain`.

A row for up to 2,000 keys of a transaction, compressed: one a key would cost as much as writing the key's own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from migrate.model.change import Key, Origin, from_stored, stored
from migrate.model.coordinate import Coordinate
from migrate.mysql.connection import Connection
from migrate.target.ledger import Spellings

_TABLE = "_migrate_decided"
_KEYS = 2_000
"""In one row: of the longest keys there are, far below what a packet or MEDIUMBLOB takes."""
_LEVEL = 1
_READ = 5_000
_AT_ONCE = 50


Decided = tuple[str, Key, str, Origin]
"""Place, key, what was decided, and what gave the row. A plain tuple: there is one for each row written."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision, and when the target's clock said it was made."""

    made: datetime
    place: str
    what: str
    origin: Origin


def put(connection: Connection, migration: str, decided: Sequence[Decided]) -> None:
    """Keep a transaction's decisions, in it."""
    for start in range(0, len(decided), _KEYS):
        rows = [(place, key, what, stored(origin)) for place, key, what, origin in decided[start : start + _KEYS]]
        body = zlib.compress(_text(rows).encode(), _LEVEL)
        connection.execute(f"INSERT INTO {_TABLE} (migration, body) VALUES (%s, %s)", (migration, body))


def find(connection: Connection, migration: str, places: Collection[str], spellings: Spellings) -> list[Kept]:
    """What was decided for a key at these places of the database, oldest first, among the latest 5,000 rows."""
    ids = connection.query(f"SELECT id FROM {_TABLE} WHERE migration = %s ORDER BY id DESC LIMIT {_READ}", (migration,))
    wanted = _text(spellings.key)
    found: list[Kept] = []
    for start in range(0, len(ids), _AT_ONCE):  # a few at once: each may be megabytes
        part = [row[0] for row in ids[start : start + _AT_ONCE]]
        marks = ", ".join(["%s"] * len(part))
        rows = connection.query(f"SELECT made, body FROM {_TABLE} WHERE id IN ({marks}) ORDER BY id DESC", part)
        for made, body in rows:
            text = zlib.decompress(bytes(body)).decode()
            if spellings.is_exact and wanted not in text:
                continue
            at = datetime.fromisoformat(str(made))
            kept = [(tuple(its), one) for one in reversed(json.loads(text)) if (its := one[1]) and one[0] in places]
            same = spellings.same(its for its, _ in kept)
            found += [
                Kept(at, place, what, from_stored(Coordinate(*coordinate)))
                for its, (place, _, what, coordinate) in kept
                if its in same
            ]
    return found[::-1]


def _text(value: Sequence[object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def clean_up(connection: Connection, migration: str, seconds: float, limit: int) -> int:
    """Drop what is older than so many seconds by the target's clock; returns how many rows."""
    return connection.execute(
        f"DELETE FROM {_TABLE} WHERE migration = %s AND made < NOW(6) - INTERVAL {int(seconds * 1_000_000)} MICROSECOND"
        f" LIMIT {int(limit)}",
        (migration,),
    )
