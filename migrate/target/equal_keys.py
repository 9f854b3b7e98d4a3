"""Whether two keys, or two values of a unique key, are one at the source, where the target takes them for one.

The target's collation may be another one than the source's. A server of the other flavour has the nearest one
(`collation_on`), by another version of Unicode: of some 3,500 characters, most of them digits of rare scripts and
letters that came after Unicode 9, it takes several for one that the source tells apart. And a table may have been
altered on one side alone. Two rows of the source would take each other's place at the target, or evict each other for
ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import pymysql

from migrate.model.change import Key, key_json
from migrate.model.errors import Code, ServerError, StopError
from migrate.model.table import Column, Table
from migrate.mysql import errors
from migrate.mysql.connection import connect
from migrate.mysql.quoting import quote
from migrate.mysql.values import Parameter, parameter
from migrate.settings import Settings

_KNOWN = 10_000
_ALTER = "where the target table has another collation than the source's, alter it to match"
_AND_THEN = "then `migrate parked skip` and `migrate verify --repair`"
Texts = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key; prefix: how many of its characters count, None for all."""

    column: Column
    prefix: int | None = None


class EqualKeys:
    """Asks the sources. For any thread."""

    def __init__(self, where_read: Callable[[], Settings]) -> None:
        """where_read: the settings with each source where its publisher reads it."""
        self._where_read = where_read
        self._lock = threading.Lock()
        self._known: dict[tuple[object, tuple[str | None, ...], tuple[str | None, ...]], bool] = {}

    def refuse_others(self, table: Table, key: Key, stored: Key) -> None:
        """Raise StopError when the row that the target has for a key is another one's; also when the source does not
        say."""
        if not self._are_one(table, [KeyColumn(column) for column in table.key_columns], key, stored):
            raise StopError(
                f"{table.full_name}: the target treats key {key_json(key)} and key {key_json(stored)} as equal, but"
                f" {_for_two(table)}; the target can hold only one of the rows",
                hint=f"{_ALTER}; else give one of them another key at the source, {_AND_THEN}",
                code=Code.SOURCE,
            )

    def refuse_evicting(
        self, table: Table, parts: Sequence[KeyColumn], row: tuple[Key, Texts], holder: tuple[Key, Texts]
    ) -> None:
        """Raise StopError when a row shall make way at the target for a unique value that it does not have at the
        source; also when the source does not say.

        parts: the columns of the unique key; row, holder: the key of each and its texts in these columns.
        """
        if not self._are_one(table, parts, row[1], holder[1]):
            names = ", ".join(part.column.name for part in parts)
            raise StopError(
                f"{table.full_name}: the target treats the values of key {key_json(row[0])} and key"
                f" {key_json(holder[0])} in its unique key ({names}) as equal, but {_for_two(table)}; each row would"
                " evict the other for ever",
                hint=f"{_ALTER}; else give one of them another value at the source, {_AND_THEN}",
                code=Code.SOURCE,
            )

    def _are_one(self, table: Table, parts: Sequence[KeyColumn], one: Texts, other: Texts) -> bool:
        """Of columns that are no texts both servers think alike: there is nothing to ask."""
        differ = [
            (part, first, second)
            for part, first, second in zip(parts, one, other, strict=True)
            if first != second and first is not None and second is not None and part.column.charset
        ]
        if not differ:
            return True
        asked = ((table.id, *(part for part, _, _ in differ)), tuple(one), tuple(other))
        with self._lock:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            if asked not in self._known:
                self._known[asked] = self._ask(table, differ)
            return self._known[asked]

    def _ask(self, table: Table, differ: Sequence[tuple[KeyColumn, str, str]]) -> bool:
        conditions, arguments = [], list[Parameter]()
        for part, one, other in differ:
            column, read = part.column, parameter(part.column)
            text = f"CONVERT(%s USING {quote(str(column.charset))}) COLLATE {quote(str(column.collation))}"
            if part.prefix is not None:
                text = f"LEFT({text}, {part.prefix})"
            conditions.append(f"{text} = {text}")
            arguments += [read(one), read(other)]
        name = f"source '{table.source}'"
        try:
            with closing(connect(self._where_read().source(table.source), name)) as connection:
                ((found,),) = connection.query(f"SELECT {' AND '.join(conditions)}", arguments)
        except (pymysql.MySQLError, OSError, ServerError) as error:
            told = f"{name} cannot be asked whether two keys of {table.full_name} are one: {errors.text(error)}"
            raise StopError(told, hint="it is tried again by itself", code=Code.SOURCE) from error
        return bool(int(str(found)))


def _for_two(table: Table) -> str:
    return f"source '{table.source}' treats them as different: their collations are not the same"
