"""Tables beside the rows of a target database that note keys: by migration, source, place, and the key's hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from migrate.model.change import Key, key_json
from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.mysql.connection import Connection

PLACE: Final = "migration = %s AND source = %s AND place = %s"
BATCH: Final = 500
"""Keys in a statement."""
_COLUMNS = "migration, source, place, key_hash, key_text, table_schema, table_name, incarnation, file_no, tx, ordinal"


def put(
    connection: Connection,
    name: str,
    migration: str,
    table: Table,
    place: str,
    entries: Sequence[tuple[Key, bytes, Coordinate, *tuple[int, ...]]],
    more: Sequence[str] = (),
) -> None:
    """Note keys at a place, in place of earlier notes. name: of the table of notes.

    entries: the key, its hash, and where the change of it stands; then what the columns `more` get. Raises the driver's
    error.
    """
    for start in range(0, len(entries), BATCH):
        part = entries[start : start + BATCH]
        remove(connection, name, migration, table, place, [entry[1] for entry in part])
        arguments: list[object] = []
        for key, key_hash, at, *others in part:
            arguments += (migration, table.source, place, key_hash, key_json(key), table.database, table.name)
            arguments += (*at, *others)
        marks = ", ".join(["(" + ", ".join(["%s"] * (11 + len(more))) + ")"] * len(part))
        connection.execute(f"INSERT INTO {name} ({', '.join((_COLUMNS, *more))}) VALUES {marks}", arguments)


def remove(
    connection: Connection, name: str, migration: str, table: Table, place: str, hashes: Sequence[bytes]
) -> None:
    """Drop the notes of these keys. Raises the driver's error."""
    for start in range(0, len(hashes), BATCH):
        part = hashes[start : start + BATCH]
        marks = ", ".join(["%s"] * len(part))
        connection.execute(
            f"DELETE FROM {name} WHERE {PLACE} AND key_hash IN ({marks})", (migration, table.source, place, *part)
        )
