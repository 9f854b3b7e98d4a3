"""One row change, and the key that tells rows apart."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.model.message import Message, Op, Row

Key = tuple[str, ...]
"""The key's canonical texts, in key order."""


class NoChange(Enum):
    """What gives a row that no change of a log gives. The values are what the state and the targets store of it."""

    REFRESH = Coordinate(0, 0, 0, 0)
    """The row was read at its source again."""
    COPY = Coordinate(-1, 0, 0, 0)
    """The full copy brought it: it is older than any change of its key."""


Origin = Coordinate | NoChange
"""The coordinate of the change that gives a row; or what gives it else."""
_NO_CHANGE: dict[Coordinate, Origin] = {one.value: one for one in NoChange}


def stored(origin: Origin) -> Coordinate:
    """An origin as the state and the targets store it."""
    return origin.value if isinstance(origin, NoChange) else origin


def from_stored(at: Coordinate) -> Origin:
    """The origin that is stored so."""
    return _NO_CHANGE.get(at, at)


class Change(NamedTuple):
    """A row insert, update or delete. An update of the key comes as two of them (invariant per-key-order)."""

    source: str
    database: str
    table: str
    op: Op
    key: Key
    before: Row | None
    after: Row | None
    coordinate: Coordinate
    es: int = 0


def key_of(row: Row, columns: tuple[str, ...], where: str) -> Key:
    """The key of a row image. Raises StopError when a part is missing or NULL."""
    parts = []
    for name in columns:
        value = row.get(name)
        if value is None:
            raise StopError(
                f"{where}: key column {name} is missing or NULL in a row image",
                hint="docs/messages.md describes the messages",
                code=Code.MESSAGE,
            )
        parts.append(value)
    return tuple(parts)


def changes(message: Message, key: tuple[str, ...]) -> Iterator[Change]:
    """The row changes of a message, in order. Raises StopError for a type that is no row change."""
    where = f"{message.database}.{message.table} at {tuple(message.coordinate)}"
    if message.type not in Op.__members__:
        raise StopError(f"{where}: message type {message.type} is not a row change", code=Code.MESSAGE)
    op = Op(message.type)
    for index, (row, coordinate) in enumerate(zip(message.data, message.coordinates(), strict=True)):
        before: Row | None = None
        if op is Op.DELETE:
            before = row
        elif op is Op.UPDATE:
            before = {**row, **(message.old[index] if message.old else {})}
            if key_of(before, key, where) != key_of(row, key, where):
                raise StopError(
                    f"{where}: an update changes the key; it must come as a delete and an insert",
                    hint="this service's publisher splits such an update; another producer has to do the same",
                    code=Code.MESSAGE,
                )
        after = None if op is Op.DELETE else row
        yield Change(
            message.source,
            message.database,
            message.table,
            op,
            key_of(row, key, where),
            before,
            after,
            coordinate,
            message.es,
        )


def key_json(key: Sequence[str]) -> str:
    """The key as it stands in state tables and reports: a JSON list of texts."""
    return json.dumps(list(key), ensure_ascii=False)


def partition_of(database: str, table: str, key: Key | None, partitions: int) -> int:
    """The partition of a key's changes: CRC-32 of table and key texts, each ended by a zero byte, modulo partitions.

    With key None the whole table falls into one partition (invariant per-key-order). Final: routing a key differently
    later would let its changes overtake each other.
    """
    parts = [f"{database}.{table}", *(key or ())]
    return zlib.crc32("".join(f"{part}\0" for part in parts).encode("utf-8", "surrogatepass")) % partitions
