"""Keys whose refused changes a person has decided to set aside, with the reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.change import Key, key_json
from migrate.model.errors import ServerError
from migrate.model.table import TableId
from migrate.state.columns import how_many, is_table, of_table, table_row
from migrate.state.database import metadata

table = sa.Table(
    "skip_request",
    metadata,
    *of_table(key=True),
    sa.Column("key_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("key_text", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("created", sa.DateTime),
)


@dataclass(frozen=True, slots=True)
class SkippedKey:
    id: TableId
    key: str  # a JSON list of texts
    reason: str
    since: datetime


def request(connection: sa.Connection, migration: str, id_: TableId, key: Key, reason: str) -> None:
    """Set aside what is refused of this key from now on."""
    new = {**table_row(migration, id_), "key_hash": _hash(key), "key_text": key_json(key), "reason": reason}
    connection.execute(insert(table).values(new).on_duplicate_key_update(reason=reason))


def withdraw(connection: sa.Connection, migration: str, id_: TableId, key: Key) -> None:
    """What is refused of this key stops its partition again."""
    connection.execute(sa.delete(table).where(*_is(migration, id_, key)))


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """Those of a table that is removed: nothing of it is refused any more."""
    connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))


def every(connection: sa.Connection, migration: str) -> list[SkippedKey]:
    rows = connection.execute(
        sa.select(
            table.c.source, table.c.table_schema, table.c.table_name, table.c.key_text, table.c.reason, table.c.created
        )
        .where(table.c.migration == migration)
        .order_by(table.c.created)
    )
    return [SkippedKey((row[0], row[1], row[2]), row[3], row[4], row[5]) for row in rows]


def reasons(connection: sa.Connection, migration: str, id_: TableId) -> dict[Key, str]:
    """The keys of a table whose refused changes are set aside, and why."""
    rows = connection.execute(sa.select(table.c.key_text, table.c.reason).where(*is_table(table, migration, id_)))
    return {tuple(json.loads(text)): told for text, told in rows}


def count(connection: sa.Connection, migration: str) -> int:
    return how_many(connection, table, [table.c.migration == migration])


class SkipReasons:
    """What the merger asks when a change is refused."""

    def __init__(
        self,
        run: Callable[[Callable[[sa.Connection], Any]], Any],
        migration: str,
        alike: Callable[[TableId, Key, Collection[Key]], Collection[Key]],
    ) -> None:
        """run: runs an action in a transaction of the state database. alike: those of other keys of a table that its
        server takes for a key."""
        self._run = run
        self._migration = migration
        self._alike = alike

    def reason(self, id_: TableId, key: Key) -> str | None:
        """Why what is refused of a key is set aside; None: it is not, or the server cannot say so now. A change that is
        refused is tried again in any case, and this asked again."""
        found: dict[Key, str] = self._run(lambda connection: reasons(connection, self._migration, id_))
        if key in found or not found:
            return found.get(key)
        try:
            return next((found[one] for one in self._alike(id_, key, found)), None)
        except ServerError:
            return None


def _is(migration: str, id_: TableId, key: Key) -> list[sa.ColumnElement[bool]]:
    return [*is_table(table, migration, id_), table.c.key_hash == _hash(key)]


def _hash(key: Key) -> bytes:
    return hashlib.sha256(key_json(key).encode()).digest()
