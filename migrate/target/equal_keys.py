"""Whether two keys are one at the source, where the target's collation is not the source's own.

A server of the other flavour has the nearest collation (`collation_on`), by another version of Unicode: of some 3,500
characters, most of them digits of rare scripts and letters that came after Unicode 9, it takes several for one that the
source tells apart. Two rows of the source would take each other's place at the target.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pymysql

from migrate.model.change import Key, key_json
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.table import Table
from migrate.mysql import errors
from migrate.mysql.connection import connect
from migrate.mysql.flavours import collation_on
from migrate.mysql.quoting import quote
from migrate.settings import Settings

_KNOWN = 10_000


def is_translated(table: Table, flavour: str) -> bool:
    """Whether a server of this flavour compares a table's keys by other collations than the source."""
    return any(one.collation and collation_on(flavour, one.collation) != one.collation for one in table.key_columns)


class Alike:
    """Asks the sources. For any thread."""

    def __init__(self, where_read: Callable[[], Settings]) -> None:
        """where_read: the settings with each source where its publisher reads it."""
        self._where_read = where_read
        self._lock = threading.Lock()
        self._known: dict[tuple[object, Key, Key], bool] = {}

    def refuse_others(self, table: Table, key: Key, stored: Key) -> None:
        """Raise StopError when the row that the target has for a key is another one's; also when the source does not
        say."""
        asked = ((table.id, table.key_columns), key, stored)
        with self._lock:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            if asked not in self._known:
                self._known[asked] = self._ask(table, key, stored)
            if self._known[asked]:
                return
        raise StopError(
            f"{table.full_name}: the target takes key {key_json(key)} and key {key_json(stored)} for one, and source"
            f" '{table.source}' for two: their collations come from different servers, and the target can hold one row",
            hint="give one of them another key at the source, then `migrate parked skip` and `migrate verify --repair`",
            code=Code.SOURCE,
        )

    def _ask(self, table: Table, key: Key, stored: Key) -> bool:
        one_key, arguments = [], list[str]()
        for column, one, other in zip(table.key_columns, key, stored, strict=True):
            if column.charset and column.collation:
                text = f"CONVERT(%s USING {quote(column.charset)}) COLLATE {quote(column.collation)}"
                one_key.append(f"{text} = {text}")
                arguments += [one, other]
        name = f"source '{table.source}'"
        try:
            with closing(connect(self._where_read().source(table.source), name)) as connection:
                ((found,),) = connection.query(f"SELECT {' AND '.join(one_key)}", arguments)
        except (pymysql.MySQLError, OSError, ServerError) as error:
            told = f"{name} cannot be asked whether two keys of {table.full_name} are one: {errors.text(error)}"
            raise StopError(told, hint="it is tried again by itself", code=Code.SOURCE) from error
        return bool(int(str(found)))
