"""Rows that the copy left out because another row has one of their unique values at the target.

The stream brings such a row: it changed after the copy's beginning, as the source never had the value in both rows. Not
where a foreign key changed it, which is in no log: then it is read at the source again (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.model.change import Key
from migrate.model.table import Table
from migrate.state import pending_markers
from migrate.state.schema_history_reader import HistoryReader
from migrate.target.refresh import requeued_refresh
from migrate.target.rows import slices

_KEYS = 50
"""In a message: of the longest keys they are far below what a broker takes."""


def have_refreshed(connection: sa.Connection, migration: str, table: Table, keys: Sequence[Key]) -> None:
    """Ask for a refresh of rows that were left out, in the transaction that books their chunk as done.

    The request goes the way of the markers of foreign keys, into every partition of the table: with further unique keys
    it has one. Where the server logs what its foreign keys change, it is one too many.
    """
    if keys and HistoryReader(lambda action: action(connection), migration).foreign_keys().get(table.id):
        parts = slices(list(dict.fromkeys(keys)), _KEYS)
        messages = [(table.id, requeued_refresh(table, part)) for part in parts]
        pending_markers.put(connection, migration, messages, copied=False)
