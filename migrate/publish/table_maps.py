"""TABLE_MAP events: which table the row events behind them are of, and how these are decoded."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from migrate.model.table import Table
from migrate.publish import own_writes
from migrate.publish.decode.rows import DecoderCache, RowDecoder
from migrate.publish.decode.tablemap import parse_table_map, peek_table
from migrate.publish.schema.definitions import Definitions

Mapped = tuple[Table, RowDecoder] | str | None
"""A selected table; or the name of one of the service's; or one whose rows nobody wants."""
_KNOWN = 4096


class TableMaps:
    """Of a source's log, at the place where it is read."""

    def __init__(
        self, definitions: Definitions, charsets: Mapping[int, str], databases: Collection[str], *, mariadb: bool
    ) -> None:
        """databases: where the service's tables count."""
        self._definitions = definitions
        self._databases = databases
        self._mariadb = mariadb
        self._decoders = DecoderCache(
            charsets,
            mariadb=mariadb,
            column_types=lambda database, name: {
                column.name: column.type for column in definitions.tables[(database, name)].columns
            },
            complete=definitions.complete,
        )
        self.by_id: dict[int, Mapped] = {}
        """By the table id that row events have, until the transaction or the file ends."""
        self._known: dict[bytes, tuple[int, Mapped]] = {}  # by the bytes of the event

    def add(self, body: bytes) -> None:
        """Take in an event. Raises StopError where the definition of its table is not known, or is another one."""
        known = self._known.get(body)
        if known is not None:
            self.by_id[known[0]] = known[1]
            return
        table_id, database, name = peek_table(body)
        found: Mapped
        if name in own_writes.OWN_TABLES:
            found = name if database in self._databases else None
        else:
            if (database, name) in self._definitions.watched:
                self._definitions.met(parse_table_map(body, mariadb=self._mariadb))
            table = self._definitions.tables.get((database, name))
            found = (table, self._decoders.get(body)) if table is not None else None
        self.by_id[table_id] = found
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[body] = table_id, found

    def end(self) -> None:
        """The transaction or the file is over: table ids are given anew."""
        self.by_id.clear()

    def doubt(self) -> None:
        """A statement was met that may be DDL: what an event means is looked up anew."""
        self._known.clear()

    def forget(self) -> None:
        """Definitions changed."""
        self._decoders.clear()
        self.by_id.clear()
